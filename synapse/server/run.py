"""Serving: from an application to an address, until a signal; what whoever starts it is told."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI

from synapse.errors import NotFound
from synapse.model.agents import OPERATOR
from synapse.server.announcement import near
from synapse.server.application import Serving
from synapse.server.sockets import Sockets
from synapse.system import listening
from synapse.system.addresses import is_loopback
from synapse.trust.bearer import place

MESSAGE = 16_384  # bytes of a message over a WebSocket: nothing here takes one
SWITCH = 0.0005  # seconds that a thread may go on while others want to; 0.005 in Python
PING = 20.0  # seconds after which a WebSocket is asked whether it still lives, and has to answer


def serve(
    app: FastAPI, host: str, port: int, ready: Callable[[str], None] = lambda address: None
) -> None:
    """Serve until a signal; `ready` is given the address."""
    listener = listening.listen(host, port)
    place = listening.address(host, listener.getsockname()[1])
    prepare()
    server(app, lambda: ready(place)).run(sockets=[listener])


def server(app: FastAPI, ready: Callable[[], object] = lambda: None) -> uvicorn.Server:
    """Return the server of the application. Its streams end first, each with a cursor."""
    return listening.server(
        app,
        app.state.hub.close,
        ready,
        app.state.serving.proxies,
        ws=Sockets,
        ws_max_size=MESSAGE,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,  # costs each idle WebSocket 40 KB
    )


def prepare() -> None:
    """Have this process serve from now on. What the program is made of is left out of the rounds
    of the garbage collector: a full one took 30 to 40 ms, within whichever request it fell. Threads
    take turns often: a small question waits at each step for those that work on large ones.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH)


def introduction(serving: Serving, root: str, address: str) -> Iterator[str]:
    """Yield the lines that say where a workspace is served, how to look at it and who is let in."""
    yield f"serving {os.path.abspath(root)} at {address}"
    if sys.stderr.isatty():
        link = serving.browsers.link(OPERATOR)
        yield f"to look at it: {near(address)}/login?code={link}  (good once)"
    else:  # a log is kept, and read by others
        yield "to look at it: `synapse dashboard` gives a link"
    host = urlsplit(address).hostname or ""
    open_to_others = not is_loopback(host)
    if open_to_others:
        yield (
            f"{host} can be reached by others: each request needs a token, and tokens need a"
            " proxy with TLS before this server; --hosts names how it is asked"
        )
    path = serving.tokens.path
    named = "" if path == place(root) else f" --token-file {path}"
    if (open_to_others or named) and not _has_tokens(serving):
        yield f"there is no token yet; `synapse token new AGENT{named}` makes one"


def _has_tokens(serving: Serving) -> bool:
    try:
        return bool(serving.tokens.load())
    except NotFound:
        return False
