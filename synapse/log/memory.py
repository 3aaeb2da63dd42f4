"""The memory log: a list. For tests, for scenarios, and for a team that lives no longer than its
process.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Iterable, Iterator

from synapse.errors import NotFound
from synapse.log.chain import ids_minted
from synapse.model import clock
from synapse.model.agents import Agent
from synapse.model.placement import NOTHING, Decide, Keeper, Place
from synapse.model.records import Lost, Record
from synapse.model.settings import Settings
from synapse.system.digest import sha256


class MemoryLog:
    """Records in a list, under one lock; the behaviour of the protocol, without the disk."""

    pipes = None  # nobody else follows it
    database = None

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
        self.tail = NOTHING
        self.ruled = True  # whether keys may have come or gone since the keeper was told

    def demand_writable(self) -> None:
        """Return: whoever has it may write."""

    def write(
        self, records: Iterable[Record], decide: Decide, keeper: Keeper
    ) -> list[tuple[Record, bool]]:
        results: list[tuple[Record, bool]] = []
        place = decide()
        with self.lock:
            try:
                for record in records:
                    results.append(self._write(record, place, keeper))
            except BaseException:
                for record in [record for record, new in results if new]:
                    self._put(Record.new("void", record.by, {"seq": record.seq}), self.tail.at)
                raise
        return results

    def _write(self, record: Record, place: Place, keeper: Keeper) -> tuple[Record, bool]:
        if self.ruled:
            keeper.hear()
            self.ruled = False
        at = clock.stamp(self.clock(), self.tail.at)
        tail = self.tail
        if (now := clock.day(at)) != tail.day:  # a new one; or an old one: a clock was ahead
            tail = tail._replace(day=now, n=keeper.minted(now))
        placed = place(record, tail, at)
        if placed.seq:
            return placed, False
        self.tail = tail
        return self._put(placed, at), True

    def _put(self, record: Record, at: int) -> Record:
        placed = record._replace(seq=len(self.records) + 1, at=at, entry=None)
        day = clock.day(at)
        count = ids_minted(self.tail, day, placed.id)
        self.tail = self.tail._replace(seq=placed.seq, at=at, day=day, n=count)
        self.records.append(placed)
        self.ruled = self.ruled or placed.kind == "key"
        return placed

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def occupied(self, path: str) -> bool:
        return False

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

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        return (self.records[seq - 1] for seq in seqs if 0 < seq <= len(self.records))

    def since(self, cursor: int = 0, texts: bool = True) -> Iterator[Record]:
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

    def notes(self) -> list[str]:
        return []

    def was_cut(self, seq: int) -> bool:
        return False

    def explain(self, lost: Lost) -> str:
        return "its owner took records back"

    def restart(self, floor: int, forget: bool = False) -> None:
        """Do nothing: a log in memory has no files."""

    def agents(self) -> Iterable[Agent]:
        return list(self.declared.values())

    def settings(self) -> Settings:
        return self.declared_settings

    def declare(self, agent: Agent) -> str | None:
        self.declared[agent.id] = agent
        return None

    def close(self) -> None:
        pass

    def recover(self, records: Iterable[Record]) -> None:
        """Become the copy of another log."""
        with self.lock:
            for record in records:
                self._put(record, record.at)
