"""What follows a commit in the tree of files: placing, filing away, quarantine, and doing it again after a crash."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable

from synapse import clock
from synapse.digest import sha256
from synapse.entry import SECOND
from synapse.errors import NotFound, StoreError
from synapse.log.adopt import Rejected
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror, path_of
from synapse.records import Pending, Record

Get = Callable[[str], Record]

_PLACED = ".index/placed"
_GRACE = 2 * SECOND
_UNSYNCED = 120 * SECOND


def follow(mirror: Mirror, record: Record, get: Get) -> None:
    """Bring the tree in line with one record. Doing it twice changes nothing."""
    if record.kind == "entry" and record.text is not None:
        if record.path is None or mirror.read(record.path) is None:
            mirror.place(path_of(record), record.text.encode())
    elif record.kind in ("approve", "reject"):
        entry = get(record.fields["entry"])
        if record.kind == "approve":
            mirror.place(live_path(entry), (entry.text or "").encode())
        mirror.remove(path_of(entry))
    elif record.kind in ("archive", "restore"):
        for id in record.fields["ids"]:
            _file(mirror, get(id), away=record.kind == "archive")


def _file(mirror: Mirror, entry: Record, away: bool) -> None:
    text = (entry.text or "").encode()
    if away:
        mirror.file_away(page_path(entry), entry.id or "", text)
        mirror.remove(live_path(entry))
    else:
        mirror.place(live_path(entry), text)


def live_path(record: Record) -> str:
    """Where the entry's file stands once it is neither staged nor archived."""
    return record.path or f"entries/{record.fields['namespace']}/{record.id}.md"


def page_path(record: Record) -> str:
    """The archive page of the month in which the entry was received."""
    return f"archive/{clock.day(record.at)[:7]}.md"


def quarantine(mirror: Mirror, found: Rejected) -> Pending | None:
    """Put a file that can never be adopted aside, readable by its owner alone, with the reason beside it."""
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{digest(found.path)}-{os.path.basename(found.path)}"[:200]
    target = f"quarantine/{name}"
    try:
        mirror.move(found.path, target, 0o600)
    except OSError:
        return None  # gone meanwhile, or this process may not move it
    reason = f"{found.path}\n{found.reason}\n"
    mirror.place(f"{target}.reason.txt", reason.encode("utf-8", "replace"), mode=0o600)
    return Pending("quarantine", "log", {"path": found.path, "to": target, "reason": found.reason})


def finish(root: str, journal: Journal, mirror: Mirror, get: Get, limit: int | None = None) -> int:
    """Follow again every record that no one has checked yet; how many were checked.

    Writers place their files after the commit, unsynced. So a killed writer leaves a gap, closed when its record
    is two seconds old; and after the machine itself went down the last two minutes are checked again.
    """
    fd = _only_one(root)
    if fd < 0:
        return 0
    try:
        return _finish(root, journal, mirror, get, limit)
    finally:
        os.close(fd)


def _only_one(root: str) -> int:
    """An open lock, or -1 where another process is at it or this one may not write."""
    try:
        fd = os.open(os.path.join(root, _PLACED + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except OSError:
        os.close(fd)
        return -1


def _finish(root: str, journal: Journal, mirror: Mirror, get: Get, limit: int | None) -> int:
    seq, at, boot = _placed(root)
    now, here = journal.clock(), _boot()
    start = at - _UNSYNCED if boot != here else at
    checked, limit = 0, limit if boot == here else None
    for record in journal.since(seq if boot == here else max(0, seq - 200_000)):
        if record.at > now - _GRACE or checked == limit:
            break
        if record.at >= start:
            _again(mirror, record, get, rebooted=boot != here)
            checked += 1
        seq, at = record.seq, record.at
    if checked or boot != here:
        _note(root, f"{seq} {at} {here}")
    return checked


def _again(mirror: Mirror, record: Record, get: Get, rebooted: bool) -> None:
    try:
        if rebooted and record.kind == "entry" and record.text is not None:
            text, path = record.text.encode(), path_of(record)
            if mirror.read(path) not in (None, text):
                mirror.place(path, text, replace=True)
        if record.kind != "entry" or not mirror.exists(path_of(record)):
            follow(mirror, record, get)
    except (OSError, NotFound, StoreError):
        pass  # `verify` names what could not be put


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape"))[:12]


def _placed(root: str) -> tuple[int, int, str]:
    try:
        with open(os.path.join(root, _PLACED)) as file:
            seq, at, boot = file.read(200).split(" ")
            return int(seq), int(at), boot
    except (OSError, ValueError):
        return 0, 0, ""


def _note(root: str, text: str) -> None:
    path = os.path.join(root, _PLACED)
    try:
        with open(f"{path}.{os.getpid()}", "w") as file:
            file.write(text)
        os.rename(f"{path}.{os.getpid()}", path)
    except OSError:
        pass


def _boot() -> str:
    """What names this run of the machine; where the system has no name for it, one that never changes."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read(64).strip()
    except OSError:
        return "-"
