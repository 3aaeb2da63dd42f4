"""The handlers that carry out a session's tool calls: the memory's tools, the user's, and those
that spawn and wait. The supervisor makes them for each session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

from orchestrator.engines.protocol import Call, Tool
from orchestrator.runs import requirements
from orchestrator.runs.records import Run, name
from orchestrator.runs.task import Result, Task
from orchestrator.session import Session
from orchestrator.session_config import Handler, ToolResult
from orchestrator.sharing.calls import Sharing, looks
from orchestrator.spend.limits import LimitReached, for_a_model
from orchestrator.spend.segments import COORDINATORS
from orchestrator.tools import schema
from orchestrator.tools.calls import shared
from orchestrator.tools.functions import SPAWN, WAIT, ToolFailed, UserTool, carry_out
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory

OnDesk = Callable[..., Awaitable[Any]]
Carrying = Callable[[Call, str], Awaitable[ToolResult]]


# Carried out for whoever calls it: an agent that reports a blocker is blocked, whether the tool was
# offered or not.
BLOCKER = next(tool for tool in memory_tools.TOOLS if tool.name == "report_blocker")


class Boss(Protocol):
    """What the tools of a coordinating agent ask of the supervisor."""

    async def start(
        self, task: Task, *, parent: Run | None = None, id: str | None = None
    ) -> Run: ...

    async def gather(
        self, session: Session, wanted: Iterable[str]
    ) -> tuple[list[Result], list[str]]: ...

    async def told(self, reader: Run, results: list[Result]) -> str: ...

    async def stranger(self, giver: Run, agent: str) -> str | None: ...


class Ground(NamedTuple):
    """What the handlers of a session stand on. The session is made after them."""

    boss: Boss
    sharing: Sharing
    seat: AgentMemory
    session: Callable[[], Session]


def of_session(
    ground: Ground,
    run: Run,
    tools: Iterable[UserTool],
    memory: Iterable[memory_tools.Tool],
) -> dict[str, Handler]:
    """Return all that a session's calls are carried out by."""
    desk, seat = ground.sharing.desk, ground.seat
    handlers = _held(of_user(_begun_with(run, tools, seat), ground), ground)
    handlers |= of_memory(memory, seat, desk)
    for tool, handler in of_memory([BLOCKER], seat, desk).items():
        handlers.setdefault(tool, handler._replace(offered=False))
    if run.fields["role"] in COORDINATORS:
        handlers |= _held(of_coordination(ground.boss, ground.session), ground)
    return handlers


def _begun_with(
    run: Run, tools: Iterable[UserTool], seat: AgentMemory
) -> list[UserTool]:
    """Return the user's tools that a run was begun with; all, where that was not recorded. What its
    task says of what they share comes first, then synapse.yaml, then what they say themselves."""
    tools = list(tools)
    takes = {
        tool.tool.name: tuple(tool.tool.schema.get("properties", ())) for tool in tools
    }
    shares = shared(dict(seat.store.settings.other), run.task.tools, takes)
    tools = [
        tool._replace(shares=shares.get(tool.tool.name, tool.shares)) for tool in tools
    ]
    if run.needs is None:
        return tools
    names = {requirements.tool_name(name) for name in run.needs.get("tools", ())}
    return [tool for tool in tools if tool.tool.name in names]


def of_memory(
    tools: Iterable[memory_tools.Tool], seat: AgentMemory, desk: OnDesk
) -> dict[str, Handler]:
    """Return the handlers of the memory's own tools, as this agent has them. Called twice with one
    key, they write once.
    """

    def made(tool: memory_tools.Tool) -> Handler:
        async def call(call: Call, once: str) -> ToolResult:
            text = await desk(memory_tools.call, tool, seat, call.arguments, once)
            failed = isinstance(text, memory_tools.ToolProblem)
            blocker = tool.name == "report_blocker" and not failed
            return ToolResult(
                str(text),
                {"blocker": await desk(_written, seat, once)} if blocker else {},
                failed,
            )

        return Handler(Tool(tool.name, tool.description, tool.schema), call)

    return {tool.name: made(tool) for tool in tools}


