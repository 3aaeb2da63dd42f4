"""The ends of pipes: what to do when nobody reads any more."""

from __future__ import annotations

import os
import select
import sys


def hush() -> None:
    """Python flushes standard output once more as it ends; let that go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass


def abandoned() -> bool:
    """Whether standard output is a pipe whose reader is gone."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(
            what & (select.POLLERR | select.POLLNVAL) for _, what in poll.poll(0)
        )
    except (OSError, ValueError, AttributeError):
        return False
