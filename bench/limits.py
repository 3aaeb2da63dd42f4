"""What this machine can do at best: the raw acts that the figures are set beside. Imports nothing
of the library.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from bench.figures import Beside, timed

LINE = os.urandom(450).hex().encode()[:900]


class Raw:
    """Durable writes without any meaning, in a directory of their own beside the workspace."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self.log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.count = 0

    def linked(self) -> None:
        """One entry the classic way: a file, synced, linked to its name, the directory synced."""
        self.count += 1
        draft = f"{self.directory}/{self.count}.tmp"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, LINE)
        os.fsync(fd)
        os.close(fd)
        os.link(draft, draft[:-4])
        os.fsync(self.folder)

    def line(self) -> None:
        """One line at the end of a log, synced."""
        os.write(self.log, LINE)
        os.fdatasync(self.log)

    def close(self) -> None:
        os.close(self.log)
        os.close(self.folder)


def appending(directory: str) -> Beside:
    """One synced line."""
    raw = Raw(directory)
    try:
        return Beside("a synced line", timed(raw.line, calls=200, budget=1.0).p50)
    finally:
        raw.close()


def index(root: str) -> sqlite3.Connection:
    """A bare connection to the index of a workspace."""
    return sqlite3.connect(os.path.join(root, ".index", "brain.db"), isolation_level=None)


def rows(root: str) -> Beside:
    """The newest fifty entries with their bodies, straight from SQLite: no reader, no filter, no
    objects.
    """
    text = "select id, head, body from texts order by rec desc limit 50"
    return _asked(root, "50 bare rows", lambda db: db.execute(text).fetchall())


def tally(root: str) -> Beside:
    """A count of the newest hundred, straight from SQLite."""
    text = "select count(*) from entries where seq > (select max(seq) - 100 from entries)"
    return _asked(root, "a bare count of 100", lambda db: db.execute(text).fetchall())


def ranked(root: str, word: str) -> Beside:
    """All places of a word in the whole index, whoever may see them, unranked."""
    text = "select rowid from words where words match ?"
    return _asked(root, "its bare places", lambda db: db.execute(text, (word,)).fetchall())


def _asked(root: str, what: str, ask: Callable[[sqlite3.Connection], object]) -> Beside:
    db = index(root)
    try:
        return Beside(what, timed(lambda: ask(db), calls=200, budget=1.0).p50)
    finally:
        db.close()
