"""Until when somebody waits for what is read: behind that, reading goes no further.

A server sets it for a request, in whose threads it holds. Called by the index.
"""

from __future__ import annotations

from _contextvars import ContextVar
from time import monotonic

from synapse.errors import StoreBusy

NEVER = float("inf")


class Deadline:
    """When a reader stops waiting, on the monotonic clock."""

    def __init__(self, until: float) -> None:
        self.until = until

    def lift(self) -> None:
        """Let it go on without an end: the answer has begun."""
        self.until = NEVER


DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise StoreBusy where nobody waits any more."""
    deadline = DEADLINE.get()
    if deadline is not None and monotonic() > deadline.until:
        raise StoreBusy("this takes longer than its reader waits")
