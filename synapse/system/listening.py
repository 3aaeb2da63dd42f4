"""Listening for HTTP: a socket, the names that reach it, and a server that ends in time.

Knows nothing of what is served. Called by the servers of this package.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from synapse.errors import StoreError

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# seconds that a peer may leave unread what it was sent, and its connection open
UNREAD = 30
BACKLOG = 128  # connections that wait to be accepted
CLOSING = 1  # seconds that open streams have when the server is told to end
_EVERYWHERE = ("0.0.0.0", "::", "")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. StoreError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only on sockets that say that they are TCP: else an answer of two
    # parts waits 40 ms for the caller's acknowledgement of the first
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by each connection
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD * 1_000)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StoreError(f"nothing can be served at {host}:{port}: {error.strerror}") from error
    return listener


def address(host: str, port: int) -> str:
    """Return the address under which a host and a port are asked."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def server(
    app: Any,
    ending: Callable[[], Awaitable[None]] | None = None,
    ready: Callable[[], object] = lambda: None,
    proxies: Sequence[str] = (),
    header: float | None = None,
    **options: Any,
) -> uvicorn.Server:
    """Return a server of an application, which awaits `ending` before it closes what is open. It
    calls `ready` once it answers, and ends in order where a signal comes. What `proxies` say of the
    address and the scheme of a caller is believed. `header` is in how many seconds the header of a
    request has to be there.
    """
    import uvicorn  # costs whoever serves standard streams its start

    from synapse.system.connections import HEADER, Bounds, Connection, Waiting, say_seldom

    class Bounded(uvicorn.Server):
        """A server that ends in time even where its application does not answer any more."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            say_seldom(asyncio.get_running_loop())
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(3 * CLOSING):
                    if ending is not None:
                        await ending()
                    await super().shutdown(sockets)

    bounds = Bounds(header or HEADER, Waiting(), Waiting())
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=CLOSING,
        lifespan="on",
        server_header=False,
        backlog=BACKLOG,
        http=partial(Connection, bounds=bounds),  # type: ignore[arg-type]
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[*proxies],
        **options,
    )
    return Bounded(config)


def hosts(host: str, names: Sequence[str]) -> list[str]:
    """Return the names under which requests may come, without ports."""
    return list(dict.fromkeys([*LOOPBACK[:2], "[::1]", *_names_of(host), *names]))


def _names_of(host: str) -> list[str]:
    """Return the names of this machine under which the address may be requested."""
    if host in _EVERYWHERE:
        name = socket.gethostname()
        return [name, socket.getfqdn(name)]
    return [f"[{host}]" if ":" in host else host]
