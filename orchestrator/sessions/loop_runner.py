"""The event loop of callers that have none: it runs one coroutine after another, and stays between
them. Used by the supervisor's synchronous methods; knows nothing of runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from synapse.errors import Conflict

T = TypeVar("T")
_LEFT = (
    "left in the middle: {runs}. `supervisor.resume()` goes on with it, in this program or in"
    " another; so does `orchestrator resume RUN`, and `orchestrator stop RUN` ends it"
)


class LoopRunner:
    """An event loop that is made at its first use."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(
        self,
        name: str,
        instead: str,
        work: Callable[[], Coroutine[Any, Any, T]],
        left: Sequence[str] = (),
    ) -> T:
        """Return the result of the work. Conflict in a running event loop, where the caller has to
        await it `instead`. An interruption says what was `left` in the middle.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._runner = self._runner or asyncio.Runner()
        else:
            hint = f"write `await supervisor.{instead}` here"
            raise Conflict(f"{name}() cannot wait in a running event loop: {hint}")
        try:
            return self._runner.run(work())
        except KeyboardInterrupt as interrupt:
            if left:
                interrupt.add_note(_LEFT.format(runs=", ".join(left)))
            raise

    def is_running(self) -> bool:
        """Return whether the caller is in this event loop."""
        loop = asyncio.get_running_loop()
        return self._runner is not None and self._runner.get_loop() is loop

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this last, and end the loop; nothing where it was never used."""
        if self._runner is not None:
            self._runner.run(last())
            self._runner.close()
            self._runner = None
