"""Notifications between processes: a named pipe per listener, written to after a commit.

A notification is a hint that something is new, never the news itself. A pipe needs no socket
module, has no limit on the length of its path, and one whose listener died refuses to be opened, so
that the next sender removes it. A lost notification costs time only: listeners look again by
themselves.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from _thread import allocate_lock

_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def notify(directory: str) -> int:
    """Notify every listener of the directory and return how many there were. Never blocks, never
    fails."""
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    return sum(_notify_listener(os.path.join(directory, name)) for name in names)


def _notify_listener(path: str) -> bool:
    try:
        fd = os.open(path, _WRITE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            _remove_if_unused(path)
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        os.write(fd, b".")
        return True
    except OSError:
        return False  # the pipe is full: its listener has been notified
    finally:
        os.close(fd)


def _remove_if_unused(path: str) -> None:
    """Remove a pipe that nobody holds open. One made this second may be about to be opened."""
    try:
        status = os.lstat(path)
        if stat.S_ISFIFO(status.st_mode) and _age(status) > 1.0:
            os.unlink(path)
    except OSError:
        pass


def _age(status: os.stat_result) -> float:
    import time

    return time.time() - status.st_ctime


def _ready(fds: list[int], seconds: float) -> list[int]:
    """Return the descriptors that can be read before the time is up. `poll`, because `select` ends
    at descriptor 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(max(0, seconds) * 1_000)]


class NotificationPipe:
    """One listener. `wait` returns True when it was notified, False when the time is up; a lost
    pipe is made anew."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, f"{os.getpid()}-{os.urandom(4).hex()}")
        self.fd = -1
        # nobody writes to a descriptor that was closed meanwhile and is another file's by now
        self._lock = allocate_lock()
        self._open()

    def wait(self, seconds: float, also: int | None = None) -> bool:
        """Return whether a notification came, or the other descriptor became readable, before the
        time was up."""
        if not os.path.exists(self.path):
            self._open()
        ready = _ready([fd for fd in (self.fd, also) if fd is not None and fd >= 0], seconds)
        if self.fd in ready:
            os.read(self.fd, 65_536)
        return bool(ready)

    def wake(self) -> None:
        """End the wait of the thread that listens here, from another thread."""
        with self._lock:
            try:
                os.write(self.fd, b".")
            except OSError:
                pass  # it is closed, or has enough to read

    def close(self) -> None:
        self._close()
        try:
            os.unlink(self.path)
        except OSError:
            pass

    def _open(self) -> None:
        """Make the pipe and open it to read and to write, so that it never reads as closed. A
        read-only workspace has no pipes; its listeners look again by themselves."""
        self._close()
        try:
            os.makedirs(self.directory, exist_ok=True)
            os.mkfifo(self.path, 0o622)
            self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            pass

    def _close(self) -> None:
        with self._lock:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                os.close(fd)
