"""The lease of a supervisor among machines: a lock that its session holds, and a row that it
touches, by the database's clock.

The lock shows a crash at once, the beat shows a hang after the lease. The session is a connection
of its own to the server itself: a pool keeps the session, and with it the lock, of who has died.
"""

from __future__ import annotations

import os
from threading import Event, Thread
from typing import TYPE_CHECKING

from orchestrator.runs.files.lease import BEAT, CLIENT, LEASE, process_lives
from synapse.errors import StoreError, SynapseError
from synapse.log.postgres.database import (
    WRITERS_WAIT,
    ConnectionLost,
    Database,
    Session,
    Tables,
    is_direct,
)

if TYPE_CHECKING:
    from psycopg import Connection

VERSION = 1
GAP = 1.5 * BEAT  # seconds in which a session that was cut off is there again
_HERE = os.path.dirname(__file__)


def tables_of(database: Database) -> Tables:
    """Return the tables of runs beside the log."""
    return database.tables(_HERE, VERSION)


def lives(database: Database, name: str, lease: float = LEASE, *, held: bool = False) -> bool:
    """Return whether the supervisor of this name is alive, on whichever machine. `held`: who asks
    holds a lease.
    """
    if name.startswith(CLIENT):
        return process_lives(name)
    return tables_of(database).ask("lives", name, lease, GAP, held) == [("t",)]


class SharedLease:
    """This supervisor, as those of every machine see it."""

    def __init__(self, database: Database, name: str, lease: float = LEASE) -> None:
        self.name = name
        self.lease = lease
        self.database = database
        self.suspects: dict[str, tuple[int, int]] = {}  # none: the clock is not of this machine
        self.tables = tables_of(database)
        self._session = Session(database.address, WRITERS_WAIT)
        self._locked: Connection | None = None  # the connection that has the lock
        self._due, self._closed = Event(), False
        try:
            self._hold()
        except BaseException:
            self._session.close()
            raise
        self._thread = Thread(target=self._run, name="synapse-beat", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Show that this process goes on. Its event loop does not wait for the database."""
        self._due.set()

    def lives(self, name: str) -> bool:
        """Return whether another supervisor is alive: its session stands, and it beat within the
        lease.
        """
        return name == self.name or lives(self.database, name, self.lease, held=True)

    def sweep(self) -> None:
        """Remove the rows of the dead."""
        self.tables.ask("sweep", self.lease)

    def close(self) -> None:
        """Say that it is gone. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._due.set()
        self._thread.join(5)

    def _run(self) -> None:
        while self._due.wait():
            self._due.clear()
            try:
                if self._closed:
                    with self._session.use() as connection:
                        self.tables.ask_on(connection, "leave", self.name)
                else:
                    try:
                        self._hold()
                    except ConnectionLost:
                        self._hold()  # over a new one
            except SynapseError:
                pass  # with the next beat
            if self._closed:
                self._session.close()
                return

    def _hold(self) -> None:
        """Beat, and lock the name where this session has not: it is a new one after a cut, and the
        server may still take the old one to be alive.
        """
        with self._session.use() as connection:
            if connection is not self._locked and not is_direct(connection):
                raise StoreError(
                    f"{self.database.address.public} answers through a pool of connections, in"
                    " which the lock of who has died stays: name the server itself in `log:`"
                    " for a supervisor"
                )
            self.tables.ask_on(connection, "beat", self.name)
            if connection is self._locked:
                return
            if self.tables.ask_on(connection, "lock", self.name) == [("t",)]:
                self.tables.ask_on(connection, "hold", self.name)
                self._locked = connection
