"""The tables of the unified-brain document: one SQLite file derived from the log, for SQL of one's
own.

They hold everybody's mail and knowledge, so the file is the operator's. What was derived is brought
in line by cursor: the records that came since name what they bear on, and of that the rows are made
anew from the index. What anybody else writes into the file is noted by triggers, undone at the next
sync, and reported.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from math import sqrt

from synapse.compat.rows import Rows, Stray, Touched
from synapse.errors import Conflict, StoreError
from synapse.index.database import Database
from synapse.model.records import Record
from synapse.model.results import Problem
from synapse.store import Store
from synapse.system.plain_files import open_file
from synapse.system.typed import Any

VERSION = "2"
_HERE = os.path.dirname(__file__)
KIND = (f"{_HERE}/brain_schema.sql", f"{_HERE}/brain.sql", VERSION)
BATCH = 2_000
# The tables, and the columns that make a row of each one row.
KEYS = {
    "messages": ("id",),
    "read_receipts": ("message_id", "agent_id"),
    "acks": ("message_id", "agent_id"),
    "threads": ("id",),
    "agents": ("id",),
    "stm": ("id",),
    "atoms": ("id",),
    "atom_links": ("from_atom_id", "to_atom_id"),
    "embeddings": ("source_type", "source_id", "model"),
}


class Tables:
    """The file, kept in step with a store. One process at a time adds to it; others read on
    meanwhile.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.store = store
        self.path = path
        if path != ":memory:":
            _refuse_foreign(path)
            _make_private(path)
        self.db = Database(path, KIND)
        self.rows = Rows(store, self.db)

    def sync(self) -> int:
        """Bring the tables in line with the log; how many records that took. What others wrote into
        them is undone.
        """
        self.store.refresh()
        synced = 0
        while True:
            count = self._whole(self._batch)
            synced += count
            if count < BATCH:
                break
        if self.store.embeddings.has_vectors:
            self._whole(self._embeddings)
        return synced

    def behind(self) -> bool:
        """Return whether the log holds more than the tables, or somebody wrote into them."""
        with self.store.snapshot() as snap:
            return self._cursor() != snap.cursor or bool(self.waiting())

    def rebuild(self) -> int:
        """Derive every row anew; what others wrote is forgotten."""
        self._whole(self._wipe)
        return self.sync()

    def strays(self) -> list[Stray]:
        """Return all that was ever written into these tables past the log. None of it remains."""
        return [Stray(*row) for row in self.db.run("strays")]

    def waiting(self) -> list[Stray]:
        """Return the foreign writes that the next sync undoes."""
        return [Stray(*row) for row in self.db.run("strays_waiting")]

    def check(self) -> list[Problem]:
        """Return the differences between the tables and what the log gives."""
        problems = [
            Problem(
                f"{self.path}: {stray.table} {stray.key}",
                f"{stray.act} past the log at {stray.at}; it is undone",
            )
            for stray in self.strays()
        ]
        self.sync()
        truth = Tables(self.store, ":memory:")
        try:
            truth.sync()
            for table in KEYS:
                problems += _differences(self.path, table, self._rows(table), truth._rows(table))
        finally:
            truth.close()
        return problems

    def reader(self) -> sqlite3.Connection:
        """Open a new read-only connection."""
        connection = sqlite3.connect(self.path)
        connection.execute("pragma query_only = on")
        connection.create_function("cosine_similarity", 2, _cosine, deterministic=True)
        return connection

    def close(self) -> None:
        self.db.close()

    # -- below -------------------------------------------------------------------------------------

    def _whole(self, section: Callable[[], int]) -> int:
        def unlocked() -> int:
            self.db.run("open")
            value = section()
            self.db.run("shut")
            return value

        try:
            return self.db.whole(unlocked)
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path} could not be written: {error}; delete it, it is derived"
            ) from error

    def _wipe(self) -> int:
        self.db.wipe()
        self.db.run("open")
        return 0

    def _embeddings(self) -> int:
        self.db.set_meta(
            "vectors", self.rows.embeddings(self.db.meta("vectors") or "", self._cursor())
        )
        return 0

    def _cursor(self) -> int:
        return int(self.db.meta("cursor") or 0)

    def _batch(self) -> int:
        with self.store.snapshot(late=True) as snap:
            cursor, end = self._cursor(), snap.cursor
        if cursor > end:  # another log, or one that was taken back
            self._wipe()
            cursor = 0
        touched, waiting = Touched(), self.waiting()
        records = list(islice(self._since(cursor, end), BATCH))
        for record in records:
            touched.take(record)
        if touched.anew and cursor:
            self._wipe()
            self.db.set_meta("cursor", "0")
            return BATCH
        for stray in waiting:
            touched.stray(stray)
        if waiting:
            touched.new.clear()
            if any(stray.table == "embeddings" for stray in waiting):
                self.db.set_meta("vectors", "")
            self.db.run("strays_undone")
        self.rows.derive(touched)
        if records:
            self.db.set_meta("cursor", str(records[-1].seq))
        return len(records)

    def _since(self, cursor: int, end: int) -> Iterator[Record]:
        if cursor < end:
            for record in self.store.log.since(cursor):
                if record.seq > end:
                    return
                yield record

    def _rows(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        cursor = self.db.connection.execute(f"select * from {table}")
        names = [column[0] for column in cursor.description]
        places = [names.index(name) for name in KEYS[table]]
        return {tuple(row[position] for position in places): row for row in cursor}


def path_of(store: Store) -> str | None:
    """Return the path of a workspace's tables: `{path}` where the workspace is `{path}.log`, else
    None."""
    root = store.root or ""
    return root.removesuffix(".log") if root.endswith(".log") else None


def _differences(
    path: str, table: str, found: dict[tuple[Any, ...], Any], truth: dict[tuple[Any, ...], Any]
) -> list[Problem]:
    problems = []
    for key in sorted({*found, *truth}, key=repr):
        if found.get(key) != truth.get(key):
            difference = (
                "is not in the log"
                if key not in truth
                else "is missing"
                if key not in found
                else "is not as logged"
            )
            row_name = f"{path}: {table} {' '.join(map(str, key))}"
            problems.append(
                Problem(row_name, f"{difference}; `brain rebuild` derives the tables anew", True)
            )
    return problems


def _refuse_foreign(path: str) -> None:
    """Refuse a file that was not derived here: it may be somebody's only copy."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return
    try:
        connection = sqlite3.connect(path)
        try:
            names = {name for (name,) in connection.execute("select name from sqlite_master")}
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if names and not {"synapse", "writing", "strays"} <= names:
        raise Conflict(
            f"{path} was not made here, and nothing in it is touched: name another place", file=path
        )


def _make_private(path: str) -> None:
    """Make the file, or take it back, for its owner alone: it lies where the user likes, and holds
    all private mail. SQLite gives the files beside it the same mode.
    """
    try:
        fd = open_file(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return  # SQLite says what is wrong
    try:
        if os.fstat(fd).st_uid == os.getuid():
            os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def _cosine(one: bytes | None, other: bytes | None) -> float | None:
    """Return the cosine of two vectors of `embeddings`; None for vectors of different models."""
    if one is None or other is None or len(one) != len(other) or len(one) % 4:
        return None
    a, b = (array("f", vector) for vector in (one, other))
    sizes = sqrt(sum(x * x for x in a)) * sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / sizes if sizes else None
