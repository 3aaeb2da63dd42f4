"""The wait for entries that wake the session of one client process. Called by `watch.py`.

Reads the memory and the state of sessions; writes only which entries it woke for.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterable

from orchestrator.plugin import facts
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.state import ClientSession
from orchestrator.plugin.wakes.client_process import ClientEnd
from orchestrator.plugin.wakes.idle import BUSY, SPACING, due, in_turn, line
from orchestrator.runs.files.lease import client_holder
from synapse.core import Memory
from synapse.model.entry import Entry
from synapse.system.signal import NotificationPipe

WAKES = 2  # the exit code that wakes
LOOK_EVERY = 5.0  # seconds, where no notification came
LOOK_SOON = 1.0  # seconds, while a hook may still give an entry that was noticed
# seconds that the hooks of the event which began a wait have to give the news
SETTLE = 2.0
MOST = 400  # ids of entries that are remembered


class Watch:
    """Waits on behalf of the session that a client's process has now."""

    def __init__(self, memory: Memory, client: str, pid: int, end: ClientEnd, mode: str) -> None:
        self.memory, self.store = memory, memory.store
        self.client, self.end, self.mode = client, end, mode
        self.root = memory.store.root or ""
        self.holder = client_holder(pid)
        self.facts = facts.load(client)
        self.noticed: dict[str, float] = {}  # when each entry was first seen to wait
        self.position: object = None  # of the log and the session, when last looked

    def wait(self) -> int:
        """Wait until there is something to say, or the client ended; return the exit code."""
        woken = WokenEntries.lock(_path_of(self.root, self.holder))
        if woken is None:
            return 0  # another one waits for this client
        notification = NotificationPipe(self.store.log.pipes or "")
        rewakes = self.mode == "rewake"
        try:
            until = time.monotonic() + (SETTLE if rewakes else 0.0)
            while not self.end.is_over():
                now = time.monotonic()
                entries = self._entries(woken) if now >= until else []
                if entries:
                    woken.add(entry.id for entry in entries)
                    stream = sys.stderr if rewakes else sys.stdout
                    stream.write(f"{line(entries)}\n")
                    stream.flush()
                    if rewakes:
                        return WAKES
                    until = time.monotonic() + SPACING
                pause = LOOK_SOON if self.noticed else LOOK_EVERY
                if now < until:
                    pause = min(LOOK_EVERY, max(until - now, 0.05))
                notification.wait(pause, self.end.fd if self.end.fd >= 0 else None)
            return 0
        finally:
            notification.close()
            woken.close()

    def _entries(self, woken: WokenEntries) -> list[Entry]:
        """Return the entries to wake for now: those that its hooks did not give in their time."""
        newest = self._newest_session()
        if newest is None:
            return []
        path, session, changed = newest
        position = self.store.log.mark(), path, changed
        if position == self.position and not self.noticed:
            return []
        self.position = position
        waiting = due(self.memory, session)
        entries = [entry for entry in waiting if entry.id not in woken.ids]
        now = time.monotonic()
        self.noticed = {entry.id: self.noticed.get(entry.id, now) for entry in entries}
        if not entries or woken.is_recent():
            return []
        oldest = min(self.noticed.values())
        if in_turn(self.facts, session) and now - oldest < BUSY:
            return []
        self.noticed = {}
        return entries

    def _newest_session(self) -> tuple[str, ClientSession, float] | None:
        """Return the newest session that the client's process holds: its file, the session, and
        when the file changed.
        """
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


def _path_of(root: str, holder: str) -> str:
    return os.path.join(state.folder_of(root), f"{holder}.woken")


def is_watched(root: str, holder: str) -> bool:
    """Tell whether somebody waits to wake the session of a client's process; False where the system
    does not say who holds a lock. To try the lock would turn a watcher away that begins just then.
    """
    try:
        number = os.stat(_path_of(root, holder)).st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return False
    return any("FLOCK" in row and f":{number} " in f"{' '.join(row)} " for row in rows)


class WokenEntries:
    """The entries that a client's sessions were woken for, in a file that one watcher holds."""

    def __init__(self, descriptor: int) -> None:
        self._fd = descriptor
        try:
            values = json.loads(os.pread(descriptor, 1 << 20, 0) or b"{}")
            self.ids: list[str] = [str(id) for id in values.get("ids", ())]
            self.at = float(values.get("at", 0))
        except (ValueError, AttributeError, TypeError):
            self.ids, self.at = [], 0.0

    @classmethod
    def lock(cls, path: str) -> WokenEntries | None:
        """Return the file at a path, held; None where another watcher holds it."""
        state.make_folder(os.path.dirname(path))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def add(self, ids: Iterable[str]) -> None:
        """Remember entries, and that the wake was now."""
        self.ids = [*self.ids, *ids][-MOST:]
        self.at = time.time()
        text = json.dumps({"ids": self.ids, "at": self.at}).encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text, 0)

    def is_recent(self) -> bool:
        """Tell whether the last wake was a moment ago."""
        return 0 <= time.time() - self.at < SPACING

    def close(self) -> None:
        os.close(self._fd)
