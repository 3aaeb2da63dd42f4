"""Virtual time for users' own tests: an event loop whose clock jumps to the next thing that is due,
and never waits.

With it, with a memory that reads the same clock and with a supervisor that is `inline` and has a
seed, a team of scripted agents takes the same course every time, however fast the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from synapse.model.clock import micros
from synapse.model.entry import SECOND

T = TypeVar("T")
LOOK = 32  # rounds of a loop that has work, after which files are looked at


class VirtualTime:
    """A clock in microseconds, and the loop that moves it."""

    def __init__(self, start: str = "2026-02-01T09:00:00Z") -> None:
        self._start = micros(start)
        self.elapsed = 0.0

    def __call__(self) -> int:
        """Return the virtual time, for whatever takes a `clock=`."""
        return self._start + round(self.elapsed * SECOND)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end; sleeping takes no time."""
        loop = _Loop(self)
        try:
            return loop.run_until_complete(work)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, time passes instead. While it has work, files
    are looked at now and then alone: always when it has none, so no time passes over one that is
    ready.
    """

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time
        self._busy = 0

    def select(self, timeout: float | None = None) -> Any:
        self._busy = self._busy + 1 if timeout == 0 else 0
        if self._busy % LOOK:
            return []
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError(
                "everything waits for something that nobody will do: the course of"
                " this run is broken"
            )
        self._time.elapsed += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, time: VirtualTime) -> None:
        self._virtual = time
        super().__init__(_Selector(time))

    def time(self) -> float:
        return self._virtual.elapsed
