"""The Host and Origin of a request: a page of another site reaches nothing here.

A name that resolves to this machine is no proof that a request was meant for it, and a browser
sends requests of any page. Called around all routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from synapse.errors import Forbidden
from synapse.server.problems import answer


class Origins:
    """Refuses requests to another host than these, or from a page of another origin."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self.app = app
        self.names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        name, colon, port = host.lower().rpartition(":")
        if (name if colon and port.isdigit() else host.lower()) not in self.names:
            why = (
                f"this server does not answer for the host {host[:80]!r}; `synapse serve"
                " --hosts NAME` names the hosts that it answers for"
            )
        elif origin and urlsplit(origin).netloc.lower() != host.lower():
            why = f"requests of pages from {origin[:80]!r} are refused"
        else:
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": why[:120]})
            return
        await answer(Forbidden(why, action="ask"))(scope, receive, send)