def of_user(tools: Iterable[UserTool], ground: Ground) -> dict[str, Handler]:
    """Return the handlers of the user's tools: each call has a key of its own; one in flight at a
    crash is repeated only if that is safe, as it is where the same call gives the same result."""

    def made(tool: UserTool) -> Handler:
        async def call(call: Call, once: str) -> ToolResult:
            session = ground.session()
            if tool.shares is None or not looks(session):
                return ToolResult(await carry_out(tool, call.arguments, key=once))
            return await ground.sharing.call(session, ground.seat, tool, call, once)

        return Handler(tool.tool, call, tool.idempotent or tool.shares is not None)

    return {tool.tool.name: made(tool) for tool in tools}


def _held(handlers: dict[str, Handler], ground: Ground) -> dict[str, Handler]:
    """Return the handlers, before whose calls the entries are given that are for them."""

    def made(handler: Handler) -> Handler:
        async def call(call: Call, once: str) -> ToolResult:
            text, ids = await ground.sharing.held(ground.session(), ground.seat, call)
            if not ids:
                return await handler.call(call, once)
            return ToolResult(text, {"ids": ids, "held": ids}, label="wake")

        return handler._replace(call=call)

    return {name: made(handler) for name, handler in handlers.items()}


def of_coordination(boss: Boss, session: Callable[[], Session]) -> dict[str, Handler]:
    """Return the handlers of spawning and waiting. A spawn is named by its call, so that it happens
    once.
    """

    async def spawn(call: Call, once: str) -> ToolResult:
        run, arguments = session().run, call.arguments
        agent = str(arguments["agent"])
        if problem := await boss.stranger(run, agent):
            raise ToolFailed(problem)
        task = Task(
            str(arguments["task"]), agent, str(arguments.get("project") or run.project)
        )
        parent_task = run.task  # what was said for a tree holds for all of it
        task = task._replace(
            memory_tools=parent_task.memory_tools,
            view_budget=parent_task.view_budget,
            tools=parent_task.tools,
        )
        try:
            child = await boss.start(task, parent=run, id=name(agent, run.id, once))
        except LimitReached as limit:
            raise ToolFailed(for_a_model(limit)) from limit
        return ToolResult(
            f"Started {child.id}. It works on its own; `wait` gives you what came of it."
        )

    async def wait(call: Call, once: str) -> ToolResult:
        run_ids = call.arguments.get("runs") or ()
        results, working = await boss.gather(session(), [str(id) for id in run_ids])
        if results:
            text = await boss.told(session().run, results)
            pending = (
                f"Still at work: {', '.join(working)}. Wait again for what comes of it.\n"
                if working
                else ""
            )
            return ToolResult(
                f"{text}{pending}", {"read": [result.run for result in results]}
            )
        if session().due:
            return ToolResult(
                "Nothing has ended yet, but there is news for you. Wait again after it."
            )
        return ToolResult("There is nothing to wait for.")

    return {
        SPAWN.name: Handler(SPAWN, checked(SPAWN, spawn)),
        WAIT.name: Handler(WAIT, checked(WAIT, wait)),
    }


def checked(tool: Tool, call: Carrying) -> Carrying:
    """Return the call, which now raises ToolFailed for arguments that do not fit the tool's
    schema.
    """

    async def carried(asked: Call, once: str) -> ToolResult:
        if problems := schema.problems(tool.schema, asked.arguments):
            raise ToolFailed("; ".join(problems))
        return await call(asked, once)

    return carried


def _written(seat: AgentMemory, once: str) -> str | None:
    """Return the entry that was written under this key."""
    with seat.store.snapshot() as snap:
        seq = snap.first(seat.id, once)
    return None if seq is None else seat.store.log.at(seq).id
