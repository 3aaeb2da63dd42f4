"""Serving: from an application to an address, until a signal."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from synapse.server.sockets import Sockets
from synapse.system import listening

MESSAGE = 16_384  # bytes of a message over a WebSocket: nothing here takes one
PING = 20.0  # seconds after which a WebSocket is asked whether it still lives, and has to answer


def serve(
    app: FastAPI,
    host: str,
    port: int,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until a signal; `ready` is given the address."""
    listener = listening.listen(host, port)
    ready(listening.address(host, listener.getsockname()[1]))
    server(app).run(sockets=[listener])


def server(app: FastAPI) -> uvicorn.Server:
    """Return the server of the application. Its streams end first, each with a cursor."""
    return listening.server(
        app,
        app.state.hub.close,
        ws=Sockets,
        ws_max_size=MESSAGE,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,  # costs each idle WebSocket 40 KB
    )
