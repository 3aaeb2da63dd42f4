"""Connections of HTTP as uvicorn speaks them, bounded: the header of a request has a deadline, and
of the connections that wait for one only so many stay open.

Knows nothing of what is served. Imports uvicorn, and so is imported by `listening` where it serves.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER = 10.0  # seconds in which the whole header of a request has to be there
WAITING = 300  # connections that wait for one, of all addresses
WAITING_OF_ONE = 100  # and of one address; where there are more, the oldest end
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_FRAMED = frozenset((b"content-length", b"transfer-encoding"))

log = logging.getLogger(__name__)


class Waiting:
    """Connections that wait for a header, oldest first, by their addresses."""

    def __init__(self) -> None:
        self._all: dict[Connection, None] = {}
        self._of: dict[str, dict[Connection, None]] = {}

    def add(self, connection: Connection) -> None:
        """Add a connection; the oldest ends where there are too many."""
        of_one = self._of.setdefault(connection.address, {})
        of_one[connection] = self._all[connection] = None
        if len(of_one) > WAITING_OF_ONE:
            next(iter(of_one)).give_up()
        elif len(self._all) > WAITING:
            next(iter(self._all)).give_up()

    def remove(self, connection: Connection) -> None:
        of_one = self._of.get(connection.address, {})
        of_one.pop(connection, None)
        self._all.pop(connection, None)
        if not of_one:
            self._of.pop(connection.address, None)


class Bounds(NamedTuple):
    """How long connections wait for a header, and which do: those of which a part is there, or
    nothing yet, and those that rest after an answer, which are not ended for the others.
    """

    header: float
    beginning: Waiting
    resting: Waiting


class Connection(H11Protocol):
    """One connection. It waits for a header from its beginning, and from the end of each answer,
    and no longer than `bounds` say; a body that nobody read is thrown away meanwhile.
    """

    def __init__(self, *args: Any, bounds: Bounds, **named: Any) -> None:
        super().__init__(*args, **named)
        self.address = ""
        self._bounds = bounds
        self._waiting: Waiting | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._wait(self._bounds.beginning)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiting is self._bounds.resting:
            self._wait(self._bounds.beginning)
        super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()
            # One of two lengths: where a proxy believes the other, the next request is not its own.
            if _FRAMED.issubset(name for name, _ in self.headers):
                self.cycle.keep_alive = False

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            has_all = self.conn.their_state is h11.DONE
            self._wait(self._bounds.resting if has_all else self._bounds.beginning)
        super().on_response_complete()  # where the next header is there already, it is handled

    def give_up(self) -> None:
        """End the connection: the header did not come, or too many wait."""
        self._stop_waiting()
        self.transport.close()

    def _wait(self, among: Waiting) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self._bounds.header, self.give_up)
        self._waiting = among
        among.add(self)

    def _stop_waiting(self) -> None:
        if self._timer is not None and self._waiting is not None:
            self._timer.cancel()
            self._waiting.remove(self)
            self._timer = self._waiting = None


def say_seldom(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop say once a second, in one line, that it accepts no connection because descriptors
    or memory are exhausted: it tries on, and says so each time.
    """
    logged_at = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal logged_at
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif time.monotonic() - logged_at >= 1:
            logged_at = time.monotonic()
            log.warning("no connection is accepted now: %s", error.strerror)

    loop.set_exception_handler(handle)
