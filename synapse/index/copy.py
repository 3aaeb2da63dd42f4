"""A derived file that may not be written, as a copy in memory: whole, of one moment, and as new as
the file is.

The copy may be older than the log, as the file may be: whoever opens it catches it up from there.
Nothing is written anywhere, not even beside the file.
"""

from __future__ import annotations

import os
import sqlite3
import time

from synapse.errors import StoreError
from synapse.index.database import INDEX, Database
from synapse.system.plain_files import demand_file, read_file

_TRIES = 6
# ns; the clock of a file system ticks in milliseconds: a younger change may not be the last one
_QUIET = 50_000_000
# the bytes of the header that say that the file has a log of changes beside it
_WAL = slice(18, 20)


def in_memory(path: str, kind: tuple[str, str, str] = INDEX, wait: float = 1.0) -> Database:
    """Return what the file holds, in memory; an empty one where the file cannot be used, or is held
    for longer than so many seconds.
    """
    try:
        demand_file(path)
        return Database(":memory:", kind, _copied(path, wait))
    except StoreError:
        return Database(":memory:", kind)


def _copied(path: str, wait: float) -> sqlite3.Connection | None:
    """Return the file as a database in memory, None where it has to be derived anew: it is not
    there, is damaged, or was left with a log of changes that nobody here can read."""
    for _ in range(_TRIES):
        if not os.path.exists(path):
            return None
        connection = _through_sqlite(path, wait) or _of_bytes(path)
        if connection is not None:
            return connection
        # somebody is writing: the file is quiet soon, or has its log of changes
        time.sleep(0.02)
    return None


def _through_sqlite(path: str, wait: float) -> sqlite3.Connection | None:
    """Copy through SQLite's own locks, which sees all that was committed, while others write too.
    It needs the files beside this one, and none of them is there where nobody has it open."""
    connection = _empty()
    try:
        source = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=wait / _TRIES)
        try:
            source.execute("begin")
            source.execute("select 1 from sqlite_master").fetchone()  # `backup` would wait for ever
            source.backup(connection)
        finally:
            source.close()
    except sqlite3.Error:
        connection.close()
        return None
    return connection


def _of_bytes(path: str) -> sqlite3.Connection | None:
    """Copy the bytes of a file that nobody has open: then all of it is in its place."""
    raw = _whole(path)
    if raw is None:
        return None
    if raw[_WAL] == b"\2\2":
        raw = raw[: _WAL.start] + b"\1\1" + raw[_WAL.stop :]
    connection = _empty()
    try:
        connection.deserialize(raw)
    except (sqlite3.Error, AttributeError):
        connection.close()
        return None
    return connection


def _whole(path: str) -> bytes | None:
    """Return the bytes of one moment, None where somebody wrote meanwhile or may have."""
    try:
        before, start = _state(path), time.time_ns()
        raw = read_file(path)
        is_same = before is not None and _state(path) == before
    except OSError:
        return None
    return raw if before and is_same and abs(start - before[2]) > _QUIET else None


def _empty() -> sqlite3.Connection:
    return sqlite3.connect(
        ":memory:", isolation_level=None, cached_statements=256, check_same_thread=False
    )


def _state(path: str) -> tuple[int, int, int] | None:
    """Return what names this content of the file, None where changes stand beside it that it
    lacks.
    """
    for suffix in ("-wal", "-journal"):
        try:
            if os.stat(path + suffix).st_size:
                return None
        except FileNotFoundError:
            continue
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _quoted(path: str) -> str:
    """Return the path as SQLite takes it in an address."""
    path = os.path.abspath(path)
    for char in "%?#":
        path = path.replace(char, f"%{ord(char):02x}")
    return path
