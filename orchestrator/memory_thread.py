"""The memory thread: whatever touches the memory runs on it, call after call, and never on the
event loop. Knows nothing of runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from synapse.errors import SynapseError


class MemoryThread:
    """Does what it is given in the order in which it was asked. `inline` on the event loop's own
    thread, at once: for virtual time.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self.inline = inline
        self._worker = None if inline else ThreadPoolExecutor(1, "synapse-memory")

    async def __call__(self, act: Callable[..., Any], *args: Any) -> Any:
        if self._worker is None:
            return act(*args)
        return await asyncio.get_running_loop().run_in_executor(
            self._worker, act, *args
        )

    def aside(self, act: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run it after all that was asked before, while the caller goes on."""
        loop = asyncio.get_running_loop()
        if self._worker is not None:
            done = loop.run_in_executor(self._worker, act, *args)
        else:
            done = loop.create_future()
            try:
                done.set_result(act(*args))
            except Exception as error:
                done.set_exception(error)
        done.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # if nobody asks any more
        return done

    async def through(self, asked: Awaitable[Any]) -> Any:
        """Wait until it is done, even if the caller is cancelled meanwhile, however often. Inline
        there is no meanwhile.
        """
        if self.inline:
            return await asked
        task, cancelled = asyncio.ensure_future(asked), False
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                cancelled = True
        if not cancelled:
            return task.result()
        with contextlib.suppress(SynapseError):
            task.result()
        raise asyncio.CancelledError

    def close(self, last: Callable[[], None]) -> None:
        """Run this last, and end the thread."""
        if self._worker is None:
            last()
            return
        self._worker.submit(last).result()
        self._worker.shutdown()
