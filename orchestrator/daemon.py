"""The daemon of a workspace: one supervisor that stays, recovers abandoned runs, adopts dropped
files, sends webhooks, and starts nightly maintenance, until it is told to go down.

It holds a lock for as long as it lives, and answers on a socket that only its user may open: a line
of JSON asked, a line of JSON answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from orchestrator.nightly.schedule import Alarm
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.sessions.sweep import sweep
from orchestrator.plugin.wakes.idle import Wake, Wakes
from orchestrator.run_store.recovery import Recovery
from orchestrator.runs.records import Run
from orchestrator.runs.task import Task
from orchestrator.supervisor import Supervisor
from orchestrator.team import go_on
from synapse.errors import Conflict, NotFound, StoreBusy, StoreError, SynapseError
from synapse.system.lock import hold
from synapse.system.plain_files import make_folder
from synapse.webhooks.sender import keep_sending

# seconds: a dead supervisor's run is gone on with, and a dropped file adopted, within two
LOOK_EVERY = 0.5
LONGEST_PATH = 100  # bytes that the path of a socket may have everywhere
ANSWER_WITHIN = 5.0
# bytes of a line that is asked: an event of a client, written as JSON
LARGEST = 16 << 20
UP_ALREADY = "a daemon is up in this workspace already; `orchestrator status` shows it"


class Daemon:
    """The daemon of one workspace, in this process. Conflict where there is one already."""

    def __init__(
        self,
        root: str,
        supervisor: Supervisor,
        alarm: Alarm | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.alarm = alarm
        self.note = note  # what its log is told
        self.left: dict[str, str] = {}  # by run, what it waits for
        self._noted: dict[str, str] = {}
        self.socket = os.path.join(_folder(root), ".daemon.sock")
        self.wakes = Wakes(supervisor.run_store.memory)
        self.down = asyncio.Event()
        self.open = asyncio.Event()  # whether runs can be begun
        self.taken: list[str] = []
        self.began = time.monotonic()
        self._teams: dict[str, asyncio.Task[None]] = {}  # by the first run of each
        self._lock = _locked(root)

    async def run(self) -> None:
        """Run until somebody asks it to go down. What still runs then is left for the next
        process.
        """
        waking: set[asyncio.Task[None]] = set()
        store = self.supervisor.run_store.memory.store
        server = await asyncio.start_unix_server(
            self._answer, sock=_bound(self.socket), limit=LARGEST
        )
        try:
            async with server, self.supervisor, self.alarm or nullcontext():
                self.open.set()
                sending = asyncio.create_task(keep_sending(store, self.note, self.down))
                while not self.down.is_set():
                    # who has the lock may let go: the next look finds the same
                    with suppress(StoreBusy):
                        # what is dropped is taken in although nobody reads just now
                        await self.supervisor.memory_thread(store.look)
                        self._looked(await self.supervisor.recover(left=False))
                        for wake in await self._due():
                            waking.add(asyncio.create_task(self._wake(wake)))
                    waking = {task for task in waking if not task.done()}
                    await _either(self.down, LOOK_EVERY)
                await self.supervisor._leave()
                for team in [*self._teams.values()]:
                    team.cancel()
                await sending
        finally:
            os.unlink(self.socket)
            os.close(self._lock)

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
            run = await self.supervisor.memory_thread(
                self.supervisor.run_store.known, root
            )
            await go_on(self.supervisor, run)
        except SynapseError as error:
            if self.note is not None:
                self.note(f"the team of {root} does not go on: {error}")
        finally:
            self._teams.pop(root, None)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                request = json.loads(await reader.readline() or b"{}")
            response = (
                await self._event(request, writer)
                if request.get("do") == "hook"
                else self._status(request)
            )
            async with asyncio.timeout(ANSWER_WITHIN):
                writer.write(json.dumps(response).encode() + b"\n")
                await writer.drain()
        except (
            ValueError,
            AttributeError,
            KeyError,
            OSError,
            TimeoutError,
            SynapseError,
        ):
            pass  # whoever asks in another way is not answered, nor a hook that answers by itself
        finally:
            writer.close()

    async def _due(self) -> list[Wake]:
        """End the runs of clients that are gone; return the sessions that are to be woken. What is
        wrong with any of them is noted once, and is no reason to go down."""
        try:
            await self.supervisor.memory_thread(sweep, self.supervisor.run_store.memory)
            wakes: list[Wake] = await self.supervisor.memory_thread(self.wakes.due)
            return wakes
        except StoreBusy:
            raise
        except Exception as error:
            why = f"sessions of clients are left alone: {type(error).__name__}: {error}"
            if self.note is not None and self._noted.get("") != why:
                self.note(why)
            self._noted[""] = why
            return []

    async def _wake(self, wake: Wake) -> None:
        """Wake an idle session of a client; remember the outcome, and note a failure."""
        well = await asyncio.to_thread(wake.send, dict(os.environ))
        self.wakes.made(wake, well)
        if self.note is not None:
            how = "was woken" if well else "could not be woken"
            self.note(
                f"{wake.client} session {wake.session} {how} for {wake.entries[0].id}"
            )

    async def _event(
        self, asked: Mapping[str, Any], writer: asyncio.StreamWriter
    ) -> dict[str, Any]:
        """Return what a client's hook prints for an event. The hook is told when its turn has come,
        and is not answered after its time: by then it has answered itself, and what is given twice
        is lost.
        """
        loop = asyncio.get_running_loop()

        def answered() -> str:
            if time.monotonic() > float(asked["until"]):
                raise ValueError("the hook has answered itself")
            loop.call_soon_threadsafe(writer.write, b'{"begun": true}\n')
            fields = (
                str(asked["client"]),
                asked["payload"],
                asked.get("pid"),
                str(asked.get("identity", "")),
            )
            return answer(self.supervisor.run_store.memory, *fields)

        return {"answer": await self.supervisor.memory_thread(answered)}

    def _status(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.get("do") == "down":
            self.down.set()
        seconds = time.monotonic() - self.began
        fields = {
            "pid": os.getpid(),
            "seconds": seconds,
            "runs": sorted(self.supervisor.sessions),
            "taken": self.taken,
        }
        return fields | {
            "left": self.left,
            "jobs": sorted(self.alarm.running) if self.alarm else [],
        }


def ask(root: str, do: str) -> dict[str, Any]:
    """Return the answer of a workspace's daemon; raise NotFound where none is up."""
    path = os.path.join(root, "runs", ".daemon.sock")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line,
        _short(path) as near,
    ):
        line.settimeout(ANSWER_WITHIN)
        try:
            line.connect(near)
            line.sendall(json.dumps({"do": do}).encode() + b"\n")
            with line.makefile("r", encoding="utf-8") as answer:
                reply: dict[str, Any] = json.loads(answer.readline())
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotFound(
                "no daemon is up in this workspace; `orchestrator up` starts it",
                root=root,
            ) from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"the daemon of this workspace does not answer: {error}"
            ) from error
    return reply


