"""How far an index has come: in which log, up to where, where that log parts from earlier ones, and
which records were passed over.

All of it is kept with the index, nearly all in one row. Only `Index` calls this; what it reads of
the log are single records, to find where two logs part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from synapse.index.database import Database
from synapse.index.derive.corrections import Steps, corrected
from synapse.model.records import Record
from synapse.system.json import dumps
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.model.protocols import Log

FORKS = 16  # times that the log was another one, of which it is kept where the two part


class Reached(NamedTuple):
    """What the index was derived from: how far, by the mark and by the proof of the last record;
    how often the log was another one by then; the highest seq ever taken in; the run of the
    machine; the time stamped on the last record; where time steps back; the records that were
    passed over because their lines are damaged; and how many do not count, being foreign.
    """

    mark: tuple[int, int] = (-1, -1)
    turn: int = 0
    seen: int = 0
    boot: str = "-"
    proof: str = ""
    stamped: int = 0
    steps: Steps = Steps()
    lost: tuple[int, ...] = ()
    foreign: int = 0

    def anew(self) -> Reached:
        """Return what is still so where all is derived again, from the beginning of the log."""
        return Reached(turn=self.turn, seen=self.seen, boot=self.boot)


def read_reached(db: Database) -> Reached:
    """Return what the index was derived from."""
    text = db.meta("reached")
    if text is None:
        return Reached(seen=int(db.meta("seen") or 0))
    (segment, size), turn, last_seq, boot, proof, stamped, steps, lost, *rest = json.loads(text)
    caps, floors = (tuple(map(tuple, places)) for places in steps)
    mark, steps = (segment, size), Steps(caps, floors)
    return Reached(mark, turn, last_seq, boot, proof, stamped, steps, tuple(lost), *rest)


def write_reached(db: Database, reached: Reached) -> None:
    """Note what the index was derived from."""
    db.set_meta("reached", dumps(reached))


def note_fork(db: Database, turn: int, common: int) -> None:
    """Note that the log is another one from this turn on, and where the two part."""
    forks = (*(db.meta("forks") or "").split(), f"{turn}:{common}")[-FORKS:]
    db.set_meta("forks", " ".join(forks))
    write_reached(db, read_reached(db)._replace(turn=turn))


def fork_since(db: Database, turn: int) -> int | None:
    """Return the last record that all logs have in common that were indexed since a turn; None if
    nobody knows.
    """
    pairs = [pair.split(":") for pair in (db.meta("forks") or "").split()]
    forks = {int(number): int(seq) for number, seq in pairs}
    turns = range(turn + 1, read_reached(db).turn + 1)
    if not turns or not forks.keys() >= set(turns):
        return None
    return min(forks[number] for number in turns)


def last_common(db: Database, log: Log, end: int) -> int:
    """Return the last record up to which the log is the one that was indexed, by looking at few of
    them.
    """
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        if _is_same(db, log, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _is_same(db: Database, log: Log, seq: int) -> bool:
    """Return whether the record at this place is the one that was indexed. One that was taken back
    is not known.
    """
    row = db.run("trace", {"seq": seq}).fetchone()
    records = log.batch(seq - 1, 1)[0]
    if not records or records[0].seq != seq:
        return False
    record = corrected(records[:1], read_reached(db).steps)[0]
    return row is None or tuple(row) == (record.at, record.id or record.kind)


def still_lost(seqs: Iterable[int], records: Iterable[Record]) -> tuple[int, ...]:
    """Return which of these damaged records are lost still: not given up by one of the records."""
    lost = {*seqs}
    for record in records:
        if record.kind == "repair":
            for first, last, _ in record.fields.get("lines", ()):
                lost -= {*range(first, last + 1)}
    return tuple(sorted(lost))


def changes_of(reached: Reached, lost: tuple[int, ...], foreign: int) -> list[str]:
    """Return what to say of records that are damaged, or do not count, where these were it before
    and that has changed.
    """
    losses = [format_losses(reached.lost)] if reached.lost and reached.lost != lost else []
    differs = reached.foreign and reached.foreign != foreign
    return [*losses, *([format_foreign(reached.foreign)] if differs else [])]


def format_losses(seqs: Sequence[int]) -> str:
    """Return what to say of records that are damaged."""
    first, last = seqs[0], seqs[-1]
    which = f"record {first}" if first == last else f"records {first} to {last}"
    which = which if len(seqs) == last - first + 1 else f"{len(seqs)} records ({which})"
    return (
        f"the journal is damaged: {which} cannot be read, all others can;"
        f" `synapse repair --dry-run` says what can be put back"
    )


def format_foreign(count: int) -> str:
    """Return what to say of records that were written elsewhere and not accepted."""
    which = "1 record was" if count == 1 else f"{count} records were"
    verb = "counts" if count == 1 else "count"
    return (
        f"{which} written elsewhere and {verb} for nothing until you accept them:"
        " `synapse trust --text` shows what they say, and asks"
    )
