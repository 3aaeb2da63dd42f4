"""Around all routes, in plain ASGI: no request takes more than its `Limits`, whoever sends it.

Who calls is asked before a body is read. A body is read here before a route sees it, so that one
without a length is bounded too; of who did not prove who they are none is read, but where the body
is the proof. Who asks too often is refused, and who asks for much at once waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from anyio import CancelScope, fail_after
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synapse.errors import SynapseError
from synapse.server.callers import SAFE, known
from synapse.server.limits import Buckets, Limits, Turn, Turns, too_many
from synapse.server.problems import TooLarge, TooMany, TooSlow, Unauthorized, answer
from synapse.server.repeats import Repeats
from synapse.system.deadline import DEADLINE, Deadline
from synapse.system.quoting import clean
from synapse.webhooks.inbound import LARGEST as DELIVERY

HOOKS, LOGIN = "/v1/hooks/", "/login"
FORM = 16 << 10  # bytes of a form that logs in
LONGEST = 200  # characters of an address that is logged
PATIENCE = 1.0  # seconds that who asks too often is held

log = logging.getLogger(__name__)


class Who(NamedTuple):
    """Who is counted under which name, in which buckets, and how many bytes its body may have."""

    key: str
    buckets: Buckets | None
    body: int
    why: Unauthorized | None = None  # it is nobody


class Limited:
    """Refuses requests that are too large or too many, has others wait their turn, and ends the
    wait for a late answer, and what is read for it.
    """

    def __init__(self, app: ASGIApp, limits: Limits, refused: Callable[[], None]) -> None:
        self.app, self.limits, self._refused = app, limits, refused
        self._good = Buckets(limits.rate, limits.burst)
        self._wrong = Buckets(limits.wrong, limits.burst)
        self._deliveries = Buckets(limits.deliveries, limits.burst)
        self._turns = Turns(limits.at_once, limits.queue)
        self._repeats = Repeats()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._bounded(scope, receive, send, self._who(HTTPConnection(scope)))
        elif scope["type"] == "websocket":
            await self._counted(scope, receive, send, self._who(HTTPConnection(scope)))
        else:
            await self.app(scope, receive, send)

    def _who(self, connection: HTTPConnection) -> Who:
        """Return who calls. What the headers of a delivery prove, they prove to its hook."""
        path, address = connection.url.path, connection.client.host if connection.client else ""
        if path.startswith(HOOKS):
            return Who(f"{path} {address}", self._deliveries, DELIVERY)
        if path.startswith(LOGIN) and connection.scope.get("method") == "POST":
            return Who(f"login {address}", self._wrong, FORM)
        proves = "authorization" in connection.headers or bool(connection.cookies)
        if not proves and not connection.app.state.gate.trust_local:
            return Who(address, None, 0)  # the route refuses it, or is for everybody
        try:
            return Who(known(connection).key, self._good, self.limits.body)
        except Unauthorized as error:
            return Who(f"wrong {address}", self._wrong, 0, error)
        except SynapseError:
            return Who(address, None, 0)  # the route refuses it

    async def _counted(self, scope: Scope, receive: Receive, send: Send, who: Who) -> None:
        """Let a stream begin, or end its handshake."""
        wait = who.buckets.wait(who.key) if who.buckets else 0.0
        if wait:
            self._refused()
            reason = str(too_many(wait))[:120]
            await send({"type": "websocket.close", "code": 1013, "reason": reason})
            return
        _log(scope, who)
        await self.app(scope, receive, send)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, who: Who) -> None:
        timed = _Timed(send, self.limits.seconds)
        try:
            with timed.scope:
                turn = await self._turns.take(who.key)
                timed.begun = partial(self._end, turn, who, scope)
                name = None
                try:
                    await _pay(who)
                    _log(scope, who)
                    body, name = await self._whole(scope, receive, who)
                    if scope["method"] in SAFE:  # what is begun to be written is written
                        DEADLINE.set(timed.deadline)
                    await self.app(scope, body, timed.send)
                finally:
                    timed.begun()
                    if name is not None and 400 <= timed.status < 500:
                        self._repeats.forget(name)
        except SynapseError as error:
            if isinstance(error, TooMany):
                self._refused()
            await answer(error)(scope, receive, timed.send)
        finally:
            await timed.end()

    def _end(self, turn: Turn, who: Who, scope: Scope) -> None:
        """End a turn, and have the caller pay for what it took: what writes waits more than it
        works.
        """
        seconds = turn.end()
        if who.buckets is not None and scope["method"] in SAFE and seconds > self.limits.free:
            who.buckets.spend(who.key, (seconds - self.limits.free) * self.limits.cost)

    async def _whole(
        self, scope: Scope, receive: Receive, who: Who
    ) -> tuple[Receive, bytes | None]:
        """Return what gives a route its body, and the request's name among `Repeats`. TooLarge, and
        TooSlow where it does not come; one that proves nothing is not waited for.
        """
        if scope["method"] in SAFE:
            return receive, None
        most = who.body
        parts: list[Message] = []
        if not most:
            none: Message = {"type": "http.request", "body": b"", "more_body": False}
            return _replayed([none], receive), None
        length = dict(scope["headers"]).get(b"content-length", b"")
        size = int(length) if length.isdigit() else 0
        too_large = TooLarge(f"the request is larger than {most:,} bytes", limit=most)
        if size > most:
            raise too_large
        size = 0
        try:
            with fail_after(self.limits.upload):
                while not parts or parts[-1].get("more_body"):
                    parts.append(await receive())
                    size += len(parts[-1].get("body", b""))
                    if size > most:
                        raise too_large
        except TimeoutError:
            seconds = f"{self.limits.upload:g}"
            raise TooSlow(f"the body was not there after {seconds} s; nothing was done") from None
        whole = b"".join(part.get("body", b"") for part in parts)
        return _replayed(parts, receive), self._repeats.take(who.key, scope, whole)


class _Timed:
    """Sends an answer, or that it comes too late: once, whichever is first. Where it is too late,
    what is done for it ends, in `scope` and at `deadline`. `begun` is called as an answer begins.
    """

    def __init__(self, send: Send, seconds: float) -> None:
        self.scope = CancelScope()
        self.deadline = Deadline(time.monotonic() + seconds)
        self.begun: Callable[[], object] = _nothing
        self._send = send
        self._begun = self._late = False
        self.status = 0  # of the answer, once it began
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    async def send(self, message: Message) -> None:
        if self._late:
            return
        if not self._begun:
            self._timer.cancel()
            self.deadline.lift()
            self._begun = True
            self.status = message.get("status", 0)
            self.begun()
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
            self.scope.cancel()

    async def _say(self) -> None:
        error = TooSlow(
            "the answer takes too long; what was asked may be done all the same: ask again"
            " with the same Idempotency-Key"
        )
        scope: Scope = {"type": "http"}
        await answer(error)(scope, _disconnected, self._send)


async def _pay(who: Who) -> None:
    """Count a request. Who asks too often waits a little, and is refused where that is not enough:
    so nobody is told that more often than once a second in each of its turns.
    """
    wait = who.buckets.wait(who.key) if who.buckets else 0.0
    if who.buckets and wait:
        await asyncio.sleep(min(wait, PATIENCE))
        wait = who.buckets.wait(who.key)
    if wait:
        raise too_many(wait)


def _log(scope: Scope, who: Who) -> None:
    """Log who is nobody, and why. They are counted, so that they fill no log."""
    if who.why is not None:
        method, path = scope.get("method", "WS"), clean(scope["path"])[:LONGEST]
        log.warning("not let in: %s %s, %s: %s", method, path, who.key, who.why)


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return a function that gives what was read, then what comes."""
    remaining = iter(messages)

    async def again() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return again


def _nothing() -> None:
    pass


async def _disconnected() -> Any:
    return {"type": "http.disconnect"}
