"""An agent of A2A over the SDK's client: its card, one task at a time, and what came of it.

Loaded with the first step: the SDK takes a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict, MessageToJson

from orchestrator.engines.a2a_notes import Note, Notes
from orchestrator.engines.http_client import guarded
from orchestrator.engines.protocol import (
    Broken,
    EngineError,
    Rejected,
    Turn,
    Unavailable,
    Usage,
    reported,
)
from synapse.wire.a2a import EXTENSION

LIMIT = 32 << 20  # bytes of what an agent says in one step
POLL = (0.2, 5.0)  # seconds between two looks at a task: at first, at most
GRACE = 5.0  # seconds for an agent to hear that nobody waits any more
_WORKS = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
_ASKS = (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED)


class Remote:
    """The agent at an address. `trusted` is the kind of place that the address has to be."""

    def __init__(self, url: str, token: str | None, trusted: str, retries: int) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.url, self._retries = url, retries
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(30.0, read=None),
            follow_redirects=False,
            **guarded(trusted, httpx),
        )
        self._client: Client | None = None
        self._streams = False

    async def close(self) -> None:
        await self._http.aclose()

    async def turn(self, text: str, session: str | None, notes: Notes) -> Turn:
        """Take a step: find its task, or send it, and wait until the agent has done with it."""
        client = await self._connected()
        try:
            note, anew = notes.last, False
            if note is not None and note.task:
                try:
                    return await self._result(client, note.task)
                except _Gone:
                    note, anew = None, True
            turn = await self._send(client, text, session, note or notes.begin(), notes)
        except asyncio.CancelledError:
            if notes.last is not None and notes.last.task:
                await self._cancel(client, notes.last.task)
            raise
        return turn._replace(anew=anew)

    async def _connected(self) -> Client:
        """Return the client for the card's own address: what is trusted is where the card is."""
        if self._client is None:
            try:
                card = await A2ACardResolver(self._http, self.url).get_agent_card()
                there = _origin(self.url)
                own = [each for each in card.supported_interfaces if _origin(each.url) == there]
                if not own:
                    raise Rejected(f"the card at {self.url} names no address at {there}")
                del card.supported_interfaces[:]
                card.supported_interfaces.extend(own)
                # one that does not stream answers at once, and is looked at again
                config = ClientConfig(streaming=True, polling=True, httpx_client=self._http)
                self._client = ClientFactory(config).create(card)
                self._streams = card.capabilities.streaming
            except (A2AError, httpx.HTTPError, ValueError) as error:
                raise self._problem(error, sent=False) from error
        return self._client

    async def _send(
        self, client: Client, text: str, session: str | None, note: Note, notes: Notes
    ) -> Turn:
        context, _, asking = (session or "").partition(" ")
        message = Message(
            message_id=note.message,
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            context_id=context,
            task_id=asking,
        )
        task = ""
        try:
            events = client.send_message(SendMessageRequest(message=message))
            async for event in _bounded(events):
                if event.HasField("message"):
                    return _said(event.message)
                if not task:
                    task = _task_of(event)
                    notes.begun(note, task)
        except (A2AError, httpx.HTTPError, ValueError) as error:
            if not task:
                raise self._problem(error, sent=True) from error
        if not task:
            raise Broken(f"the agent at {self.url} answered with neither a task nor a message")
        try:
            return await self._result(client, task)
        except _Gone:
            raise Broken(f"the agent at {self.url} has lost task {task}") from None

    async def _result(self, client: Client, id: str) -> Turn:
        """Wait for the end of a task, over connections that break, and return what came of it."""
        failures, pause = 0, POLL[0]
        while True:
            try:
                task = await client.get_task(GetTaskRequest(id=id))
                failures = 0
                if task.status.state not in _WORKS:
                    return self._turn(task)
                if self._streams:
                    async for _ in _bounded(client.subscribe(SubscribeToTaskRequest(id=id))):
                        pause = POLL[0]
            except TaskNotFoundError:
                raise _Gone from None
            except (httpx.HTTPError, A2AClientError, ValueError) as error:
                failures += 1
                if failures > self._retries:
                    raise self._problem(error, sent=True) from error
            except A2AError:
                pass  # the task has just ended
            await asyncio.sleep(pause)
            pause = min(2 * pause, POLL[1])

    async def _cancel(self, client: Client, id: str) -> None:
        try:
            async with asyncio.timeout(GRACE):
                await client.cancel_task(CancelTaskRequest(id=id))
        except (A2AError, httpx.HTTPError, TimeoutError, ValueError):
            pass  # it ended, or nobody is there

    def _turn(self, task: Task) -> Turn:
        state, usage = task.status.state, _usage(task)
        why = _text(task.status.message.parts)
        if task.ByteSize() > LIMIT:
            raise Broken(f"the agent at {self.url} said over {LIMIT} bytes", usage=usage)
        if state == TaskState.TASK_STATE_REJECTED:
            raise Rejected(f"the agent at {self.url} rejected the task: {why[:300]}", usage=usage)
        if state in _ASKS:
            return Turn(why, usage=usage, session=f"{task.context_id} {task.id}", blocked=why)
        if state != TaskState.TASK_STATE_COMPLETED:
            name = TaskState.Name(state).removeprefix("TASK_STATE_").lower()
            raise Broken(f"the task at {self.url} is {name}: {why[:300]}", usage=usage, output=why)
        text = "\n\n".join(filter(None, (_text(each.parts) for each in task.artifacts))) or why
        stop = "done" if text else "empty"
        return Turn(text, stop=stop, usage=usage, session=task.context_id)

    def _problem(self, error: Exception, *, sent: bool) -> EngineError:
        if isinstance(error, EngineError):
            return error
        answer = getattr(error.__cause__, "response", None)  # where ours refused, it says why
        why = answer.text[:500] if isinstance(answer, httpx.Response) else str(error)
        text = f"the agent at {self.url}: {why or type(error).__name__}"
        if isinstance(error, AgentCardResolutionError) and error.status_code in (401, 403, 404):
            return Rejected(text)
        if isinstance(error, (A2AClientError, httpx.HTTPError)):
            unknown = sent and not isinstance(error, httpx.ConnectError)
            return Unavailable(text, sent=unknown or isinstance(error, A2AClientTimeoutError))
        return Rejected(text)  # it understood, and refuses


