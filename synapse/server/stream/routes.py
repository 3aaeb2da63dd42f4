"""The routes of live events: `WS /v1/stream` and `SSE /v1/events`.

They read what is asked for and send frames until the caller hangs up, may not listen any more, or
does not read. Called by `application`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidQuery
from synapse.server.callers import Reader, gate_of, known
from synapse.server.problems import Unauthorized, responses
from synapse.server.stream.frames import Frame, wanted
from synapse.server.stream.hub import Hub, hub_of
from synapse.server.stream.subscription import POLICY, STALLED, End, Subscription

router = APIRouter(tags=["events"])
TALKS = End(
    POLICY,
    "a stream takes no messages",
    InvalidQuery("a stream takes no messages: what it tells of stands in its address"),
)
Many = Annotated[list[str] | None, Query()]
Write = Callable[[Frame], Awaitable[None]]


class Asked:
    """What a subscriber asks for."""

    def __init__(
        self,
        since: Annotated[
            str | None, Query(max_length=100, description="a cursor, or a time; none: from now on")
        ] = None,
        namespace: Many = None,
        priority: Many = None,
        critical: bool = False,
    ) -> None:
        self.since = since
        self.wanted = wanted(namespace or (), priority or (), critical)


Question = Annotated[Asked, Depends()]


@router.websocket("/stream")
async def stream(websocket: WebSocket, memory: Reader, asked: Question) -> None:
    """Send events over a WebSocket, which takes no messages."""
    hub = hub_of(websocket)
    subscription = await to_thread.run_sync(
        _subscription, websocket, memory, asked, asked.since, "websocket"
    )
    hub.add(subscription)
    try:
        await websocket.accept()
        await _send_over(websocket, hub, subscription)
    except (WebSocketDisconnect, OSError):
        pass  # it hung up
    finally:
        hub.remove(subscription)


@router.get(
    "/events",
    response_class=Response,
    responses={
        200: {
            "description": "events, each with its cursor as id, until one side hangs up",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **responses(422),
    },
)
async def events(
    connection: HTTPConnection,
    memory: Reader,
    asked: Question,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=100)] = None,
) -> Response:
    """Send events as server-sent events."""
    since = last or asked.since
    subscription = await to_thread.run_sync(_subscription, connection, memory, asked, since, "sse")
    return ServerSent(hub_of(connection), subscription)


def _subscription(
    connection: HTTPConnection, memory: AgentMemory, asked: Asked, since: str | None, form: str
) -> Subscription:
    """Return what the caller subscribes to. Runs in a thread: it looks at the log."""
    caller, gate = known(connection), gate_of(connection)

    def check() -> None:
        if gate.caller(connection) != caller:
            raise Unauthorized("this token is another one now")

    is_cursor = since is not None and since.isascii() and since.isdigit()
    start = int(since) if since is not None and is_cursor else since
    return Subscription(caller, memory, asked.wanted, start, check, form)


async def _send_over(websocket: WebSocket, hub: Hub, subscription: Subscription) -> None:
    async def write(frame: Frame) -> None:
        try:
            await websocket.send({"type": "websocket.send", "text": frame.text})
        except RuntimeError:  # the server closed it: its pings were not answered
            raise WebSocketDisconnect(1006) from None

    async def gone() -> None:
        while (await websocket.receive())["type"] != "websocket.disconnect":
            subscription.end(TALKS)

    async def finish(end: End, sent: int) -> None:
        try:
            await websocket.close(end.code, end.reason(sent))
        except RuntimeError:
            pass  # it was closed meanwhile

    await _relay(hub, subscription, write, gone, finish)


class ServerSent(Response):
    """The answer that is a stream of server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, subscription: Subscription) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def write(frame: Frame) -> None:
            await send(_part(frame.sse()))

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def finish(end: End, sent: int) -> None:
            await send(_part(b"", more=False))

        self._hub.add(self._subscription)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _relay(self._hub, self._subscription, write, gone, finish)
        except OSError:
            pass  # it hung up
        finally:
            self._hub.remove(self._subscription)


def _part(body: bytes, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _relay(
    hub: Hub,
    subscription: Subscription,
    write: Write,
    gone: Callable[[], Awaitable[None]],
    finish: Callable[[End, int], Awaitable[None]],
) -> None:
    """Send frames, and the end of the stream, unless the caller hangs up before."""

    async def send() -> None:
        sent = await _pump(hub, subscription, write)
        assert subscription.ended is not None
        await finish(subscription.ended, sent)

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(gone())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _pump(hub: Hub, subscription: Subscription, write: Write) -> int:
    """Send frames until the stream ends, and return the cursor of the last one."""
    sent = subscription.cursor
    frames = subscription.frames(hub.position, hub.reading, hub.pace)
    async with aclosing(frames):
        async for frame in frames:
            try:
                async with asyncio.timeout(hub.pace.stall):
                    await write(frame)
            except TimeoutError:
                subscription.end(STALLED)
                break
            sent = frame.cursor
    return sent
