"""Times of receipt that a wrong clock stamped, as they are taken: pure.

A clock that is ahead stamps records with a time to come, until somebody whose clock is right writes
again and time steps back: what came before the step was received by then. A clock that is behind
steps back too, and time jumps forward again over all of it when the clock is right: what came in
between was received no earlier than what came before. The lines keep the time that was stamped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synapse.model.clock import AHEAD
from synapse.model.records import Record
from synapse.system.typed import NamedTuple


class Steps(NamedTuple):
    """Records before a place were received by a time: `caps`. Those between two places were
    received no earlier than a time: `floors`.
    """

    caps: tuple[tuple[int, int], ...] = ()
    floors: tuple[tuple[int, int, int], ...] = ()


def steps_of(records: Iterable[Record]) -> Steps:
    """Return where time steps back in a log, and what that says of the records."""
    back: list[tuple[int, int, int]] = []  # steps: the record, the time before, its own
    floors: list[tuple[int, int, int]] = []
    last = 0
    for record in records:
        if record.at < last:
            back.append((record.seq, last, record.at))
        elif record.at - last > AHEAD:
            while back and back[-1][1] - AHEAD <= record.at:
                first, before, _ = back.pop()
                floors.append((first, record.seq, before))
        last = record.at
    return Steps(tuple((seq, at) for seq, _, at in back), tuple(floors))


def is_step(before: int, at: int, steps: Steps) -> bool:
    """Return whether the steps may be others once a record of this time follows one of that."""
    return at < before or (bool(steps.caps) and at - before > AHEAD)


def corrected(records: Sequence[Record], steps: Steps) -> Sequence[Record]:
    """Return the records with the times at which they were received."""
    return [_corrected(record, steps) for record in records] if any(steps) else records


def _corrected(record: Record, steps: Steps) -> Record:
    at = record.at
    for first, end, floor in steps.floors:
        at = max(at, floor) if first <= record.seq < end else at
    for index, cap in steps.caps:
        at = min(at, cap) if record.seq < index else at
    return record if at == record.at else record._replace(at=at)
