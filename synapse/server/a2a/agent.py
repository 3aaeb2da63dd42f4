"""The agent: its card, its tasks, and the skills, which are the tools of the same names.

A message names its skill under our extension, `{"skill": "append", "namespace": "api/users"}`; its
text is what is searched for, written, or to be done. Without a name it is a search. A briefing with
`watch` goes on: each critical entry from then on is an artifact, until the task is cancelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, Message, Part, Task, TaskState, TaskStatus
from anyio import to_thread
from fastapi import Request, Response
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.responses import JSONResponse

from synapse import tools
from synapse.errors import Forbidden, InvalidEntry, SynapseError
from synapse.server.a2a.allowed import Push
from synapse.server.a2a.push import Configs, Sender
from synapse.server.callers import Caller, Gate, gate_of, known
from synapse.server.problems import Unauthorized
from synapse.server.stream.frames import wanted
from synapse.server.stream.hub import Hub
from synapse.server.stream.subscription import Subscription
from synapse.tools import Tool
from synapse.wire.a2a import EXTENSION

SEARCH, APPEND, BRIEFING = "memory_search", "append", "briefing"
TEXT = {SEARCH: "query", APPEND: "body", BRIEFING: "task"}  # what the text of a message is
SKILLS = {tool.name: tool for tool in (*tools.TOOLS, *tools.CLIENTS) if tool.name in TEXT}
CRITICAL = "critical"
KEPT = 1_000  # tasks of one agent; the oldest that ended are forgotten first
_ENDED = frozenset(
    (
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    )
)
_WATCH = {"watch": {"type": "boolean", "description": "go on with each critical entry"}}


class Agent:
    """What answers the routes."""

    def __init__(self, gate: Gate, hub: Hub, push: Push) -> None:
        configs = Configs()
        self._sender = Sender(push, configs)
        self._handler = DefaultRequestHandler(
            Skills(hub),
            Tasks(configs),
            card_at("http://localhost/a2a"),  # whoever asks is given its own
            push_config_store=configs,
            push_sender=self._sender,
            push_url_validator=self._sender.accepts,
        )
        self._rpc = JsonRpcDispatcher(self._handler, Callers(), enable_v0_3_compat=True)

    def card(self, url: str) -> Response:
        return JSONResponse(agent_card_to_dict(card_at(url)))

    async def answer(self, request: Request) -> Response:
        response: Response = await self._rpc.handle_requests(request)
        return response

    async def close(self) -> None:
        await self._handler.aclose()
        await self._sender.close()


def card_at(url: str) -> AgentCard:
    """Return the card of the memory that is asked at an address."""
    fields = {
        "name": "synapse",
        "description": "The shared memory of a team: what its agents found, decided and need.",
        "version": version("synapse-orchestrator"),
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": spoken}
            for spoken in ("1.0", "0.3")
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extensions": [
                {
                    "uri": EXTENSION,
                    "description": "Names the skill of a message, and its arguments.",
                    "params": {"skills": {name: _schema(tool) for name, tool in SKILLS.items()}},
                }
            ],
        },
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"token": {}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [
            {"id": name, "name": name, "description": tool.description, "tags": ["memory"]}
            for name, tool in SKILLS.items()
        ],
    }
    card = AgentCard()
    ParseDict(fields, card)
    return card


def _schema(tool: Tool) -> dict[str, Any]:
    more = _WATCH if tool.name == BRIEFING else {}
    return {**tool.schema, "properties": {**tool.schema["properties"], **more}}


class Asking(User):
    """A caller, as the SDK knows one. Whose tasks are whose goes by the agent."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._caller.agent


