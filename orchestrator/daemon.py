"""The daemon of a workspace: one supervisor that stays, recovers abandoned runs, adopts dropped
files, sends webhooks, and starts nightly maintenance, until it is told to go down.

It answers clients' hooks and is asked as the daemon of sessions is, whose place it takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from orchestrator.nightly.schedule import Alarm
from orchestrator.plugin.daemon import UP_ALREADY, WORKSPACE, SessionDaemon, take_over
from orchestrator.run_store.recovery import Recovery
from orchestrator.runs.records import Run
from orchestrator.runs.task import Task
from orchestrator.supervisor import Supervisor
from orchestrator.team import go_on
from synapse.errors import Conflict, SynapseError
from synapse.search.background import embedding
from synapse.system.lock import hold
from synapse.system.plain_files import make_folder
from synapse.webhooks.sender import keep_sending


class Daemon(SessionDaemon):
    """The daemon of one workspace, in this process. Conflict where there is one already."""

    scope = WORKSPACE

    def __init__(
        self,
        root: str,
        supervisor: Supervisor,
        alarm: Alarm | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.alarm = alarm
        self.left: dict[str, str] = {}  # by run, what it waits for
        self.open = asyncio.Event()  # whether runs can be begun
        self.taken: list[str] = []
        self._teams: dict[str, asyncio.Task[None]] = {}  # by the first run of each
        self._workspace = _locked(root)
        memory, thread = supervisor.run_store.memory, supervisor.memory_thread
        super().__init__(memory, note, take_over(root), thread)

    def _remove(self) -> None:
        super()._remove()
        os.close(self._workspace)

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        """Supervise runs, sleep until the next job, send webhooks, embed. What still runs at the
        end is left for the next process.
        """
        store = self.memory.store
        embedder = embedding(store, self.note)
        async with self.supervisor, self.alarm or nullcontext(), embedder:
            self.open.set()
            sending = asyncio.create_task(keep_sending(store, self.note, self.down))
            yield
            await self.supervisor._abandon()
            for team in [*self._teams.values()]:
                team.cancel()
            await sending

    async def _is_wanted(self) -> bool:
        """Return that it is: a person started it."""
        return True

    def _outdated(self) -> None:
        """Stay up: it holds runs. Hooks answer by themselves."""

    async def _look(self) -> None:
        """Go on with the runs of the dead, too."""
        await super()._look()
        self._looked(await self.supervisor.recover(left=False))

    async def begin(self, task: Task) -> Run:
        """Begin a run, for whoever asks in this process; Conflict on the way down."""
        await self.open.wait()
        if self.down.is_set():
            raise Conflict("the daemon is going down: nothing is begun any more")
        return await self.supervisor.start(task)

    def _looked(self, found: Recovery) -> None:
        """Keep what a look came to. What is left alone is noted once, and again for a new
        reason.
        """
        self.taken += [run.id for run in found.runs]
        for root in {run.root for run in found.runs} - self._teams.keys():
            self._teams[root] = asyncio.create_task(self._team(root))
        self.left = found.waiting
        for run, why in found.waiting.items():
            if self.note is not None and self._noted.get(run) != why:
                self.note(f"{run} {why}")
        self._noted |= found.waiting

    async def _team(self, root: str) -> None:
        """Go on with the team whose runs these are, where they are a team's: with what its plan has
        after them."""
        try:
            run = await self.supervisor.memory_thread(self.supervisor.run_store.known, root)
            await go_on(self.supervisor, run)
        except SynapseError as error:
            if self.note is not None:
                self.note(f"the team of {root} does not go on: {error}")
        finally:
            self._teams.pop(root, None)

    def _status(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return super()._status(asked) | {
            "runs": sorted(self.supervisor.sessions),
            "taken": self.taken,
            "left": self.left,
            "jobs": sorted(self.alarm.running) if self.alarm else [],
        }


def is_up(root: str) -> bool:
    """Return whether a daemon supervises the workspace, or is still on its way down."""
    try:
        os.close(_locked(root))
    except Conflict:
        return True
    return False


def _locked(root: str) -> int:
    """Take the lock of the one daemon of all users, which ends with its process."""
    folder = os.path.join(root, "runs")
    make_folder(folder)
    descriptor = hold(os.path.join(folder, ".daemon.lock"))
    if descriptor is None:
        raise Conflict(UP_ALREADY)
    return descriptor
