"""The transports: a server over its standard streams, or over HTTP.

Both end cleanly when they are told to.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware

from synapse.mcp.caller import READ_ONLY
from synapse.system import listening
from synapse.trust.bearer import TokenFile

PATH = "/mcp"


def serve_stdio(server: Server[Any], begun: Sequence[bytes] = ()) -> None:
    """Serve one client until it closes our standard input. `begun` are lines of it that were read
    already: the first is its handshake if there are more, and was answered.
    """
    _log_to_stderr()
    anyio.run(_over_stdio, server, begun)


async def _over_stdio(server: Server[Any], begun: Sequence[bytes]) -> None:
    options = server.create_initialization_options()
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        lines, read = anyio.create_memory_object_stream[SessionMessage | Exception]()
        write, answers = anyio.create_memory_object_stream[SessionMessage]()
        tasks.start_soon(_pass_on, begun, incoming, lines)
        tasks.start_soon(_pass_back, answers, outgoing, len(begun) > 1)
        await server.run(read, write, options)


async def _pass_on(
    begun: Sequence[bytes],
    incoming: ReadStream[SessionMessage | Exception],
    lines: WriteStream[SessionMessage | Exception],
) -> None:
    """Pass what was read before, and then all that comes."""
    async with lines:
        for line in begun:
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                await lines.send(SessionMessage(message))
            except ValueError as error:
                await lines.send(error)
        async for item in incoming:
            await lines.send(item)


async def _pass_back(
    answers: ReadStream[SessionMessage], outgoing: WriteStream[SessionMessage], is_begun: bool
) -> None:
    """Pass the answers, without that to a handshake that was answered: it is the first."""
    async with outgoing:
        if is_begun:
            await answers.receive()
        async for item in answers:
            await outgoing.send(item)


def serve_http(
    server: Server[Any],
    host: str,
    port: int,
    tokens: TokenFile | None = None,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until a signal. `names` are further hosts under which clients may ask; `ready` is
    given the address."""
    _log_to_stderr()
    listener = listening.listen(host, port)
    place = listening.address(host, listener.getsockname()[1]) + PATH
    served = application(server, host, tokens, names)
    listening.server(served, ready=lambda: ready(place)).run(sockets=[listener])


def application(
    server: Server[Any], host: str, tokens: TokenFile | None = None, names: Sequence[str] = ()
) -> Starlette:
    """Return the ASGI application: the Host and Origin of each request are checked, and its
    token where there are tokens."""
    security = TransportSecuritySettings(
        allowed_hosts=_hosts(host, names), allowed_origins=_origins(host, names)
    )
    verifier = None if tokens is None else Verifier(tokens)
    app = server.streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=security, token_verifier=verifier
    )
    if verifier is not None:
        app.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(verifier))
    return app


class Verifier:
    """Who a bearer token belongs to, in the SDK's form: sessions are bound to it, and requests
    carry it."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        caller = self._tokens.find(token)
        if caller is None:
            return None
        scopes = [READ_ONLY] if caller.read_only else []
        return AccessToken(token=token, client_id=caller.agent, scopes=scopes)


def _hosts(host: str, names: Sequence[str]) -> list[str]:
    hosts = listening.hosts(host, names)
    return [form for name in hosts for form in (name, f"{name}:*")]


def _origins(host: str, names: Sequence[str]) -> list[str]:
    return [f"{scheme}://{name}" for scheme in ("http", "https") for name in _hosts(host, names)]


def _log_to_stderr() -> None:
    """Send log output to standard error: standard output carries the protocol."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="synapse mcp: %(asctime)s %(levelname)s %(message)s",
    )
    logging.Formatter.converter = time.gmtime
