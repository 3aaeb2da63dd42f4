"""Faults inside of an act: the n-th call of the system fails, or is the last that its process
makes.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager

CALLS = (
    "open read write pread pwrite fstat lstat stat fdatasync fsync ftruncate link unlink"
    " rename mkdir chmod mkfifo listdir scandir"
).split()
CHANGING = "open write pwrite ftruncate link unlink rename mkdir chmod fdatasync fsync".split()
GROWING = frozenset("write pwrite link rename mkdir mkfifo fdatasync fsync".split())
CODES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


class Killed(BaseException):
    """The end of the process, where it is only played."""


class Point:
    """Where the fault is: after so many calls. `hit` says whether it was reached."""

    def __init__(self, left):
        self.left, self.hit = left, False


@contextmanager
def none():
    yield Point(0)


@contextmanager
def _patched(names, wrap):
    before = {name: getattr(os, name) for name in names}
    flock = fcntl.flock
    try:
        for name, real in before.items():
            setattr(os, name, wrap(name, real))
        yield
    finally:
        fcntl.flock = flock
        for name, real in before.items():
            setattr(os, name, real)


@contextmanager
def failing(at, code):
    """Make the n-th call fail once, where it can fail in this way."""
    point = Point(at)

    def wrap(name, real):
        def call(*args, **kwargs):
            apt = code == "EIO" or name in GROWING
            if name == "open" and not apt:
                apt = len(args) > 1 and bool(args[1] & os.O_CREAT)
            point.left -= apt
            if apt and point.left == 0:
                point.hit = True
                raise OSError(CODES[code], os.strerror(CODES[code]))
            return real(*args, **kwargs)

        return call

    with _patched(CALLS, wrap):
        yield point


@contextmanager
def dying(at, end):
    """Call `end` at the n-th call that changes the disk, and at each after it. Half of a write
    may be out by then.
    """
    point = Point(at)

    def wrap(name, real):
        def call(*args, **kwargs):
            point.left -= 1
            if point.left <= 0:
                if point.left == 0 and name == "write" and at % 2 and len(args[1]) > 1:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                point.hit = True
                end()
            return real(*args, **kwargs)

        return call

    with _patched(CHANGING, wrap):
        yield point


def killed():
    raise Killed