class _Gone(Exception):
    """The agent does not know the task any more."""


async def _bounded(events: AsyncIterator[StreamResponse]) -> AsyncIterator[StreamResponse]:
    """Yield what an agent says, up to a limit."""
    size = 0
    async with aclosing(events) as stream:  # type: ignore[type-var]
        async for event in stream:
            size += event.ByteSize()
            if size > LIMIT:
                raise Broken(f"the agent said over {LIMIT} bytes")
            yield event


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _task_of(event: StreamResponse) -> str:
    """Return the id of the task that an event is of."""
    payload: Any = getattr(event, event.WhichOneof("payload"))
    return str(payload.id if event.HasField("task") else payload.task_id)


def _said(message: Message) -> Turn:
    """Return the turn of an agent that answers without a task."""
    text = _text(message.parts)
    stop = "done" if text else "empty"
    return Turn(text, stop=stop, usage=_usage(message), session=message.context_id or None)


def _text(parts: Any) -> str:
    """Return what parts say: texts as they are, data as JSON, and of a file where it is."""
    texts = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(MessageToJson(part.data, indent=None, ensure_ascii=False))
            case "url":
                texts.append(part.url)
    return "\n".join(texts).strip()


def _usage(said: Any) -> Usage:
    """Return the usage that an agent reports in the metadata, under our extension."""
    report = MessageToDict(said.metadata).get(EXTENSION, {})
    report = report.get("usage") if isinstance(report, dict) else None
    counts = [_count(report, name) for name in ("input_tokens", "output_tokens")]
    if not isinstance(report, dict) or not reported(*counts):
        return Usage(estimated=True)
    cached, written = (_count(report, name, 0) for name in ("cached_tokens", "written_tokens"))
    if not reported(cached, written):
        cached = written = 0
    cost = report.get("cost")
    if not isinstance(cost, (int, float)) or not 0 <= cost < float("inf"):
        cost = None
    return Usage(counts[0], counts[1], cached, written, cost)


def _count(report: object, name: str, missing: int | None = None) -> Any:
    """Return a count, which JSON has as a number of any kind."""
    value = report.get(name, missing) if isinstance(report, dict) else None
    return int(value) if isinstance(value, float) and value.is_integer() else value
