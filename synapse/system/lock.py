"""A lock file among processes and threads, taken in turn, never waited for longer than a limit.

`flock` hands the lock on in the order of arrival but cannot time out; polling can, but starves the
unlucky (measured: 33 ms against 10 ms at worst with eight writers). So a process that has to wait
lets a thread of its own wait in `flock` and run the critical section there: no hand-over lengthens
the time the lock is held.
"""

from __future__ import annotations

import errno
import os
from _thread import _local, allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from synapse.errors import ReadOnly, StoreBusy, StoreError
from synapse.system.plain_files import open_file
from synapse.system.typed import T

try:
    import fcntl
except ImportError as error:  # Windows
    raise ImportError(
        "this software needs a system with flock and links: Linux or macOS"
    ) from error

PATIENCE = 5.0
LEAST_FREE = 256 << 10  # bytes
_FORBIDDEN = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


class _Turn:
    """A critical section waiting for its turn. Whoever takes `claim` first decides: it runs, or it
    is given up.
    """

    def __init__(self, section: Callable[[], object]) -> None:
        self.section = section
        self.claim = allocate_lock()
        self.done = allocate_lock()
        self.done.acquire()
        self.value: object = None
        self.error: BaseException | None = None

    def run(self, let_go: Callable[[], None]) -> None:
        try:
            self.value = self.section()
        except BaseException as error:
            # handed to the thread that waits, which raises it
            self.error = error
        finally:
            let_go()
            self.done.release()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.release()


class Lock:
    """Runs critical sections, one at a time among all processes that name the same file."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self.path = path
        self.patience = patience
        self.hurry = _local()  # .patience, of a thread that waits no longer
        self.fd = open_file(path, os.O_RDWR | os.O_CREAT)
        self.inode = os.fstat(self.fd).st_ino
        self.pid = os.getpid()
        self.mutex = allocate_lock()
        self.queue: list[_Turn] = []
        self.wanted = allocate_lock()
        self.waiter = 0
        self.holder = 0  # the thread of this process that is in a critical section

    def run(self, section: Callable[[], T]) -> T:
        """Run the section under the lock and return its value. StoreBusy, with the holder's pid,
        when its turn did not come in time."""
        if self.pid != os.getpid():
            self._after_fork()
        if not self.mutex.acquire(timeout=self._patience()):
            raise self._busy()
        try:
            if self.fd < 0:
                raise StoreError(f"{self.path}: the workspace was closed")
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            except BlockingIOError:
                free = False
            if not free:
                return self._wait_for(_Turn(section))  # type: ignore[return-value]
            try:
                self._sign()
                self.holder = get_ident()
                return section()
            finally:
                self.holder = 0
                if self.fd >= 0:  # else the section closed it
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
        finally:
            self.mutex.release()

    def wait_for(self, seconds: float | None) -> None:
        """Have this thread wait no longer than so many seconds; None: as all others do."""
        self.hurry.patience = seconds

    @contextmanager
    def waits_at_most(self, seconds: float) -> Iterator[None]:
        """Have this thread wait no longer than so many seconds, and no longer than it does."""
        usual = self.hurry_of_thread()
        self.wait_for(seconds if usual is None else min(seconds, usual))
        try:
            yield
        finally:
            self.wait_for(usual)

    def hurry_of_thread(self) -> float | None:
        """Return for how many seconds this thread waits; None where it waits as all others do."""
        patience: float | None = getattr(self.hurry, "patience", None)
        return patience

    def _patience(self) -> float:
        hurry = self.hurry_of_thread()
        return self.patience if hurry is None else hurry

    def stands(self) -> bool:
        """Return whether the file is still the one that has the name, so that others take the same
        lock.
        """
        try:
            return os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close it, behind the section that another thread is in: this one signs and unlocks by the
        number of the descriptor, which may be another file's by then. One that does not end keeps
        it.
        """
        others = self.pid == os.getpid() and self.holder != get_ident()
        if others and not self.mutex.acquire(timeout=self.patience):
            return
        fd, self.fd = self.fd, -1
        if others:
            self.mutex.release()
        if fd >= 0:
            os.close(fd)
        if self.waiter and self.wanted.locked():
            self.wanted.release()  # the thread that waits sees that it is over

    def _sign(self) -> None:
        """Write the pid into the file, for those who wait too long; a failure, as on a full disk,
        does not matter."""
        try:
            os.pwrite(self.fd, b"%-12d" % os.getpid(), 0)
        except OSError:
            pass

    def _wait_for(self, turn: _Turn) -> object:
        if not self.waiter:
            self.wanted.acquire()
            self.waiter = start_new_thread(self._serve, ())
        self.queue.append(turn)
        if self.wanted.locked():
            self.wanted.release()
        if not turn.done.acquire(timeout=self._patience()):
            if turn.claim.acquire(blocking=False):
                raise self._busy()
            turn.done.acquire()
        if turn.error is not None:
            raise turn.error
        return turn.value

    def _serve(self) -> None:
        """Run the waiting thread: one turn after the other, each under the lock; a turn given up is
        passed over."""
        while self.fd >= 0:
            self.wanted.acquire()
            while self.queue:
                self._next()

    def _next(self) -> None:
        fd, failed = -1, None
        try:
            fd = open_file(self.path, os.O_RDWR)
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError as error:
            failed = error
        turn = self.queue.pop(0)
        if turn.claim.acquire(blocking=False):
            if failed:
                turn.fail(failed)
            else:
                self._sign()
                self.holder = get_ident()
                turn.run(self._let_go)
        if fd >= 0:
            os.close(fd)

    def _let_go(self) -> None:
        self.holder = 0

    def _busy(self) -> StoreBusy:
        holder = os.pread(self.fd, 12, 0).strip().decode("ascii", "replace")
        return StoreBusy(
            (
                f"process {holder or 'unknown'} has held {self.path} for over"
                f" {self._patience():g} s; try again, or stop it"
            ),
            pid=int(holder) if holder.isdigit() else None,
        )

    def _after_fork(self) -> None:
        """Open the file anew: a child must not share its parent's open file, or both would hold the
        lock at once."""
        os.close(self.fd)
        self.__init__(self.path, self.patience)  # type: ignore[misc]


