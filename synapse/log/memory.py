"""The memory log: a list. For tests, for scenarios, and for a team that lives no longer than its
process.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from synapse.errors import Conflict, NotFound, StoreError
from synapse.log.line import act_line, agent_pending, entry_line
from synapse.model import clock, kinds
from synapse.model.agents import Agent
from synapse.model.entry import mint, minted
from synapse.model.protocols import State
from synapse.model.records import Guard, Lost, Pending, Record, demand
from synapse.model.settings import Settings


class MemoryLog:
    """Records in a list, under one lock; the behaviour of the protocol, without the disk."""

    def __init__(
        self, clock: Callable[[], int] = clock.now, settings: Settings | None = None
    ) -> None:
        self.clock = clock
        self.doubts = 0
        self.forked = False
        self.records: list[Record] = []
        self.declared: dict[str, Agent] = {}
        self.declared_settings = settings or Settings()
        self.lock = RLock()
        self.day = ("", 0)
        self.state: State | None = None

    def append(
        self, pending: Pending, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        with self.lock:
            if (
                once is not None
                and (first := self._derived().first(pending.by, once)) is not None
            ):
                return self.at(first)
            if unless is not None:
                demand(unless, self._derived().keyed)
            at = max(self.clock(), self.records[-1].at + 1 if self.records else 0)
            if pending.entry is None:
                line = act_line(pending, once)
            else:
                line = entry_line(
                    pending, at, *self._claim(at, pending), once, alias_free=False
                )
            record = Record(
                len(self.records) + 1,
                at,
                line.kind,
                line.by,
                line.id,
                line.fields,
                line.text,
                line.path,
                once,
                line.key,
            )
            self.records.append(record)
            return record

    def append_all(
        self, batch: Mapping[str, Pending], *, unless: Guard | None = None
    ) -> list[Record]:
        with self.lock:
            state = self._derived()
            if unless is not None and any(
                state.first(each.by, once) is None for once, each in batch.items()
            ):
                demand(unless, state.keyed)
            return [self.append(pending, once=once) for once, pending in batch.items()]

    def get(self, id: str) -> Record:
        seq = self._derived().holder(id)
        if seq is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return self.at(seq)

    def at(self, seq: int) -> Record:
        if not 0 < seq <= len(self.records):
            raise NotFound(f"the log has no record {seq}", seq=seq)
        return self.records[seq - 1]

    def since(self, cursor: int = 0) -> Iterator[Record]:
        return iter(self.records[cursor:])

    def batch(
        self, cursor: int, limit: int, after: str = ""
    ) -> tuple[list[Record], str]:
        records = self.records[cursor : cursor + limit]
        return records, str(records[-1].seq) if records else ""

    def proof(self, seq: int) -> str:
        return str(seq)

    def holds(self, proof: str) -> bool:
        return int(proof or 0) <= len(self.records)

    def last(self) -> int:
        return len(self.records)

    def mark(self) -> tuple[int, int]:
        return 0, len(self.records)

    def boot(self) -> str:
        return "-"

    def explain(self, lost: Lost) -> str:
        return "its owner took records back"

    def turn(self) -> int:
        return 0

    def fork(self, turn: int) -> int | None:
        return None

    def restart(self, floor: int, forget: bool = False) -> None:
        """There are no files."""

    def archive(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Pending("archive", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Pending("restore", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def agents(self) -> Iterable[Agent]:
        return list(self.declared.values())

    def settings(self) -> Settings:
        return self.declared_settings

    def register(self, agent: Agent, by: str, was: Agent | None = None) -> Record:
        self.declared[agent.id] = agent
        return self.append(agent_pending(agent, by, was))

    def close(self) -> None:
        pass

    def recover(self, records: Iterable[Record]) -> None:
        """Begin as the copy of another log."""
        with self.lock:
            self.records.extend(records)
            taken = [own for record in self.records if (own := minted(record.id or ""))]
            self.day = max(taken, default=self.day)

    def _claim(self, at: int, pending: Pending) -> tuple[str, int]:
        day = clock.day(at)
        if pending.entry is not None and pending.entry.kind != kinds.ENTRY:
            id = pending.entry.id
            if (
                kinds.kind_of(id) != pending.entry.kind
                or self._derived().holder(id) is not None
            ):
                raise Conflict(
                    f"{id!r} is taken, or is no id of {pending.entry.kind}s: nothing was written",
                    id=id,
                )
            return id, self.day[1] if self.day[0] == day else 0
        n = self.day[1] + 1 if self.day[0] == day else 1
        self.day = (day, n)
        return mint(day, n), n

    def _derived(self) -> State:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        self.state.catch_up()
        return self.state
