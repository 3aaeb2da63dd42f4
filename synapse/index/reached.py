"""How far an index has come: in which log, up to where, and where that log parts from earlier ones.

All of it is kept with the index, as values of its own. Only `Index` calls this; what it reads of
the log are single records, to find where two logs part.
"""

from __future__ import annotations

from synapse.index.corrections import corrected, parse_steps
from synapse.index.database import Database
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.model.protocols import Log

FORKS = 16  # times that the log was another one, of which it is kept where the two part


class Reached(NamedTuple):
    """What the index was derived from: how far, by the mark and by the proof of the last record;
    how often the log was another one by then; the highest seq ever taken in; and the run of the
    machine.
    """

    mark: tuple[int, int] = (-1, -1)
    turn: int = 0
    seen: int = 0
    boot: str = "-"
    proof: str = ""


def read_reached(db: Database) -> Reached:
    """Return what the index was derived from."""
    values = (db.meta("reached") or "").split(" ", 5)
    if len(values) < 6:
        return Reached(seen=int(db.meta("seen") or 0))
    segment, size, turn, highest, boot, proof = values
    return Reached((int(segment), int(size)), int(turn), int(highest), boot, proof)


def write_reached(db: Database, reached: Reached) -> None:
    """Note what the index was derived from."""
    (segment, size), turn, highest, boot, proof = reached
    db.set_meta("reached", f"{segment} {size} {turn} {highest} {boot} {proof}")


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
    steps = parse_steps(db.meta("steps") or "")
    record = corrected(records[:1], steps)[0]
    return row is None or tuple(row) == (record.at, record.id or record.kind)
