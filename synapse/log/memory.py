"""The memory log: a list. For tests, for scenarios, and for a team that lives no longer than its
process.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from synapse.errors import Conflict, NotFound, StoreError
from synapse.log.line import agent_record, entry_record
from synapse.model import clock, kinds
from synapse.model.agents import Agent
from synapse.model.entry import Entry, mint, minted
from synapse.model.records import Guard, Lost, Record, demand
from synapse.model.settings import Settings
from synapse.privacy.records import safe
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index


class MemoryLog:
    """Records in a list, under one lock; the behaviour of the protocol, without the disk."""

    def __init__(
        self, clock: Callable[[], int] = clock.now, settings: Settings | None = None
    ) -> None:
        self.clock = clock
        self.doubts = 0
        self.damaged: set[int] = set()
        self.forked = False
        self.records: list[Record] = []
        self.declared: dict[str, Agent] = {}
        self.declared_settings = settings or Settings()
        self.lock = RLock()
        self.day = ("", 0)
        self.state: Index | None = None

    def append(
        self, record: Record, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        record = safe(record)
        with self.lock:
            if once is not None and (first := self._derived().first(record.by, once)) is not None:
                return self.at(first)
            if unless is not None:
                demand(unless, self._derived().keyed)
            at = clock.stamp(self.clock(), self.records[-1].at if self.records else 0)
            if record.entry is not None:
                record = entry_record(record, at, self._claim(at, record.entry), alias_free=False)
            seq = len(self.records) + 1
            record = record._replace(seq=seq, at=at, once=once, entry=None)
            self.records.append(record)
            return record

    def append_all(
        self, batch: Mapping[str, Record], *, unless: Guard | None = None
    ) -> list[Record]:
        with self.lock:
            state = self._derived()
            firsts = [state.first(record.by, once) for once, record in batch.items()]
            if None in firsts:
                demand(unless, state.keyed)
            return [self.append(record, once=once) for once, record in batch.items()]

    def get(self, id: str) -> Record:
        seq = self._derived().holder(id)
        if seq is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return self.at(seq)

    def at(self, seq: int) -> Record:
        if not 0 < seq <= len(self.records):
            raise NotFound(f"the log has no record {seq}", seq=seq)
        return self.records[seq - 1]

    def redact(self, record: Record) -> None:
        """Take the text of an entry out of the log."""
        with self.lock:
            self.records[record.seq - 1] = record._replace(
                text=None, sha=sha256((record.text or "").encode())
            )

    def since(self, cursor: int = 0) -> Iterator[Record]:
        return iter(self.records[cursor:])

    def batch(self, cursor: int, limit: int, after: str = "") -> tuple[list[Record], str]:
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
        """Do nothing: a log in memory has no files."""

    def archive(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Record.new("archive", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Record.new("restore", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def agents(self) -> Iterable[Agent]:
        return list(self.declared.values())

    def settings(self) -> Settings:
        return self.declared_settings

    def register(self, agent: Agent, by: str, was: Agent | None = None) -> Record:
        self.declared[agent.id] = agent
        return self.append(agent_record(agent, by, was))

    def close(self) -> None:
        pass

    def recover(self, records: Iterable[Record]) -> None:
        """Become the copy of another log."""
        with self.lock:
            self.records.extend(records)
            numbers = [own for record in self.records if (own := minted(record.id or ""))]
            self.day = max(numbers, default=self.day)

    def _claim(self, at: int, entry: Entry) -> str:
        """Return the id of an entry: the next of the day, or the writer's own for what is no plain
        entry.
        """
        if entry.kind != kinds.ENTRY:
            if (
                kinds.kind_of(entry.id) != entry.kind
                or self._derived().holder(entry.id) is not None
            ):
                raise Conflict(
                    f"{entry.id!r} is taken, or is no id of {entry.kind}s: nothing was written",
                    id=entry.id,
                )
            return entry.id
        day = clock.day(at)
        if self.day[0] != day:  # a new one, or an old one: a clock was ahead
            self.day = (day, self._derived().minted(day))
        number = self.day[1] + 1 if self.day[0] == day else 1
        self.day = (day, number)
        return mint(day, number)

    def _derived(self) -> Index:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        self.state.catch_up()
        return self.state
