"""Runs in an event loop of this process, with their progress shown; Ctrl-C ends them in order."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from orchestrator.cli.frame.progress import Progress

if TYPE_CHECKING:
    from orchestrator.supervisor import Supervisor

T = TypeVar("T")
NOT_DONE = 9  # exit code of work that has ended, but is not done
STOPPED = 130
WATCH_EVERY = 0.2
REASON = "stopped by the operator"


class Ending(NamedTuple):
    """What came of it, and whether it was interrupted."""

    value: Any
    interrupted: bool

    def code(self, done: bool) -> int:
        return 0 if done else STOPPED if self.interrupted else NOT_DONE


def run_and_show(
    supervisor: Supervisor, work: Coroutine[Any, Any, Any], *, quiet: bool = False
) -> Ending:
    """Do the work to its end in an event loop of its own, and return what came of it."""
    progress = Progress(sys.stderr, quiet=quiet)
    with progress:
        return asyncio.run(_run(supervisor, work, progress))


async def _run(
    supervisor: Supervisor, work: Coroutine[Any, Any, Any], progress: Progress
) -> Ending:
    interrupted = asyncio.Event()
    async with supervisor:
        task = asyncio.create_task(work)
        watchers = [
            asyncio.create_task(_show_progress(supervisor, progress)),
            asyncio.create_task(_stop_when_asked(supervisor, interrupted)),
        ]
        loop = asyncio.get_running_loop()
        for which in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(
                which,
                lambda: task.cancel() if interrupted.is_set() else interrupted.set(),
            )
        try:
            value = await task
        finally:
            for which in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(which)
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        await _update(supervisor, progress)
    return Ending(value, interrupted.is_set())


async def _stop_when_asked(supervisor: Supervisor, interrupted: asyncio.Event) -> None:
    """Stop all runs of this process once it is asked to end. A second signal cancels the work."""
    await interrupted.wait()
    while True:  # what was about to begin is stopped too
        for root in {session.run.root for session in supervisor.sessions.values()}:
            await supervisor.stop(root, REASON)
        await asyncio.sleep(WATCH_EVERY)


async def _show_progress(supervisor: Supervisor, progress: Progress) -> None:
    while True:
        await asyncio.sleep(WATCH_EVERY)
        await _update(supervisor, progress)


async def _update(supervisor: Supervisor, progress: Progress) -> None:
    progress.show(
        await supervisor.memory_thread(
            progress.look, supervisor.run_store.store, supervisor.run_store.lease.name
        )
    )