class Callers(DefaultServerCallContextBuilder):
    """Says who calls, as the other routes do."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state["request"] = request
        return context

    def build_user(self, request: Request) -> User:
        return Asking(known(request))


class Tasks(InMemoryTaskStore):
    """The tasks of this server, until it ends: those of an agent are found by its tokens alone."""

    def __init__(self, configs: Configs) -> None:
        super().__init__()
        self._ids: dict[str, dict[str, bool]] = {}  # of each agent, and whether they ended
        self._configs = configs

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        ids = self._ids.setdefault(context.user.user_name, {})
        ids[task.id] = task.status.state in _ENDED
        if len(ids) > KEPT:
            oldest = next((id for id, ended in ids.items() if ended), None)
            if oldest is not None:
                del ids[oldest]
                await self.delete(oldest, context)
                await self._configs.forget(oldest, context)


class Skills(AgentExecutor):
    """Does what a message asks, with the rights of the caller."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await event_queue.enqueue_event(
            context.current_task
            or Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            )
        )
        await updater.start_work()
        try:
            await self._do(context, updater)
        except SynapseError as error:
            await _fail(updater, str(error))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _do(self, context: RequestContext, updater: TaskUpdater) -> None:
        assert context.message is not None
        assert context.call_context is not None
        request: Request = context.call_context.state["request"]
        caller = known(request)
        tool, arguments = asked(context.message, context.get_user_input())
        watch = arguments.pop("watch", False) if tool.name == BRIEFING else False
        if tool.writes and caller.read_only:
            raise Forbidden("this token may read alone", agent=caller.agent, action="write")
        subscription = None
        if watch:
            subscription = await to_thread.run_sync(_watching, request)
            self._hub.add(subscription)
        try:
            memory = gate_of(request).agent_memory(caller)
            once = key_of(context.message, tool.name, arguments) if tool.writes else None
            text = await to_thread.run_sync(partial(tools.call, tool, memory, arguments, once))
            if isinstance(text, tools.ToolProblem):
                await _fail(updater, text)
                return
            await updater.add_artifact([Part(text=text)], name=tool.name)
            if subscription is None:
                await updater.complete()
            else:
                await self._follow(subscription, updater)
        finally:
            if subscription is not None:
                self._hub.remove(subscription)

    async def _follow(self, subscription: Subscription, updater: TaskUpdater) -> None:
        """Add an artifact for each critical entry. The task has the last one, the stream all."""
        hub, cursor = self._hub, subscription.cursor
        async for frame in subscription.frames(hub.position, hub.reading, hub.pace):
            cursor = frame.cursor
            fields = json.loads(frame.text)
            if "entry" in fields:
                part = Part(media_type="application/json")
                ParseDict(fields, part.data)
                await updater.add_artifact([part], artifact_id=CRITICAL, name=CRITICAL)
        assert subscription.ended is not None
        await _fail(updater, subscription.ended.reason(cursor))


def asked(message: Message, text: str) -> tuple[Tool, dict[str, Any]]:
    """Return the skill that a message names, with its arguments."""
    fields = MessageToDict(message.metadata).get(EXTENSION, {})
    if not isinstance(fields, dict):
        raise InvalidEntry(f"{EXTENSION} is an object with a skill and its arguments")
    arguments = {name: _whole(value) for name, value in fields.items()}
    name = arguments.pop("skill", SEARCH)
    if name not in TEXT:
        raise InvalidEntry(f"there is no skill {str(name)[:40]!r}; there are {', '.join(TEXT)}")
    if text:
        arguments[TEXT[name]] = text
    return SKILLS[name], arguments


def _whole(value: object) -> object:
    """Return a number that is whole as one: on the wire all are of one kind."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def key_of(message: Message, skill: str, arguments: dict[str, Any]) -> str:
    """Return the key under which a message that comes again writes nothing. What it asks is in it,
    for an id that comes twice must not swallow another message.
    """
    text = json.dumps([message.message_id, skill, arguments], sort_keys=True, default=str)
    return f"a2a/{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _watching(request: Request) -> Subscription:
    """Return a subscription to critical entries from now on. Looks at the log."""
    caller, gate = known(request), gate_of(request)
    return Subscription(
        caller, gate.agent_memory(caller), wanted((), (), True), None, _check(request), "a2a"
    )


def _check(request: Request) -> Callable[[], None]:
    """Return what raises once the caller may not listen any more."""

    def check() -> None:
        if gate_of(request).caller(request) != known(request):
            raise Unauthorized("this token is another one now")

    return check


async def _fail(updater: TaskUpdater, text: str) -> None:
    await updater.failed(updater.new_agent_message([Part(text=text)]))
