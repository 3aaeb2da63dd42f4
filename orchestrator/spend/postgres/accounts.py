"""The accounts of a workspace in the database of its log: one machine decides at a time.

Whoever loses the connection within a decision does not know whether it counts. What was reserved or
admitted then, and is nobody's, is settled with its run, or with its supervisor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.spend.accounts import Statements
from synapse.log.postgres.database import Database

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
VERSION = 1
_HERE = os.path.dirname(__file__)


class SharedAccounts:
    """The accounts of all machines of a workspace."""

    def __init__(self, database: Database) -> None:
        self.tables = database.tables(_HERE, VERSION)

    def decide(self, decide: Callable[[Statements], T], fill: Callable[[Statements], None]) -> T:
        """Run one transaction, alone among all machines, and return its result. `fill` counts what
        was spent before there were accounts.
        """
        with self.tables.session.use() as connection, connection.transaction():
            connection.execute(self.tables.sql["begin"])
            statements = _Statements(connection)
            if statements.rows("select filled from spend_about") == [(False,)]:
                fill(statements)
                connection.execute(self.tables.sql["filled"])
            return decide(statements)

    def close(self) -> None:
        """Do nothing: the connection is the log's."""


class _Statements:
    """Statements within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(text.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []

    def each(self, text: str, rows: Iterable[Sequence[object]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(text.replace("?", "%s").encode(), list(rows))
