"""The watchdog of a client's process: nothing of the client outlives the supervisor, nor its end.
A program of its own, started by `child`.

python -I -S watchdog.py LIFE GRACE COMMAND...

LIFE is the descriptor of one end of a pair of sockets, or the path of a named pipe; only the
supervisor holds the other end. A byte from there asks for the end: SIGTERM, and SIGKILL after GRACE
seconds. If it closes, the supervisor is dead, and there is only HASTE. When the command ends by
itself, whatever it left behind ends at once. Its exit code is passed on as a shell would.

On Linux the watchdog is a subreaper: an orphan below it becomes its child, whatever group or
session it made for itself, and nothing can hide. Elsewhere it knows the command's process group, no
more.

A bare interpreter runs this file where it lies: it imports nothing of ours, and only what loads
fast.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable

HASTE = 0.25
PATIENCE = 1.5  # with what cannot be killed: it hangs in the kernel
LOOK_EVERY = 0.01
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NOT_RUNNABLE, NOT_FOUND, SIGNALLED = 126, 127, 128
LINUX = sys.platform == "linux"


class Keeper:
    """One command and everything below it."""

    def __init__(self, life: int, grace: float) -> None:
        self._life, self._grace = life, grace
        self._code: int | None = None
        self._child = 0
        os.set_inheritable(life, False)
        self._rings, signals = os.pipe()
        os.set_blocking(signals, False)
        signal.set_wakeup_fd(signals)
        for number in (signal.SIGCHLD, *ENDING):
            signal.signal(number, _rung)

    def keep(self, command: list[str]) -> int:
        prctl = _prctl()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        watchdog = os.getpid()
        self._child = os.fork()
        if not self._child:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            _become(command, watchdog)
        _let_go_of_the_files()
        if self._until_its_end_is_asked():
            self._end()
        self._kill_the_rest()
        return self._code if self._code is not None else SIGNALLED + signal.SIGKILL

    def _until_its_end_is_asked(self) -> bool:
        """Wait until somebody asks for the end; return False where the command ended by itself."""
        while self._code is None:
            ready, _, _ = select.select([self._life, self._rings], [], [])
            if self._life in ready:
                return True
            rung = os.read(self._rings, 4_096)
            if any(number in rung for number in ENDING):
                return True
            self._reap()
        return False

    def _end(self) -> None:
        """Ask everybody to end, and wait for it; less long where the supervisor is dead."""
        self._signal(signal.SIGTERM)
        since = time.monotonic()
        while self._reap():
            waited = time.monotonic() - since
            if waited >= self._grace or (waited >= HASTE and self._is_alone()):
                return
            time.sleep(LOOK_EVERY)

    def _is_alone(self) -> bool:
        """Return whether the asking process is dead: its end of the pipe is closed."""
        ready, _, _ = select.select([self._life], [], [], 0)
        return bool(ready) and not os.read(self._life, 4_096)

    def _kill_the_rest(self) -> None:
        """Kill until no child is left: children of what is killed become ours, and are next."""
        until = time.monotonic() + PATIENCE
        self._signal(signal.SIGKILL)
        while self._reap() and time.monotonic() < until:
            time.sleep(LOOK_EVERY / 10)
            self._signal(signal.SIGKILL)

    def _reap(self) -> bool:
        """Reap what has ended, and return whether there are children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else SIGNALLED - code

    def _signal(self, number: int) -> None:
        """Signal the command's group and each child of ours. No other process can have the number
        of a child that we have not reaped.
        """
        try:
            os.killpg(self._child, number)
        except (ProcessLookupError, PermissionError):
            pass
        for pid in _children(os.getpid()) if LINUX else [self._child] if self._code is None else []:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass


def _rung(number: int, frame: object) -> None:
    """Do nothing: signals are read from the pipe that they are written to."""


def _prctl() -> Callable[[int, int], int]:
    if not LINUX:
        return lambda option, value: 0
    import ctypes

    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    return prctl


def _become(command: list[str], watchdog: int) -> None:
    """Run the command in the forked child, in a session of its own, with the signals as they were.
    Never return.
    """
    code = NOT_RUNNABLE
    try:
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGPIPE, *ENDING):
            signal.signal(number, signal.SIG_DFL)
        if os.getppid() == watchdog:
            os.execvp(command[0], command)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(code)


def _let_go_of_the_files() -> None:
    """Close the command's input and output here, so that they close when the command closes
    them.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _children(parent: int) -> list[int]:
    children = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    stat = file.read()
            except OSError:
                continue
            if int(stat.rpartition(b")")[2].split()[1]) == parent:
                children.append(int(name))
    return children


def _opened(life: str) -> int:
    """Open the lifeline. One by its path may have closed before we came. Once opened, its path is
    of no more use.
    """
    if life.isdigit():
        return int(life)
    descriptor = os.open(life, os.O_RDONLY | os.O_NONBLOCK)
    os.unlink(life)
    os.rmdir(os.path.dirname(life))
    try:
        closed = not os.read(descriptor, 1)
    except BlockingIOError:
        closed = False
    if closed:
        sys.exit(SIGNALLED + signal.SIGTERM)
    return descriptor


if __name__ == "__main__":
    sys.exit(Keeper(_opened(sys.argv[1]), float(sys.argv[2])).keep(sys.argv[3:]))
