"""One delivery over HTTP: a POST to a checked number of a host, and the status that comes back.

The host is resolved and checked at each delivery and the connection goes to just that number, so
that a name that leads elsewhere by then reaches nothing. No redirect is followed, no proxy asked,
certificates are verified, and all of it together has a limit of time. Knows no entries.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from synapse.errors import Forbidden
from synapse.system import addresses
from synapse.system.addresses import Place, Resolver
from synapse.system.typed import NamedTuple

PATIENCE = 10.0  # seconds for all of it
LONGEST_HEAD = 32 << 10
LONGEST_WAIT = 3600  # seconds that a receiver may ask for

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?:[ \r]|$)")
_AFTER = re.compile(rb"\r\nretry-after:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)


class Outcome(NamedTuple):
    """How a delivery ended: whether it was taken, what was answered, and for how many seconds the
    receiver wants to be left alone.
    """

    delivered: bool
    text: str
    wait: float = 0.0


class Wire(NamedTuple):
    """What deliveries go through: who resolves names, what verifies certificates, and for how long
    one may take.
    """

    resolver: Resolver = socket.getaddrinfo
    tls: ssl.SSLContext | None = None
    patience: float = PATIENCE


async def post(
    url: str, headers: Mapping[str, str], body: bytes, trusted: str, wire: Wire
) -> Outcome:
    """Send a body to an address that was trusted as this kind of place. Never raises: what went
    wrong is in the outcome.
    """
    try:
        async with asyncio.timeout(wire.patience):
            return await _post(url, headers, body, trusted, wire)
    except TimeoutError:
        return Outcome(False, f"no answer within {wire.patience:g} s")
    except (Forbidden, OSError) as error:
        return Outcome(False, str(error) or type(error).__name__)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return Outcome(False, "the connection was cut, or the answer is not HTTP/1.1")


async def _post(
    url: str, headers: Mapping[str, str], body: bytes, trusted: str, wire: Wire
) -> Outcome:
    origin = addresses.place_of(url)
    if origin.scheme == "http" and trusted == addresses.PUBLIC:
        raise Forbidden(f"{origin.host} is public: write https, for entries are sent there")
    numbers = await asyncio.to_thread(
        addresses.resolved, origin.host, origin.port, trusted, wire.resolver
    )
    reader, writer = await _connected(origin, numbers, wire)
    try:
        writer.write(_request(url, headers, body))
        await writer.drain()
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            status = _STATUS.match(head)
            if status is None:
                return Outcome(False, "the answer is not HTTP/1.1")
            if not status[1].startswith(b"1"):  # such as 103, which comes before
                return _outcome(int(status[1]), head)
    finally:
        writer.transport.abort()


async def _connected(
    place: Place, numbers: list[str], wire: Wire
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the numbers that answers."""
    failed: OSError | None = None
    tls = None
    if place.scheme == "https":
        tls = wire.tls or ssl.create_default_context()
    for number in numbers:
        try:
            return await asyncio.open_connection(
                number,
                place.port,
                ssl=tls,
                server_hostname=place.host if tls else None,
                limit=LONGEST_HEAD,
            )
        except OSError as error:
            failed = error
    raise failed or OSError(f"{place.host} has no address")


def _request(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {
        "host": parts.netloc,
        "user-agent": "synapse-webhooks",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        **headers,
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{key}: {text}" for key, text in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _outcome(status: int, head: bytes) -> Outcome:
    if 200 <= status < 300:
        return Outcome(True, str(status))
    after = _AFTER.search(head)
    text = f"{status}, a redirect, which is not followed" if status < 400 else str(status)
    return Outcome(False, text, min(int(after[1]), LONGEST_WAIT) if after else 0.0)
