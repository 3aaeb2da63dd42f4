"""The daemon of clients' sessions: it answers their hooks, wakes those that are idle, and ends the
runs of those that are gone. A client's first hook starts it, and `orchestrator up` is one too.

It holds a lock for as long as it lives, and answers on a socket that only its user may open: a line
of JSON asked, a line of JSON answered. It begins no run, sends nothing out and tidies nothing: that
is what a person starts `orchestrator up` for.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from orchestrator.plugin import hook
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.sessions.sweep import sweep
from orchestrator.plugin.wakes.idle import Wake, Wakes, has_module
from orchestrator.runs.records import Runs
from orchestrator.sessions.memory_thread import MemoryThread
from synapse.core import Memory
from synapse.errors import Conflict, NotFound, StoreBusy, StoreError, SynapseError
from synapse.hurry import hurried, is_free
from synapse.search.background import embedding

# seconds: a dead supervisor's run is gone on with, and a dropped file adopted, within two
LOOK_EVERY = 0.5
IDLE = 900.0  # seconds without a hook after which it goes down, where no session needs it
ANSWER_WITHIN = 5.0
GONE_WITHIN = 10.0
UNLOCKED_WITHIN = 0.05  # the hook tries once more
# bytes of a line that is asked: an event of a client, written as JSON
LARGEST = 16 << 20
OURS = ("orchestrator", "synapse")
SESSIONS, WORKSPACE = "sessions", "workspace"  # what a daemon is for
UP_ALREADY = "a daemon is up in this workspace already; `orchestrator status` shows it"


class SessionDaemon:
    """The daemon of one workspace's sessions, in this process. Conflict where there is one already,
    unless the `lock` of it is given.
    """

    scope = SESSIONS

    def __init__(
        self,
        memory: Memory,
        note: Callable[[str], None] | None = None,
        lock: int | None = None,
        memory_thread: MemoryThread | None = None,
    ) -> None:
        self.memory, self.root = memory, memory.store.root or ""
        self.note = note  # what its log is told
        self.memory_thread = memory_thread or MemoryThread()
        self.socket = hook.daemon_file(self.root, "sock")
        self.wakes = Wakes(memory)
        self.down = asyncio.Event()
        self.began = self.asked = time.monotonic()
        self.hooks = 0  # that it answered
        self.code = Code()
        self._patience = UNLOCKED_WITHIN
        self._noted: dict[str, str] = {}
        self._waking: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        # While this is open, no other folder gets the place of the workspace on its disk.
        self._folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        lock = hook.hold_daemon(self.root) if lock is None else lock
        if lock is None:
            raise Conflict(UP_ALREADY)
        self._lock = lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d" % os.getpid(), 0)

    async def run(self) -> None:
        """Run until somebody asks it to go down, or nobody needs it any more."""
        server = await asyncio.start_unix_server(
            self._answer, sock=_bound(self.socket), limit=LARGEST
        )
        try:
            async with server, self._beside():
                while not self.down.is_set() and await self._is_wanted():
                    # who has the lock may let go: the next look finds the same
                    with suppress(StoreBusy):
                        await self._look()
                    await _either(self.down, LOOK_EVERY)
                server.close()
                if self._answering:
                    await asyncio.wait(self._answering, timeout=ANSWER_WITHIN)
        finally:
            self._remove()

    def _remove(self) -> None:
        """Take its files away, the lock's at last and while it is held."""
        path, _ = os.path.splitext(self.socket)
        for kind in ("sock", "busy", "locked", "lock"):
            hook.unmark(f"{path}.{kind}")
        os.close(self._lock)
        os.close(self._folder)

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        """Keep up what is at work beside the answers, for as long as this is open."""
        try:
            async with embedding(self.memory.store, self.note, sends=False):
                yield
        finally:
            await asyncio.to_thread(self.memory_thread.close, lambda: None)

    async def _is_wanted(self) -> bool:
        """Return whether the workspace is still there, with hooks that ask or a session that is
        woken from here alone.
        """
        try:
            if not os.path.samestat(os.stat(self.root), os.fstat(self._folder)):
                return False
        except FileNotFoundError:
            return False
        if time.monotonic() - self.asked > IDLE:
            if not await self.memory_thread(_have_sleepers, self.memory):
                return False
            self.asked = time.monotonic()  # asked again after as long
        return True

    async def _look(self) -> None:
        """Take in what is dropped, although nobody reads just now, and wake whom it concerns. Where
        a hook asked or waited in vain, the next may try again.
        """
        await self.memory_thread(self.memory.store.refresh)
        for wake in await self._due():
            self._waking.add(asyncio.create_task(self._wake(wake)))
        self._waking = {task for task in self._waking if not task.done()}
        path, _ = os.path.splitext(self.socket)
        hook.unmark(f"{path}.busy")
        locked = os.path.exists(f"{path}.locked")
        if locked and await self.memory_thread(is_free, self.memory.store):
            hook.unmark(f"{path}.locked")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
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
        except (ValueError, AttributeError, KeyError, OSError, TimeoutError, SynapseError):
            pass  # whoever asks in another way is not answered, nor a hook that answers by itself
        finally:
            self._answering.discard(task)
            writer.close()

    async def _due(self) -> list[Wake]:
        """End the runs of clients that are gone; return the sessions that are to be woken. What is
        wrong with any of them is noted once, and is no reason to go down."""
        try:
            await self.memory_thread(sweep, self.memory)
            wakes: list[Wake] = await self.memory_thread(self.wakes.due)
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
            self.note(f"{wake.client} session {wake.session} {how} for {wake.entries[0].id}")

    async def _event(
        self, asked: Mapping[str, Any], writer: asyncio.StreamWriter
    ) -> dict[str, Any]:
        """Return what a client's hook prints for an event. The hook is told when its turn has come,
        and is not answered after its time: by then it has answered itself, and what is given twice
        is lost. Nor is one that runs on other code, such as after an upgrade.
        """
        self.asked = time.monotonic()
        if asked["code"] != hook.PACKAGES or not self.code.is_current():
            self._outdated()
            raise ValueError("the hook is of another version")
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
                str(asked.get("run", "")),
            )
            try:
                with hurried(self.memory.store, self._patience):
                    text = answer(self.memory, *fields)
            except StoreBusy:
                self._patience = hook.AT_ONCE
                raise
            self._patience = UNLOCKED_WITHIN
            return text

        text = await self.memory_thread(answered)
        self.hooks += 1
        return {"answer": text}

    def _outdated(self) -> None:
        """Make room for a daemon of the hook's own code: the hook starts it. Two installations that
        share a workspace do not do that to each other with every hook.
        """
        if time.monotonic() - self.began > hook.START_AGAIN:
            self.down.set()

    def _status(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.get("do") == "down":
            self.down.set()
        seconds = time.monotonic() - self.began
        return {
            "pid": os.getpid(),
            "scope": self.scope,
            "seconds": seconds,
            "hooks": self.hooks,
            "outdated": not self.code.is_current(),
        }


class Code:
    """The files that this process runs on, as they were when it first saw them."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, int]] = {}
        self.is_current()

    def is_current(self) -> bool:
        """Return whether all of them are what they were: no upgrade came."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if path and name.partition(".")[0] in OURS:
                try:
                    status = os.stat(path)
                except OSError:
                    return False
                now = status.st_ino, status.st_mtime_ns
                if self._files.setdefault(path, now) != now:
                    return False
        return True


def _have_sleepers(memory: Memory) -> bool:
    """Return whether a session is open whose client is woken from outside."""
    running = Runs(memory.store).all(state="running")
    clients = (run.fields.get("engine") for run in running if run.fields.get("attached"))
    return any(has_module(str(client)) for client in clients)


def ask(root: str, do: str) -> dict[str, Any]:
    """Return the answer of a workspace's daemon; raise NotFound where none is up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWER_WITHIN)
        try:
            with _short(hook.daemon_file(root, "sock")) as near:
                line.connect(near)
            line.sendall(json.dumps({"do": do}).encode() + b"\n")
            with line.makefile("r", encoding="utf-8") as lines:
                reply: dict[str, Any] = json.loads(lines.readline())
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotFound(
                "no daemon is up in this workspace; `orchestrator up` starts it", root=root
            ) from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"the daemon of this workspace, process {_pid(root)}, does not answer: {error}"
            ) from error
    return reply


def _pid(root: str) -> str:
    """Return the number of the process that holds the workspace's daemon, as it wrote it down."""
    try:
        with open(hook.daemon_file(root, "lock"), encoding="utf-8") as file:
            return file.read().strip() or "unknown"
    except OSError:
        return "unknown"


def is_up(root: str) -> bool:
    """Return whether this user has a daemon for the workspace, or one on its way down."""
    lock = hook.hold_daemon(root)
    if lock is None:
        return True
    os.unlink(hook.daemon_file(root, "lock"))
    os.close(lock)
    return False


def take_over(root: str) -> int:
    """Return the lock of the workspace's daemon, once one that a hook started is gone for it."""
    end = time.monotonic() + GONE_WITHIN
    while (lock := hook.hold_daemon(root)) is None:
        if time.monotonic() > end:
            raise Conflict(UP_ALREADY)
        with suppress(NotFound, StoreError):  # it may be about to listen, or to end
            ask(root, "down")
        time.sleep(0.05)
    return lock


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
    if len(os.fsencode(path)) <= hook.LONGEST_PATH:
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
