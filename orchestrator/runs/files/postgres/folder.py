"""The folder of a run in the database of the log, so that any machine goes on with the run.

What a run records and writes goes to the database alone. A file that somebody else put into the
folder of this machine, such as the transcript of a coding client, is read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from orchestrator.runs.files.folder import Folder, Tail
from orchestrator.runs.files.postgres.lease import tables_of
from synapse.errors import NotFound
from synapse.log.postgres.database import Database
from synapse.privacy.secrets import mask_json


class SharedFolder(Folder):
    """The files of one run, for every machine."""

    def __init__(self, database: Database, root: str, run: str) -> None:
        super().__init__(root, run, lasting=False)
        self.run = run
        self.tables = tables_of(database)

    @property
    def exists(self) -> bool:
        return True

    def record(self, name: str, line: str, *, sync: bool = True) -> None:
        with self.tables.session.use() as connection:
            lasting = sync or bool(connection.info.transaction_status)
            self.tables.ask_on(connection, "record", self.run, name, _hex(mask_json(line)), lasting)

    def sync(self, name: str) -> None:
        self.tables.ask("sync")

    def write(self, name: str, text: str, *, sync: bool = True) -> str:
        self.tables.ask("write", self.run, name, _hex(mask_json(text)), sync)
        return self._at(name)

    def read(self, name: str) -> str:
        rows = self.tables.ask("read", self.run, name)
        if rows:
            return _text(rows[0][0])
        if super().has(name):
            return super().read(name)
        if not self.has(name):
            raise NotFound(f"{self._at(name)} is not there", id=name)
        return "".join(self.lines(name))

    def lines(self, name: str) -> Iterator[str]:
        rows = self.tables.ask("lines", self.run, name, 0)
        return chain(super().lines(name), (_text(line) for _, line in rows))

    def has(self, name: str) -> bool:
        return super().has(name) or bool(self.tables.ask("has", self.run, name))

    def damage(self, lines: list[str]) -> str:
        return ""  # the database has all that it was given


class SharedTail(Tail):
    """The lines of a file of a run as they come, on every machine."""

    def __init__(self, database: Database, root: str, run: str, name: str) -> None:
        super().__init__(root, run, name)
        self.about = run, name
        self.tables = tables_of(database)
        self.last = 0

    def lines(self) -> list[str]:
        rows = self.tables.ask("lines", *self.about, self.last)
        if rows:
            self.last = int(rows[-1][0])
        return super().lines() + [_text(line) for _, line in rows]


def _hex(text: str) -> str:
    """Return a text as the database takes it: it may have what no text of a database has."""
    return text.encode("utf-8", "surrogatepass").hex()


def _text(raw: str) -> str:
    return bytes.fromhex(raw).decode("utf-8", "surrogatepass")
