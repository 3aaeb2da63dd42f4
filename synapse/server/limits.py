"""Limits of a request: how large its body is, how often a token asks, how long an answer takes.

Around all routes, in plain ASGI. A body is read here before a route sees it, so that one without a
length is bounded too. Who asks too often waits; the buckets hold the ids of tokens, never a token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synapse.errors import SynapseError
from synapse.server.callers import known
from synapse.server.problems import TooLarge, TooMany, TooSlow, Unauthorized, answer

MOST = 10_000  # buckets that are kept at once; the one that was asked longest ago goes first
_BODILESS = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(frozen=True)
class Limits:
    """What one request may take. Rates are requests in a second, 0 for as many as come; a bucket
    holds those of `burst` seconds.
    """

    body: int = 4 << 20
    rate: float = 200.0
    wrong: float = 5.0  # of one address without a good token
    burst: float = 4.0
    seconds: float = 30.0  # until an answer begins


class Buckets:
    """Tokens to spend, refilled as time goes by, for each key."""

    def __init__(
        self, rate: float, burst: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.room, self._now = rate, max(1.0, rate * burst), now
        self._levels: dict[str, tuple[float, float]] = {}

    def wait(self, key: str) -> float:
        """Take one, and return 0; where there is none, return the seconds until there is."""
        if self.rate <= 0:
            return 0.0
        now = self._now()
        level, at = self._levels.pop(key, (self.room, now))
        level = min(self.room, level + (now - at) * self.rate)
        wait = 0.0 if level >= 1 else (1 - level) / self.rate
        if not wait:
            level -= 1
        while len(self._levels) >= MOST:
            del self._levels[next(iter(self._levels))]
        self._levels[key] = (level, now)
        return wait


class Limited:
    """Refuses requests that are too large or too many, and ends the wait for a late answer."""

    def __init__(self, app: ASGIApp, limits: Limits, refused: Callable[[], None]) -> None:
        self.app, self.limits, self._refused = app, limits, refused
        self._good = Buckets(limits.rate, limits.burst)
        self._wrong = Buckets(limits.wrong, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        wait = self._wait(scope)
        if wait:
            self._refused()
            seconds = int(wait) + 1
            error = TooMany(f"too many requests: try again in {seconds} s", retry_after=seconds)
            await refuse(scope, receive, send, error)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            await self._bounded(scope, receive, send)

    def _wait(self, scope: Scope) -> float:
        """Return how long the caller has to wait: a token by its id, others by their address."""
        connection = HTTPConnection(scope)
        proves = "authorization" in connection.headers or bool(connection.cookies)
        if not proves and not connection.app.state.gate.trust_local:
            return 0.0  # the route refuses it, or serves what is for everybody
        try:
            return self._good.wait(known(connection).key)
        except Unauthorized:
            client = scope.get("client")
            return self._wrong.wait(client[0] if client else "")
        except SynapseError:
            return 0.0  # the route refuses it

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        timed = _Timed(send, self.limits.seconds)
        try:
            if scope["method"] not in _BODILESS:
                body = await self._body(scope, receive)
                if body is None:
                    most = self.limits.body
                    error = TooLarge(f"the request is larger than {most:,} bytes", limit=most)
                    await answer(error, close=True)(scope, receive, timed.send)
                    return
                receive = _replayed(body, receive)
            await self.app(scope, receive, timed.send)
        finally:
            await timed.end()

    async def _body(self, scope: Scope, receive: Receive) -> list[Message] | None:
        """Return the messages of a body; None where it is too large."""
        for name, value in scope["headers"]:
            is_length = name == b"content-length" and value.isdigit()
            if is_length and int(value) > self.limits.body:
                return None
        parts: list[Message] = []
        size = 0
        while True:
            message = await receive()
            parts.append(message)
            size += len(message.get("body", b""))
            if size > self.limits.body:
                return None
            if message["type"] != "http.request" or not message.get("more_body"):
                return parts


class _Timed:
    """Sends an answer, or that it comes too late: once, whichever is first."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._begun = self._late = False
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    async def send(self, message: Message) -> None:
        if self._late:
            return
        if not self._begun:
            self._timer.cancel()
            self._begun = True
        await self._send(message)

    async def end(self) -> None:
        """Wait until what is being sent is sent: the server takes nothing after that."""
        self._timer.cancel()
        if self._sending is not None:
            await self._sending

    def _give_up(self) -> None:
        if not self._begun:
            self._late = True
            self._sending = asyncio.ensure_future(self._say())

    async def _say(self) -> None:
        error = TooSlow(
            "the answer takes too long; what was asked may be done all the same: ask again"
            " with the same Idempotency-Key"
        )
        scope: Scope = {"type": "http"}
        await answer(error)(scope, _nothing, self._send)


async def refuse(scope: Scope, receive: Receive, send: Send, error: SynapseError) -> None:
    """Answer a request, or end the handshake of a stream, with an error."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013, "reason": str(error)[:120]})
        return
    await answer(error)(scope, receive, send)


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return a function that gives what was read, then what comes."""
    remaining = iter(messages)

    async def again() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return again


async def _nothing() -> Any:
    return {"type": "http.disconnect"}
