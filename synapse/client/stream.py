"""Events of a server as they come, over one WebSocket after the other.

A connection that breaks is made anew from the last cursor that was heard, so that no event is
missed and none comes twice. Called by `RemoteMemory.follow`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from urllib.parse import urlencode

from synapse.client import problems
from synapse.client.arguments import query
from synapse.client.transport import FIRST, LAST, Transport
from synapse.errors import StoreError
from synapse.model.results import Event
from synapse.system import extras
from synapse.system.quoting import inline
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire import parse

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

START, CURRENT, ALIVE, PROBLEM = "start", "current", "alive", "problem"
LARGEST = 4 << 20  # bytes of a frame: an entry's body is at most a fraction of it
SILENCE = 20.0  # seconds after which a connection is asked whether it still lives


def follow(
    transport: Transport, since: str | int | None, critical: bool, timeout: float | None
) -> Iterator[Event]:
    """Yield events from a cursor or a time on, each once; those that were there already whatever
    the timeout.
    """
    try:
        import websockets.sync.client  # noqa: F401
    except ImportError as error:
        raise StoreError(extras.missing(error, "following a server")) from error
    return _Stream(transport, since, critical, timeout).events()


class _Stream:
    """One follower: where it is, and until when it goes on."""

    def __init__(
        self, transport: Transport, since: str | int | None, critical: bool, timeout: float | None
    ) -> None:
        self.transport = transport
        self.since = since
        self.critical = critical
        self.until = None if timeout is None else time.monotonic() + timeout
        self.current = False  # whether all was heard that was there at the start

    def events(self) -> Iterator[Event]:
        reached, wait = time.monotonic(), FIRST
        while True:
            try:
                connection = self._connect()
            except _Unreached as error:
                why = inline(str(error))[: problems.MOST]
            else:
                with connection:
                    yield from self._heard(connection)
                if self._over():
                    return
                reached, wait, why = time.monotonic(), FIRST, "it closed the stream"
            if self._given_up(reached):
                raise StoreError(f"{self.transport.address} cannot be reached: {why}")
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LAST)

    def _given_up(self, reached: float) -> bool:
        """Return whether to stop trying: who follows for ever waits for a server as long as it was
        reached before."""
        if self.until is None and self.current:
            return False
        expired = self.until is not None and time.monotonic() >= self.until
        return expired or time.monotonic() - reached >= self.transport.timeout

    def _over(self) -> bool:
        """Return whether the time is over, and what was there has been heard."""
        if self.until is None or not self.current:
            return False
        return time.monotonic() >= self.until

    def _connect(self) -> ClientConnection:
        """Return a connection. `_Unreached` where another try may succeed."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        address = self.transport.address
        options = urlencode(query({"since": self.since, "critical": self.critical}))
        try:
            connection: ClientConnection = connect(
                f"ws{address.removeprefix('http')}/v1/stream?{options}",
                additional_headers={"Authorization": f"Bearer {self.transport.token()}"},
                proxy=True if address.startswith("https:") else None,
                open_timeout=min(self.transport.timeout, 10.0),
                close_timeout=1.0,
                ping_interval=SILENCE,
                ping_timeout=SILENCE,
                max_size=LARGEST,
                create_connection=_direct(),
                **_itself(),
            )
            return connection
        except _Answered as error:
            raise self._refused(error.response) from None
        except (OSError, WebSocketException) as error:
            raise _Unreached(str(error) or "no answer") from None

    def _refused(self, response: Any) -> Exception:
        """Return the error for an answer that is no stream; `_Unreached` where another try may
        succeed."""
        status, to = response.status_code, response.headers.get("location", "")
        if 300 <= status < 400:
            return problems.redirected(self.transport.address, to)
        try:
            document = json.loads(response.body or b"null")
        except (ValueError, RecursionError):
            document = None
        error = problems.error_of(status, document, self.transport.address)
        return _Unreached(str(error)) if status in problems.LATER else error

    def _heard(self, connection: ClientConnection) -> Iterator[Event]:
        """Yield the events of one connection until it breaks, or the time is over."""
        from websockets.exceptions import ConnectionClosed

        while True:
            seconds = None
            if self.until is not None:
                seconds = max(self.until - time.monotonic(), 0.0)
                if not self.current:
                    seconds = max(seconds, self.transport.timeout)
            try:
                frame = json.loads(connection.recv(seconds))
            except (TimeoutError, ConnectionClosed, ValueError, RecursionError):
                return
            kind, number, event = self.transport.value(_read, frame)
            if kind == PROBLEM:
                if number in problems.LATER:
                    return
                raise problems.error_of(number, frame["problem"], self.transport.address)
            self.since = number
            if kind == CURRENT:
                self.current = True
                if self._over():
                    return
            elif event is not None:
                yield event


def _read(frame: Any) -> tuple[str, int, Event | None]:
    """Return what a frame is, its cursor, or the status of a problem, and the event that it is."""
    kind = str(frame["kind"])
    if kind == PROBLEM:
        return kind, int(frame["problem"]["status"]), None
    event = None if kind in (START, CURRENT, ALIVE) else parse.event(frame)
    return kind, int(frame["cursor"]), event


class _Unreached(Exception):
    """No stream began, for now."""


class _Answered(Exception):
    """The server answered with something else than a stream."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


def _itself() -> dict[str, Any]:
    """Return the option by which `connect` returns a connection, which it did always before 17."""
    from websockets.version import version

    return {"legacy": True} if int(version.partition(".")[0]) >= 17 else {}


def _direct() -> type[ClientConnection]:
    """Return the class of a connection of which no redirect is followed."""
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import ClientConnection

    class Direct(ClientConnection):
        def handshake(self, *args: Any, **named: Any) -> None:
            try:
                super().handshake(*args, **named)
            except InvalidStatus as error:
                raise _Answered(error.response) from None

    return Direct
