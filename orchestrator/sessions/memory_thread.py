"""The memory thread: whatever touches the memory runs on it, call after call, and never on the
event loop. Knows nothing of runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from synapse.errors import Conflict, SynapseError

P = ParamSpec("P")
R = TypeVar("R")


class MemoryThread:
    """Does what it is given in the order in which it was asked. `inline` on the event loop's own
    thread, at once: for virtual time.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self.inline = inline
        self._worker = None if inline else ThreadPoolExecutor(1, "synapse-memory")
        self._closed = False

    async def __call__(self, act: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Run it after all that was asked before, and return its result."""
        self._check_open()
        if self._worker is None:
            return act(*args, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(act, *args, **named))

    def aside(self, act: Callable[P, R], *args: P.args, **named: P.kwargs) -> asyncio.Future[R]:
        """Run it after all that was asked before, while the caller goes on."""
        self._check_open()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[R]
        if self._worker is not None:
            result = loop.run_in_executor(self._worker, partial(act, *args, **named))
        else:
            result = loop.create_future()
            try:
                result.set_result(act(*args, **named))
            except Exception as error:
                result.set_exception(error)
        # Its error counts as seen, if nobody asks for the result any more.
        result.add_done_callback(lambda done: done.cancelled() or done.exception())
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise Conflict("this supervisor is closed: make another one")

    async def through(self, awaitable: Awaitable[R]) -> R:
        """Wait until it is done, even if the caller is cancelled meanwhile, however often. Inline
        there is no meanwhile.
        """
        if self.inline:
            return await awaitable
        task, cancelled = asyncio.ensure_future(awaitable), False
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
        """Run this last, and end the thread. Nothing where that was done before."""
        if self._closed:
            return
        self._closed = True
        if self._worker is None:
            last()
            return
        self._worker.submit(last).result()
        self._worker.shutdown()
