"""How a file looks now: its digest, its text, and its status on the disk, by which it is known
again without being read. Knows no session. Called by `changes` and `reads`.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from synapse.system.digest import sha256
from synapse.system.plain_files import read_file

LARGEST = 1 << 20  # bytes of a file that is looked into
# nanoseconds in which a file that was written twice may have one time
TICK = 20_000_000


class Look(NamedTuple):
    """One look at a file: a large one has no text, and in place of the digest its size and time,
    with a space between them. All is empty where there is none.
    """

    digest: str = ""
    text: str = ""
    status: str = ""

    @property
    def lines(self) -> int:
        """Return the number of lines; 0 for a file that was not read."""
        return self.text.count("\n") + bool(self.text and not self.text.endswith("\n"))


def look(path: str) -> Look:
    """Return how a file looks."""
    try:
        status = os.stat(path)
        if status.st_size > LARGEST:
            return Look(f"{status.st_size} {status.st_mtime_ns}", "", _status(status))
        raw = read_file(path, LARGEST)
    except (OSError, ValueError):
        return Look()
    return Look(sha256(raw)[:16], raw.decode("utf-8", "replace"), _status(status))


def has_changed(path: str, status: str, settled: float) -> bool:
    """Tell whether a file may look otherwise than with this status. One that was written less than
    that many seconds ago is left for later.
    """
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return True
    if time.time() - now.st_mtime < settled:
        return False
    return not status or _status(now) != status


def _status(status: os.stat_result) -> str:
    """Return the text by which a file is known again; an empty one for a file that was written so
    short ago that another change would have the same time.
    """
    if time.time_ns() - status.st_ctime_ns < TICK:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
