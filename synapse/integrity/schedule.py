"""When a process that writes makes checkpoints. `Memory` asks with every tenth record, so nothing
heavy is imported here; `checkpoints` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from synapse.formats.wants import EVERY
from synapse.integrity.last_signed import last_signed
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.store import Store

LEAST = 10  # records from one checkpoint to the next
PAUSE = 1.0  # seconds from one to the next in a process that writes much


class Schedule:
    """The schedule of one process: a checkpoint where a record passes the number at which one is
    due, but not in the first second, nor two within one. What is due then waits for the next
    record, or for the end of the process, and is none where another process signed meanwhile.
    """

    def __init__(self, store: Store, attempt: Callable[[Store, int], None]) -> None:
        self.store, self.attempt = store, attempt
        self.due, self.last = False, 0
        self.earliest = monotonic() + PAUSE

    def reached(self, first: int, last: int) -> None:
        """Note that these records were written. Whoever wrote them has been served already: what
        fails here is found by `doctor`, and made up for by the next.
        """
        self.last = last
        if not self.due and last // LEAST != (first - 1) // LEAST:
            every = every_of(self.store)
            self.due = bool(every) and last // every != (first - 1) // every
        if self.due and (now := monotonic()) >= self.earliest:
            self.earliest = now + PAUSE
            self.finish()

    def finish(self) -> None:
        """Make the checkpoint that is due, of what this process wrote."""
        if self.due:
            self.due = False
            signed = last_signed(self.store.root or "")
            if signed is None or self.last - signed.size >= every_of(self.store):
                self.attempt(self.store, self.last)


def every_of(store: Store) -> int:
    """Return how many records lie between two checkpoints; 0 where none are made."""
    block = dict(store.settings.other).get("checkpoints")
    value = block.get("every", EVERY) if isinstance(block, dict) else EVERY
    number = int(value) if str(value).isdecimal() else 0
    return 0 if str(value) == "off" else max(number or EVERY, LEAST)
