"""One connection of a process that is told when another machine appended, and tells the listeners
of this machine. A hint: whoever is told reads what is new, and whoever is not looks by itself.
"""

from __future__ import annotations

import os
import select
from threading import Thread
from time import monotonic

from synapse.errors import StoreError
from synapse.log.postgres.address import Address
from synapse.log.postgres.database import WRITERS_WAIT, connect, is_direct
from synapse.system import signal
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

AGAIN = 1.0  # seconds until a connection that went is made anew
_POOLED = (
    "%s answers through a pool of connections, which passes no notifications on: what other"
    " machines write is seen at the next look; name the server itself for less delay"
)


class Listener:
    """A thread that listens until it is closed."""

    def __init__(self, address: Address, channel: str, pipes: str) -> None:
        self.address = address
        self.channel = channel
        self.pipes = pipes
        self.pid = os.getpid()
        self.wakes, self.wake = os.pipe()
        self.closed = False
        self.thread = Thread(target=self._run, name="synapse-listen", daemon=True)
        self.thread.start()

    @property
    def alive(self) -> bool:
        """Say whether it listens, in this process."""
        return self.pid == os.getpid() and self.thread.is_alive()

    def close(self) -> None:
        """Stop listening. Idempotent."""
        if self.closed or self.pid != os.getpid():
            return
        self.closed = True
        os.write(self.wake, b".")
        self.thread.join(5)
        os.close(self.wake)
        os.close(self.wakes)

    def _run(self) -> None:
        from logging import getLogger

        import psycopg

        while not self.closed:
            try:
                connection = connect(self.address, WRITERS_WAIT)
                try:
                    if not is_direct(connection):
                        getLogger("synapse").warning(_POOLED, self.address.public)
                        return
                    self._listen(connection)
                finally:
                    connection.close()
            except (StoreError, psycopg.Error, OSError):
                pass
            self._wait(AGAIN)

    def _listen(self, connection: psycopg.Connection) -> None:
        connection.execute(f'listen "{self.channel}"'.encode())
        signal.notify(self.pipes)  # of what came while nobody listened
        while not self.closed:
            self._wait(60, connection.fileno())
            connection.pgconn.consume_input()
            news = False
            while connection.pgconn.notifies():
                news = True
            if news:
                signal.notify(self.pipes)

    def _wait(self, seconds: float, also: int | None = None) -> None:
        until, poll = monotonic() + seconds, select.poll()
        for fd in (self.wakes, also):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        if not self.closed:
            poll.poll(max(0.0, until - monotonic()) * 1_000)
