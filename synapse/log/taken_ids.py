"""Which ids are taken, asked under the log's lock: without waiting for the index, by reading on
from where one was.

The index knows what it took in; what came since is read from the journal, each line once, unless
this process wrote it. Also how an id is claimed for what is no plain entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from synapse.errors import Conflict, StoreError
from synapse.model import kinds
from synapse.model.placement import Tail
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index
    from synapse.log.files import FilesLog
    from synapse.log.memory import MemoryLog
    from synapse.model.records import Record

AHEAD = 200  # lines that may be read at once to save the index the catching up
KEPT = 10_000


class TakenIds:
    """The ids on the lines after a place, as far as they were read."""

    def __init__(self, log: FilesLog | MemoryLog) -> None:
        self.log = log
        self.floor = self.read = 0
        self.ids: set[str] = set()
        # Lines of this process, noted outside the lock: whoever asks next takes them in.
        self.own: deque[Record] = deque(maxlen=AHEAD)

    def holds(self, state: Index, tail: Tail, id: str) -> bool:
        """Return whether the id is somebody's, be it as another name of an entry."""
        cursor = state.cursor()
        if not self.floor <= cursor <= self.read or len(self.ids) > KEPT:
            self.floor, self.read, self.ids = cursor, cursor, set()
        if tail.seq - self.read > AHEAD:
            state.catch_up()
            self.floor, self.read, self.ids = tail.seq, tail.seq, set()
        self._read_on(tail.seq)
        return id in self.ids or is_taken(state, id)

    def _read_on(self, end: int) -> None:
        while self.own:
            record = self.own.popleft()
            if record.seq == self.read + 1:
                self.ids.update(names_of(record))
                self.read = record.seq
        if self.read >= end:
            return
        for record in self.log.since(self.read, texts=False):
            self.ids.update(names_of(record))
        self.read = end


def is_taken(state: Index, id: str) -> bool:
    """Return whether the index knows an id as somebody's, be it of a record that does not count."""
    return state.holder(id) is not None or state.current.is_foreign(id)


def names_of(record: Record) -> tuple[str, ...]:
    """Return what nothing else may be called because of this record."""
    return tuple(name for name in (record.id, record.fields.get("alias")) if name)


def claim(kind: str, wanted: str, seed: str, dropped: bool, held: Callable[[str], bool]) -> str:
    """Return the id of what is no plain entry: the writer's own, which must be free. A dropped file
    that has none, or a taken one, gets what follows from the state of the log.
    """
    if kinds.kind_of(wanted) == kind and not held(wanted):
        return wanted
    if not dropped:
        raise Conflict(
            f"{wanted!r} is taken, or is no id of {kind}s: nothing was written", id=wanted
        )
    for turn in range(1_000):
        id = kinds.new_id(kind, bytes.fromhex(sha256(f"{seed} {turn}".encode())[:12]))
        if not held(id):
            return id
    raise StoreError("no free id was found")
