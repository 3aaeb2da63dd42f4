"""The event loop of callers that have none: it runs one coroutine after another, and stays between
them. Used by the supervisor's synchronous methods; knows nothing of runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from synapse.errors import Conflict

T = TypeVar("T")


class LoopRunner:
    """An event loop that is made at its first use."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(
        self, name: str, instead: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Return the result of the work. Conflict in a running event loop, where the caller has to
        await it `instead`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._runner = self._runner or asyncio.Runner()
        else:
            hint = f"write `await supervisor.{instead}` here"
            raise Conflict(f"{name}() cannot wait in a running event loop: {hint}")
        return self._runner.run(work())

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
