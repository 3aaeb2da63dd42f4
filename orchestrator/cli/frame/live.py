"""Runs in an event loop of this process, with their progress shown. Ctrl-C leaves them in the
middle, and says how they go on.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.cli.frame.progress import Progress
from synapse.errors import SynapseError
from synapse.model.agents import OPERATOR

if TYPE_CHECKING:
    from orchestrator.runs.records import Run
    from orchestrator.supervisor import Supervisor

T = TypeVar("T")
NOT_DONE = 9  # exit code of work that has ended, but is not done
WAITING = 10  # exit code of work that goes on once a person has answered
SIGNALS = (signal.SIGINT, signal.SIGTERM)
WATCH_EVERY = 0.2


class Interrupted(SynapseError):
    """Somebody stopped the command; its runs wait to be gone on with."""

    exit_code = 130


def run_and_show(supervisor: Supervisor, work: Coroutine[Any, Any, T], *, quiet: bool = False) -> T:
    """Do the work to its end in an event loop of its own, and return what came of it. Interrupted
    where a signal came before: what ran is left to be gone on with."""
    progress = Progress(sys.stderr, quiet=quiet)
    with progress:
        return asyncio.run(_run(supervisor, work, progress))


async def _run(supervisor: Supervisor, work: Coroutine[Any, Any, T], progress: Progress) -> T:
    loop = asyncio.get_running_loop()
    leaving: list[asyncio.Task[list[Run]]] = []

    def leave() -> None:
        for which in SIGNALS:  # a second one ends the process at once
            loop.remove_signal_handler(which)
        leaving.append(asyncio.create_task(_abandon(supervisor, task)))

    async with supervisor:
        task = asyncio.create_task(work)
        watcher = asyncio.create_task(_show_progress(supervisor, progress))
        for which in SIGNALS:
            loop.add_signal_handler(which, leave)
        try:
            value = await task
        except asyncio.CancelledError:
            if not leaving:
                raise
            raise _interrupted(await leaving[0]) from None
        finally:
            for which in SIGNALS:
                loop.remove_signal_handler(which)
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            await _update(supervisor, progress)
    return value


async def _abandon(supervisor: Supervisor, work: asyncio.Task[Any]) -> list[Run]:
    """Leave all runs of this process, and end the work that waits for them."""
    left = await supervisor._abandon(OPERATOR)
    work.cancel()
    return left


def _interrupted(left: list[Run]) -> Interrupted:
    """Return the error that says what was left, tree by tree, and what to type."""
    roots = list(dict.fromkeys(run.root for run in left))
    if not roots:
        return Interrupted("stopped; nothing was left in the middle", left=[])
    lines = [
        f"{root} is left in the middle: `orchestrator resume {root}` goes on,"
        f" `orchestrator stop {root}` ends it"
        for root in roots
    ]
    return Interrupted("\n".join(lines), left=roots)


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
