"""The place of the next line of a log, and who decides about a record there, under its lock."""

from __future__ import annotations

from collections.abc import Callable

from synapse.model.records import Record
from synapse.system.typed import NamedTuple

GENESIS = "0" * 64


class Tail(NamedTuple):
    """Where the journal ends: all that the next line depends on."""

    seq: int
    chain: str
    at: int
    day: str
    n: int
    end: int
    start: int = -1  # where the last line begins, in the segment that is written to


NOTHING = Tail(0, GENESIS, 0, "", 0, 0)  # of a journal without lines

Place = Callable[[Record, Tail, int], Record]
Decide = Callable[
    [], Place
]  # what decides for one attempt: a log that others were faster at asks anew


class Keeper:
    """Knows what the lines say, and is asked under the lock. This one knows nothing; `Commit` asks
    the index.
    """

    def check(self) -> None:
        """Look at the journal before a line follows one that this process does not know."""

    def hear(self) -> None:
        """Take in the keys of agents that came or went since this was last called."""

    def minted(self, day: str) -> int:
        """Return the highest number that an id of the day has."""
        return 0


NOBODY = Keeper()