def is_up(root: str) -> bool:
    """Return whether a daemon holds this workspace, or is still on its way down."""
    try:
        os.close(_locked(root))
    except Conflict:
        return True
    return False


def _folder(root: str) -> str:
    folder = os.path.join(root, "runs")
    make_folder(folder)
    return folder


def _locked(root: str) -> int:
    """Take the lock of the one daemon, which ends with its process."""
    descriptor = hold(os.path.join(_folder(root), ".daemon.lock"))
    if descriptor is None:
        raise Conflict(UP_ALREADY)
    return descriptor


def _bound(path: str) -> socket.socket:
    """Return a socket that listens at the path, for its owner alone. It gets its name once it
    listens, in the place of what a dead daemon left: the lock says that it is dead.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = f"{path}.new"
    before = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        with _short(draft) as near:
            bound.bind(near)
        bound.listen()
        os.replace(draft, path)
    except OSError as error:
        bound.close()
        raise StoreError(f"{path} cannot be listened on: {error}") from error
    finally:
        os.umask(before)
    return bound


@contextmanager
def _short(path: str) -> Iterator[str]:
    """Return a path to the same place that is short enough for a socket: through a link, where it
    has to be.
    """
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="orc-", dir="/tmp") as near:
        os.symlink(os.path.abspath(os.path.dirname(path)), f"{near}/runs")
        yield f"{near}/runs/{os.path.basename(path)}"


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not longer."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
