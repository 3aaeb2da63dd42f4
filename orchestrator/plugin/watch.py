"""The program that waits for what wakes an idle session: `PYTHON -P watch.py CLIENT [--root DIR]
monitor|rewake`.

It prints a line that names what came; the text itself is given by the hook of the turn that
follows, as all news is, so that each thing is told once. `monitor`: a line on standard output for
each wake. `rewake`: a line on standard error, and the exit code with which the client wakes its
model. It reads the memory and writes nothing into it, calls no model, and ends when its client
does.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from orchestrator.plugin.sessions.state import ClientSession
    from synapse.core import Memory
    from synapse.model.entry import Entry

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODES = ("monitor", "rewake")
WAKES = 2  # the exit code that wakes
LOOK_EVERY = 5.0  # seconds, where no bell rang
# that the hooks of the event which began a wait have to tell what there is
SETTLE = 2.0
MOST = 400  # ids of entries that are remembered


def main(words: Sequence[str]) -> int:
    """Wait; the exit code. Whatever goes wrong here is a line in the log, and wakes nobody."""
    began = time.monotonic()
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)
    from orchestrator.plugin import hook

    client, mode = (words[0], words[-1]) if words else ("", "")
    root = None
    try:
        # A client may wait for this: what is not known to wait in the background does not wait.
        if mode not in MODES or os.environ.get(
            "SYNAPSE_RUN"
        ):  # a run of our own supervisor is told by it
            return 0
        rules = _rules(client)
        pid = _client(rules, hook.client_process)
        ends = Ends(pid)
        if mode == "rewake" and not _is_rewaken(rules, pid, ends):
            return 0
        root = hook.find_workspace(
            list(words), {"cwd": os.environ.get(rules.get("folder", "")) or os.getcwd()}
        )
        if root is None:
            return 0
        return _waited(root, client, pid, ends, mode)
    except BaseException as error:
        hook.log_error(root, client, error, began)
        return 0


def _waited(root: str, client: str, pid: int, ends: Ends, mode: str) -> int:
    import synapse

    with synapse.open(root) as memory:
        if memory.store.readonly:
            return 0
        return Watch(memory, client, pid, ends, mode).wait()


# -- which client, and how it runs -----------------------------------------------------------------


def _rules(client: str) -> Mapping[str, Any]:
    """Return what the client's facts say of wakes: the names of variables, and how its forms are
    told apart.
    """
    from orchestrator.plugin import facts

    rules = facts.load(client).raw.get("wake")
    return rules if isinstance(rules, dict) else {}


def _client(rules: Mapping[str, Any], parent: Callable[[], int]) -> int:
    """Return the client's process: the client says it, else it is the one that started this."""
    declared = os.environ.get(rules.get("pid", ""), "")
    return int(declared) if declared.isdigit() and int(declared) > 1 else parent()


def _is_rewaken(rules: Mapping[str, Any], pid: int, ends: Ends) -> bool:
    """Tell whether a hook may wait in the background: not where the client would wait for it, in a
    session of one question; nor where a monitor waits; nor where nobody could tell that whoever
    talks to the client has hung up, which a client that waits for its hooks would then not notice
    either.
    """
    interactive = rules.get("interactive", {})
    if any(os.environ.get(name) == value for name, value in interactive.items()):
        return False
    return _is_stream(_command(pid), rules.get("stream", ())) and ends.hear_hangup()


def _is_stream(command: Sequence[str], option: Sequence[str]) -> bool:
    """Tell whether a client was started with an option, in two words or in one."""
    if len(option) != 2:
        return False
    return (option[0], option[1]) in set(pairwise(command)) or "=".join(
        option
    ) in command


