"""The lease of a supervisor: a file that it has locked, and touches while it lives.

The lock shows a crash at once, the touch shows a hang after the lease. Neither is a record of the
log: a heartbeat is no news.
"""

from __future__ import annotations

import fcntl
import os
import time

from synapse.errors import StoreError

# begins the name of a coding client's process, which holds the runs of its sessions
CLIENT = "client-"
LEASE = 15.0  # seconds without a touch after which a holder counts as hung
BEAT = 1.0


class Lease:
    """This supervisor, as the others see it."""

    def __init__(self, root: str, name: str, lease: float = LEASE) -> None:
        self.name = name
        self.lease = lease
        self.folder = os.path.join(root, "runs", ".holders")
        self.path = os.path.join(self.folder, name)
        try:
            os.makedirs(
                os.path.dirname(self.folder), mode=0o700, exist_ok=True
            )  # all that lies in runs/ is private
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._fd = _held(self.path)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be held: {error}") from error

    def beat(self) -> None:
        os.utime(self._fd)

    def lives(self, name: str) -> bool:
        """Return whether another supervisor is alive: its file is locked, and was touched within
        the lease.
        """
        return name == self.name or _lives(self.folder, name, self.lease)

    def pid(self, name: str) -> int | None:
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return int(file.read().strip())
        except (OSError, ValueError):
            return None

    def sweep(self) -> None:
        """Remove the files of the dead. One that hangs may come back, and keeps its file."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                if not _locked(fd):
                    os.unlink(path)
            except FileNotFoundError:
                pass
            finally:
                os.close(fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            try:
                os.unlink(self.path)
            except OSError:
                pass


def _held(path: str) -> int:
    """Create the lease file, lock it and return its descriptor. Another supervisor may lock it for
    a moment to look at it, or sweep it away before it is locked: then it is created again.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def lives(root: str, name: str, lease: float = LEASE) -> bool:
    """Return whether the supervisor of this name is alive, for callers that hold no lease."""
    return _lives(os.path.join(root, "runs", ".holders"), name, lease)


def client_holder(pid: int) -> str:
    """Return the name of a coding client's process as a holder: its number and when it began."""
    return f"{CLIENT}{pid}-{_began(pid)}"


def client_pid(name: str) -> int | None:
    """Return the number of the process that a client's holder is."""
    pid = name.removeprefix(CLIENT).partition("-")[0]
    return int(pid) if name.startswith(CLIENT) and pid.isdigit() else None


def _process_lives(name: str) -> bool:
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


def _lives(folder: str, name: str, lease: float) -> bool:
    if name.startswith(CLIENT):
        return _process_lives(name)
    path = os.path.join(folder, name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error}") from error
    try:
        return _locked(fd) and time.time() - os.fstat(fd).st_mtime < lease
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