class Barred:
    """A lock in a folder that may not be written: every critical section is refused."""

    def __init__(self, path: str, error: OSError) -> None:
        self.path = path
        self.holder = 0
        self.reason = error.strerror or str(error)

    def run(self, section: Callable[[], T]) -> T:
        raise ReadOnly(
            f"this workspace cannot be written here: {self.path}: {self.reason}; reading works",
            path=self.path,
        )

    def stands(self) -> bool:
        """Return that it is the lock of its folder: nothing was opened that could be another by
        now.
        """
        return True

    def wait_for(self, seconds: float | None) -> None:
        """Do nothing: nobody waits for this."""

    def waits_at_most(self, seconds: float) -> AbstractContextManager[None]:
        """Return a `with` statement's nothing: nobody waits for this."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: nothing is open."""


def hold(path: str) -> int | None:
    """Return a lock file as it is held, until it is closed or this process ends; None where another
    process holds it.
    """
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def lock_in(directory: str, readonly: bool = False) -> Lock | Barred:
    """Return the lock of a folder, which is made where needed; one that refuses where this process
    may not write, is to read alone, or where the disk is full: an index needs room even to be read.
    """
    path = os.path.join(directory, "lock")
    if readonly:
        return Barred(path, OSError(errno.EROFS, "opened for reading alone"))
    if _is_full(directory):
        return Barred(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        return Lock(path)
    except OSError as error:
        if error.errno not in _FORBIDDEN:
            raise
        return Barred(path, error)


def _is_full(directory: str) -> bool:
    """Tell whether the file system of a folder has too little room for an index and a line."""
    try:
        disk = os.statvfs(directory)
    except OSError:  # there is none yet
        return False
    return disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < LEAST_FREE
