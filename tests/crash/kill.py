"""Faults at the n-th call of the system: there a process is killed or stopped, or the call fails.
Holds no test.

What it does is a function of a test, which a life of the nursery (`lives`) imports and runs: that
costs a fork, no interpreter. The calls are those of Python's `os` that change files or wait for a
lock; what SQLite does lies between them.
"""

import fcntl
import importlib
import os
import signal
import sys

import pytest

from tests.crash.lives import begin

KILL, STOP = "SIGKILL", "SIGSTOP"  # or the name of an errno: the call fails
CALLS = "open write pwrite writev ftruncate fsync fdatasync link unlink rename replace mkdir rmdir"
NEVER = 1 << 30
# points of an act in every run, and in the soak
POINTS = [12, pytest.param(200, marks=pytest.mark.soak)]


class Faults:
    """Counts the calls of this process, and does what is to be done at one of them."""

    def __init__(self, act, at, names=CALLS):
        self.act, self.at, self.calls = act, at, 0
        for name in names.split():
            module = fcntl if name == "flock" else os
            setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, real):
        def call(*args, **named):
            self.calls += 1
            if self.calls == self.at:
                self._fault()
            return real(*args, **named)

        return call

    def _fault(self):
        number = getattr(signal, self.act, None)
        if number is None:
            import errno

            code = getattr(errno, self.act)
            raise OSError(code, os.strerror(code))
        os.kill(os.getpid(), number)


def begun(work, *args, at=NEVER, act=KILL, names=CALLS):
    """Begin a life that does this work, with a fault at one of its calls."""
    words = act, at, names, work.__module__, work.__qualname__, *args
    return begin("-c", "from tests.crash import kill; kill.main()", *words)


def calls(work, *args, names=CALLS):
    """Return how many calls the work makes, and what else it printed."""
    out, err = (life := begun(work, *args, names=names)).communicate(timeout=120)
    assert life.returncode == 0, err
    return int(out.splitlines()[-1])


def killed(work, *args, at, names=CALLS):
    """Return whether the work was killed at this call, and did not come to its end before."""
    life = begun(work, *args, at=at, names=names)
    _, err = life.communicate(timeout=120)
    assert life.returncode in (0, -9), err
    return life.returncode != 0


def points(count, most):
    """Return at most so many calls of so many, from the first to the last, in even steps."""
    most = min(count, most)
    return [1 + n * (count - 1) // max(most - 1, 1) for n in range(most)]


def kills(work, fresh, most, names=CALLS):
    """Kill the work at so many of its calls, each time in what `fresh` makes: its arguments. Yield
    the call and these; then it came to its end once.
    """
    count = calls(work, *fresh(), names=names)
    for at in points(count, most):
        args = fresh()
        if killed(work, *args, at=at, names=names):
            yield at, args


def main():
    act, at, names, module, name, *args = sys.argv[1:]
    work = getattr(importlib.import_module(module), name)
    faults = Faults(act, int(at), names)
    code = work(*args)
    sys.stdout.flush()
    print(faults.calls)
    sys.exit(code)
