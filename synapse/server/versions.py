"""The version of what the server offers, in a header of each answer."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synapse.wire import API

HEADER = (b"synapse-api", API.encode())


class Versioned:
    """Says the version with each answer, whatever it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def versioned(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), HEADER]
            await send(message)

        await self.app(scope, receive, versioned)
