"""The locks of a workspace, for `synapse doctor`: which are held, by whom, and since when. Nothing
here waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator

from synapse.system.findings import Finding
from synapse.system.plain_files import open_file
from synapse.system.typed import NamedTuple

LOCKS = {
    "journal/lock": "nobody can write",
    ".index/brain.db.lock": "nobody can add to the index; readers are answered from the journal",
    ".index/brain.db": "nobody can add to the index; readers are answered from the journal",
    # the lock of who writes, where SQLite keeps a log of changes
    ".index/brain.db-shm": "nobody can add to the index; readers are answered from the journal",
    "runs/spend.db.lock": "no run can reserve its budget",
}
LONG = 2.0  # seconds; who works holds a lock for milliseconds


class Holder(NamedTuple):
    pid: int
    since: float
    state: str  # as Linux says: T is stopped


def findings(root: str) -> Iterator[Finding]:
    """Check that no lock is held for longer than somebody who works would hold it."""
    problems = False
    for name, harm in LOCKS.items():
        holder = holder_of(os.path.join(root, name))
        if holder is None:
            continue
        seconds = time.time() - holder.since
        stopped = holder.state == "T"
        if seconds < LONG and not stopped:
            continue
        problems = True
        how = "stands still with" if stopped else "has held"
        command = f"kill -CONT {holder.pid}" if stopped else f"ps -p {holder.pid}"
        who = f"process {holder.pid}" if holder.pid else "a process"
        yield Finding(
            "locks", "fail", f"{who} {how} {name} for {seconds:.0f} s: {harm}; see `{command}`"
        )
    if not problems:
        yield Finding("locks", "ok", "none is held for long")


def holder_of(path: str) -> Holder | None:
    """Return who holds a lock file, or SQLite's lock on a file; None where nobody does."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    pid = _pid_in_table(status)
    if pid is None and path.endswith("lock"):
        pid = _pid_in_file(path)
    if pid is None:
        return None
    return Holder(pid, status.st_mtime, _state(pid))


def _pid_in_table(status: os.stat_result) -> int | None:
    """Return the holder by the system's table of locks, where there is one."""
    inode = str(status.st_ino)
    try:
        with open("/proc/locks", encoding="utf-8") as table:
            rows = [line.split() for line in table]
    except OSError:
        return None
    for row in rows:
        # 1: FLOCK ADVISORY WRITE 4711 08:01:123456 0 EOF; a second word `->` is one who waits
        if row[1] != "->" and row[3] == "WRITE" and row[5].rpartition(":")[2] == inode:
            return int(row[4])
    return None


def _pid_in_file(path: str) -> int | None:
    """Return the holder that signed a lock file, if the file is locked."""
    descriptor = open_file(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        signed = os.pread(descriptor, 12, 0).strip()
        return int(signed) if signed.isdigit() else 0
    finally:
        os.close(descriptor)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