def _command(pid: int) -> list[str]:
    """Return the command line of a process; nothing where the system does not tell."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


class Ends:
    """Hears that the client ended, or that whoever talks to it hung up. `fd` becomes readable then;
    -1 where this system has no such thing, and one has to look."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = -1
        self._poll: Any = None
        if hasattr(os, "pidfd_open") and hasattr(select, "epoll"):
            try:
                process = os.pidfd_open(pid)
            except OSError:
                return
            self._poll = select.epoll()
            self._poll.register(process, select.EPOLLIN)
            self.fd = self._poll.fileno()

    def hear_hangup(self) -> bool:
        """Listen to the client's standard input too, without reading of it; False where that cannot
        be done: it is no pipe, or not on this system."""
        if self._poll is None:
            return False
        try:
            pipe = os.open(
                f"/proc/{self.pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return False
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            os.close(pipe)
            return False
        self._poll.register(pipe, 0)  # a hang-up is always told
        return True

    def over(self) -> bool:
        """Tell whether it is."""
        if self._poll is not None:
            return bool(self._poll.poll(0))
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


# -- the wait --------------------------------------------------------------------------------------


class Watch:
    """Waits on behalf of the session that a client's process has now."""

    def __init__(
        self, memory: Memory, client: str, pid: int, ends: Ends, mode: str
    ) -> None:
        from orchestrator.plugin import facts
        from orchestrator.runs.lease import client_holder

        self.memory, self.store, self.client, self.ends, self.mode = (
            memory,
            memory.store,
            client,
            ends,
            mode,
        )
        self.root = memory.store.root or ""
        self.holder = client_holder(pid)
        self.facts = facts.load(client)
        self.noticed: dict[str, float] = {}  # when each entry was first seen to wait
        self.looked: object = None

    def wait(self) -> int:
        """Wait until there is something to say, or nobody to say it to; the exit code."""
        from orchestrator.plugin.wakes.idle import SPACING, line
        from synapse.system.signal import NotificationPipe

        woken = Woken.taken(
            os.path.join(self.root, "runs", ".clients", f"{self.holder}.woken")
        )
        if woken is None:
            return 0  # another one waits for this client
        bell = NotificationPipe(self.store.bells or "")
        try:
            until = time.monotonic() + (SETTLE if self.mode == "rewake" else 0.0)
            while not self.ends.over():
                now = time.monotonic()
                entries = self._entries(woken) if now >= until else []
                if entries:
                    woken.add(entry.id for entry in entries)
                    _say(
                        line(entries),
                        sys.stderr if self.mode == "rewake" else sys.stdout,
                    )
                    if self.mode == "rewake":
                        return WAKES
                    until = time.monotonic() + SPACING
                pause = min(
                    LOOK_EVERY, max(until - now, 0.05) if now < until else self._pause()
                )
                bell.wait(pause, self.ends.fd if self.ends.fd >= 0 else None)
            return 0
        finally:
            bell.close()
            woken.close()

    def _pause(self) -> float:
        """Return how long to wait for the bell: not long while something is noticed that a hook may
        still tell."""
        return 1.0 if self.noticed else LOOK_EVERY

    def _entries(self, woken: Woken) -> list[Entry]:
        """Return what is to be said now: what wakes the session's agent, that it was not given."""
        from orchestrator.plugin.wakes.idle import BUSY, due, in_turn

        newest = self._session()
        if newest is None:
            return []
        position = self.store.log.mark(), newest[0], newest[2]
        if position == self.looked and not self.noticed:
            return []
        self.looked = position
        session = newest[1]
        entries = [
            entry for entry in due(self.memory, session) if entry.id not in woken.ids
        ]
        now = time.monotonic()
        self.noticed = {entry.id: self.noticed.get(entry.id, now) for entry in entries}
        if not entries or woken.just():
            return []
        oldest = min(self.noticed.values())
        if in_turn(self.facts, session) and now - oldest < BUSY:
            return []
        self.noticed = {}
        return entries

    def _session(self) -> tuple[str, ClientSession, float] | None:
        """Return the newest session that the client's process holds, its file, and when that
        changed.
        """
        from orchestrator.plugin.sessions import state

        newest = None
        for path, session in state.stored_sessions(self.root):
            if session.client == self.client and session.holder == self.holder:
                try:
                    changed = os.stat(path).st_mtime
                except OSError:
                    continue
                if newest is None or changed > newest[2]:
                    newest = (path, session, changed)
        return newest


class Woken:
    """What a client's sessions were woken for: a file that only one watcher at a time holds."""

    def __init__(self, descriptor: int) -> None:
        self._fd = descriptor
        try:
            values = json.loads(os.pread(descriptor, 1 << 20, 0) or b"{}")
            self.ids: list[str] = [str(id) for id in values.get("ids", ())]
            self.at = float(values.get("at", 0))
        except (ValueError, AttributeError, TypeError):
            self.ids, self.at = [], 0.0

    @classmethod
    def taken(cls, path: str) -> Woken | None:
        """Return the file at a path, held; None where another watcher does."""
        from orchestrator.plugin.sessions.state import make_folder

        make_folder(os.path.dirname(path))
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def add(self, ids: Any) -> None:
        """Remember these, and that it was now."""
        self.ids = [*self.ids, *ids][-MOST:]
        self.at = time.time()
        text = json.dumps({"ids": self.ids, "at": self.at}).encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text, 0)

    def just(self) -> bool:
        """Tell whether the last wake was a moment ago."""
        from orchestrator.plugin.wakes.idle import SPACING

        return 0 <= time.time() - self.at < SPACING

    def close(self) -> None:
        os.close(self._fd)


def _say(text: str, stream: Any) -> None:
    stream.write(f"{text}\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
