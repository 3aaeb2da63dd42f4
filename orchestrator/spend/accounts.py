"""The accounts of a workspace in a SQLite file, `runs/spend.db`, or in memory: what was spent, is
reserved, and lives, which one process changes at a time.

The file is derived, so nothing here waits for the disk, and one that is missing or damaged is made
again. Nothing here knows what a limit is.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from synapse.errors import StoreError
from synapse.index.database import set_aside_damaged
from synapse.system.lock import Lock
from synapse.system.plain_files import demand_file

T = TypeVar("T")
_TABLES = """
create table spent (
    scope text primary key, turns int, tokens int, nanos int, micros int, runs int
) without rowid;
create table call (
    id integer primary key autoincrement, run text, holder text,
    turns int, tokens int, nanos int, micros int, line text
);
create table held (scope text, call int, primary key (scope, call)) without rowid;
create table live (scope text, run text, holder text, primary key (scope, run)) without rowid;
create index call_run on call (run);
create index held_call on held (call);
create index live_run on live (run);
"""
_CALL_COLUMNS = "select name from pragma_table_info('call')"


class Statements(Protocol):
    """Statements within one transaction, over the tables above; `?` stands for a value."""

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, none of one that changes something."""

    def each(self, text: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement with each of these rows of values."""


class Accounts(Protocol):
    """Who runs transactions over the tables, one after another."""

    def decide(self, decide: Callable[[Statements], T], fill: Callable[[Statements], None]) -> T:
        """Run one transaction, alone among all threads and processes, and return its result. `fill`
        is run first where the tables are new.
        """

    def close(self) -> None:
        """Let go of them. Idempotent."""


class FileAccounts:
    """The accounts of one machine."""

    def __init__(self, path: str = ":memory:") -> None:
        self.path = path
        self._lock = None if path == ":memory:" else _lock(path)
        self._mutex = allocate_lock()
        self._opened: tuple[int, int | None] | None = None
        self._connection: sqlite3.Connection | None = None

    def decide(self, decide: Callable[[Statements], T], fill: Callable[[Statements], None]) -> T:
        def section() -> T:
            try:
                try:
                    return self._transaction(decide, fill)
                except sqlite3.DatabaseError as error:
                    if type(error) is not sqlite3.DatabaseError or self._lock is None:
                        raise
                    # it is damaged, and derived: made again from the ledgers
                    if self._connection is not None:
                        self._connection.close()
                    self._connection = self._opened = None
                    set_aside_damaged(self.path, "-journal")
                    return self._transaction(decide, fill)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self.path} cannot be used: {error}; delete it, it is derived"
                ) from error

        if self._lock is not None:
            return self._lock.run(section)
        with self._mutex:
            return section()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._opened = None
        if self._lock is not None:
            self._lock.close()

    def _transaction(
        self, decide: Callable[[Statements], T], fill: Callable[[Statements], None]
    ) -> T:
        db = self._current(fill)
        db.execute("begin immediate")
        try:
            outcome = decide(_Statements(db))
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")
        return outcome

    def _current(self, fill: Callable[[Statements], None]) -> sqlite3.Connection:
        """Return the connection. It is opened again after a fork, and where another process deleted
        or replaced the file.
        """
        identity = (os.getpid(), self._inode()) if self._lock else None
        if self._connection is None or identity != self._opened:
            if self._lock:
                demand_file(self.path)
            self._connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("pragma synchronous = off")
            self._connection.execute("pragma journal_mode = truncate")
            _make(self._connection, fill)
            self._opened = (os.getpid(), self._inode()) if self._lock else identity
        return self._connection

    def _inode(self) -> int | None:
        try:
            return os.stat(self.path).st_ino
        except OSError:
            return None


class _Statements:
    """Statements on one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return self.db.execute(text, values).fetchall()

    def each(self, text: str, rows: Iterable[Sequence[object]]) -> None:
        self.db.executemany(text, rows)


def _make(db: sqlite3.Connection, fill: Callable[[Statements], None]) -> None:
    """Make the tables, where there are none, and what was spent before."""
    if db.execute("select 1 from sqlite_master where name = 'live_run'").fetchone():
        if ("line",) not in db.execute(_CALL_COLUMNS).fetchall():  # of an earlier version
            db.execute("alter table call add column line text")
        return
    db.execute("begin immediate")
    for statement in _TABLES.split(";"):
        db.execute(statement)
    fill(_Statements(db))
    db.execute("commit")


def _lock(path: str) -> Lock:
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        return Lock(f"{path}.lock")
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error
