"""The lease of a supervisor: a file that it has locked, and touches while it lives.

The lock shows a crash at once, the beat shows a hang after the lease. Neither is a record of the
log: a heartbeat is no news. Beats are counted by the machine's own clock, which no setting of the
time moves; and where all processes stood still, whoever wakes first looks a second time.
"""

from __future__ import annotations

import fcntl
import os
import time

from synapse.errors import StoreError
from synapse.system import plain_files

# begins the name of a coding client's process, which holds the runs of its sessions
CLIENT = "client-"
LEASE = 15.0  # seconds without a touch after which a holder counts as hung
BEAT = 1.0
CONFIRM = 2.0  # seconds that a holder without a beat is given to beat again, once that was seen


class Lease:
    """This supervisor, as the others see it."""

    def __init__(self, root: str, name: str, lease: float = LEASE) -> None:
        self.name = name
        self.lease = lease
        self.folder = os.path.join(root, "runs", ".holders")
        self.path = os.path.join(self.folder, name)
        # holders that had no beat when they were last looked at: their last one, and when that was
        self.suspects: dict[str, tuple[int, int]] = {}
        try:
            # all in runs/ is private
            plain_files.make_folder(os.path.dirname(self.folder))
            plain_files.make_folder(self.folder)
            self._fd = _held(self.path)
            self.beat()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be held: {error}") from error

    def beat(self) -> None:
        """Show that this process goes on: the machine's time, and its number, for people."""
        os.pwrite(self._fd, b"%-10d\n%020d\n" % (os.getpid(), time.monotonic_ns()), 0)

    def lives(self, name: str) -> bool:
        """Return whether another supervisor is alive: its file is locked, and it beat within the
        lease. One that did not is suspected first: it counts as hung when it still has not beaten
        `CONFIRM` seconds later.
        """
        if name == self.name:
            return True
        if name.startswith(CLIENT):
            return process_lives(name)
        beat, now = _beat(self.folder, name), time.monotonic_ns()
        if beat is None or now - beat < self.lease * 1e9:
            self.suspects.pop(name, None)
            return beat is not None
        last, seen = self.suspects.setdefault(name, (beat, now))
        if last != beat:
            self.suspects[name] = (beat, now)
            return True
        return now - seen < CONFIRM * 1e9

    def sweep(self) -> None:
        """Remove the files of the dead. One that hangs may come back, and keeps its file."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            try:
                fd = plain_files.open_file(path)
            except OSError:
                continue  # it is gone, or no file
            try:
                if not _locked(fd):
                    os.unlink(path)
            except FileNotFoundError:
                pass
            finally:
                os.close(fd)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
            try:
                os.unlink(self.path)
            except OSError:
                pass


def _held(path: str) -> int:
    """Create the lease file, lock it and return its descriptor. Another supervisor may lock it for
    a moment to look at it, or sweep it away before it is locked: then it is created again.
    """
    while True:
        fd = plain_files.open_file(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def lives(root: str, name: str, lease: float = LEASE) -> bool:
    """Return whether the supervisor of this name is alive, for callers that hold no lease."""
    if name.startswith(CLIENT):
        return process_lives(name)
    beat = _beat(os.path.join(root, "runs", ".holders"), name)
    return beat is not None and time.monotonic_ns() - beat < lease * 1e9


def client_holder(pid: int) -> str:
    """Return the name of a coding client's process as a holder: its number and when it began."""
    return f"{CLIENT}{pid}-{_began(pid)}"


def client_pid(name: str) -> int | None:
    """Return the number of the process that a client's holder is."""
    pid = name.removeprefix(CLIENT).partition("-")[0]
    return int(pid) if name.startswith(CLIENT) and pid.isdigit() else None


def process_lives(name: str) -> bool:
    """Return whether the process that a holder's name tells of is still the same one."""
    pid, _, began = name.removeprefix(CLIENT).partition("-")
    if not pid.isdigit() or int(pid) < 1:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return began == _began(int(pid))


def _began(pid: int) -> str:
    """Return when a process began, in the system's own count; 0 where nobody can say. One that has
    ended and waits for its parent began never."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "0"
    return "never" if fields[0] in "ZX" else fields[19]


def _beat(folder: str, name: str) -> int | None:
    """Return when a holder last beat, by the machine's clock; None where it is gone."""
    path = os.path.join(folder, name)
    try:
        fd = plain_files.open_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error}") from error
    try:
        if not _locked(fd):
            return None
        lines = os.pread(fd, 64, 0).split(b"\n")
        # one that has just begun has written nothing yet
        return int(lines[1]) if len(lines) > 2 else time.monotonic_ns()
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
