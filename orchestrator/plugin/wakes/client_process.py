"""The process of a client: how it was started, and whether it has ended. Standard library only.

Called by the programs and modules that wake sessions. Nothing here knows of the memory.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def command_line(pid: int) -> list[str] | None:
    """Return the command line of a process; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    return text.rstrip("\0").split("\0")


def has_option(command: Sequence[str], option: Sequence[str]) -> bool:
    """Tell whether a program was started with an option, in two words or in one."""
    if len(option) != 2:
        return False
    pairs = set(pairwise(command))
    return tuple(option) in pairs or "=".join(option) in command


class ClientEnd:
    """Hears that the client ended, or that whoever talks to it hung up. `fd` becomes readable then;
    it is -1 where this system has no such thing, and one has to look.
    """

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
        """Listen to the client's standard input too, without reading of it. Return False where that
        cannot be done: it is no pipe, or not on this system.
        """
        if self._poll is None:
            return False
        path = f"/proc/{self.pid}/fd/0"
        try:
            pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            os.close(pipe)
            return False
        self._poll.register(pipe, 0)  # a hang-up is always told
        return True

    def is_over(self) -> bool:
        """Tell whether the client ended, or the other side hung up."""
        if self._poll is not None:
            return bool(self._poll.poll(0))
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False
