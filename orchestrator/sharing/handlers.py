"""The handlers that carry out a session's tool calls: the memory's tools, the user's, and those
that spawn and wait. The supervisor makes them for each session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Call, Tool
from orchestrator.runs import requirements
from orchestrator.runs.records import Run, name
from orchestrator.runs.repeats import earlier
from orchestrator.runs.task import Result, Task
from orchestrator.sessions.config import Handler, ToolResult
from orchestrator.sessions.session import Session
from orchestrator.sharing.calls import Sharing, looks
from orchestrator.sharing.changed_files import ChangedFiles
from orchestrator.spend.limits import LimitReached, for_a_model
from orchestrator.spend.segments import COORDINATORS
from orchestrator.tools import schema
from orchestrator.tools.calls import shared
from orchestrator.tools.functions import SPAWN, WAIT, ToolFailed, UserTool, carry_out
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError

OnMemory = Callable[..., Awaitable[Any]]

# Carried out for whoever calls it: an agent that reports a blocker is blocked, whether the tool was
# offered or not.
BLOCKER = next(tool for tool in memory_tools.TOOLS if tool.name == "report_blocker")


Gathered = tuple[list[Result], list[str]]  # results, and the runs still at work


class ToolContext(NamedTuple):
    """What the handlers of a session use.

    `start` begins a child run, `gather` waits for children. They are the supervisor's, which lives
    above this module.
    """

    session: Session
    agent_memory: AgentMemory
    sharing: Sharing
    files: ChangedFiles
    start: Callable[..., Awaitable[Run]]
    gather: Callable[[Session, list[str]], Awaitable[Gathered]]


def handlers_of(
    context: ToolContext, tools: Iterable[UserTool], memory: Iterable[memory_tools.Tool]
) -> dict[str, Handler]:
    """Return the handlers of all tools that a session may call, by the tools' names."""
    on_memory, agent_memory = context.sharing.memory_thread, context.agent_memory
    run = context.session.run
    handlers = {}
    for user_tool in _tools_of_run(run, tools, agent_memory):
        handler = _with_files(user_handler(user_tool, context), context)
        handlers[user_tool.tool.name] = _with_entries(handler, context)
    for tool in memory:
        handlers[tool.name] = memory_handler(tool, agent_memory, on_memory)
    if BLOCKER.name not in handlers:
        hidden = memory_handler(BLOCKER, agent_memory, on_memory)._replace(offered=False)
        handlers[BLOCKER.name] = hidden
    if run.fields["role"] in COORDINATORS:
        for handler in (spawn_handler(context), wait_handler(context)):
            handlers[handler.tool.name] = _with_entries(handler, context)
    return handlers


def _tools_of_run(run: Run, tools: Iterable[UserTool], agent_memory: AgentMemory) -> list[UserTool]:
    """Return the user's tools that a run was begun with; all, where that was not recorded. What its
    task says of what they share comes first, then synapse.yaml, then what they say themselves; what
    writes shares nothing, whatever is said."""
    tools = list(tools)
    parameters = {}
    for tool in tools:
        properties = tool.tool.schema.get("properties", ())
        parameters[tool.tool.name] = tuple(properties)
    settings = dict(agent_memory.store.settings.other)
    shares = shared(settings, run.task.tools, parameters)
    offered = []
    for tool in tools:
        own = None if tool.writes else shares.get(tool.tool.name, tool.shares)
        offered.append(tool._replace(shares=own))
    if run.needs is None:
        return offered
    recorded = run.needs.get("tools", ())
    names = {requirements.tool_name(signature) for signature in recorded}
    return [tool for tool in offered if tool.tool.name in names]


def memory_handler(
    tool: memory_tools.Tool, agent_memory: AgentMemory, on_memory: OnMemory
) -> Handler:
    """Return the handler of one of the memory's own tools, as this agent has it. Called twice with
    one key, it writes once.
    """

    async def call(call: Call, once: str) -> ToolResult:
        text = await on_memory(memory_tools.call, tool, agent_memory, call.arguments, once)
        failed = isinstance(text, memory_tools.ToolProblem)
        fields = {}
        if tool.name == "report_blocker" and not failed:
            fields = {"blocker": await on_memory(_entry_written, agent_memory, once)}
        return ToolResult(str(text), fields, failed)

    return Handler(Tool(tool.name, tool.description, tool.schema), call)


def user_handler(tool: UserTool, context: ToolContext) -> Handler:
    """Return the handler of a user's tool: each call has a key of its own; one in flight at a crash
    is repeated only if that is safe, as it is where the same call gives the same result.
    """

    async def call(call: Call, once: str) -> ToolResult:
        session = context.session
        if tool.shares is None or not looks(session):
            return ToolResult(await carry_out(tool, call.arguments, key=once))
        return await context.sharing.call(session, context.agent_memory, tool, call, once)

    return Handler(tool.tool, call, tool.idempotent or tool.shares is not None)


def _with_files(handler: Handler, context: ToolContext) -> Handler:
    """Return the handler, which now holds a call on a file that others changed meanwhile, and notes
    what a call shows and changes of files.
    """
    if not looks(context.session):
        return handler

    async def call(call: Call, once: str) -> ToolResult:
        files, session, on_memory = context.files, context.session, context.sharing.memory_thread
        text, fields = await on_memory(files.before, session, call)
        if text:
            return ToolResult(text, fields, label="wake")
        try:
            result = await handler.call(call, once)
        except SynapseError:
            await on_memory(files.after, session, call, True)
            raise
        return result._replace(
            about={**result.about, **await on_memory(files.after, session, call)}
        )

    return handler._replace(call=call)


def _with_entries(handler: Handler, context: ToolContext) -> Handler:
    """Return the handler, which now gives the entries that are for a call before the call."""

    async def call(call: Call, once: str) -> ToolResult:
        sharing, session = context.sharing, context.session
        text, ids = await sharing.entries_for(session, context.agent_memory, call)
        if not ids:
            return await handler.call(call, once)
        return ToolResult(text, {"ids": ids, "held": ids}, label="wake")

    return handler._replace(call=call)


def spawn_handler(context: ToolContext) -> Handler:
    """Return the handler that spawns. A spawn is named by its call, so that it happens once."""

    async def spawn(call: Call, once: str) -> ToolResult:
        _check_arguments(SPAWN, call)
        run, arguments = context.session.run, call.arguments
        agent = str(arguments["agent"])
        sharing = context.sharing
        project = str(arguments.get("project") or run.project)
        problem = await sharing.memory_thread(sharing.run_store.refused, run, agent, project)
        if problem:
            raise ToolFailed(problem)
        # What the task at the root of a tree sets holds for all of it.
        task = Task(
            str(arguments["task"]),
            agent,
            project,
            memory_tools=run.task.memory_tools,
            view_budget=run.task.view_budget,
            max_reply=run.task.max_reply,
            tools=run.task.tools,
            once=True,
        )
        try:
            id = name(agent, run.id, once)
            child = await context.start(task, parent=run, id=id)
        except LimitReached as limit:
            raise ToolFailed(for_a_model(limit)) from limit
        if not child.running:
            return await sharing.memory_thread(_earlier_result, sharing, run, child)
        return ToolResult(
            f"Started {child.id}. It works on its own; `wait` gives you what came of it."
        )

    return Handler(SPAWN, spawn)


def wait_handler(context: ToolContext) -> Handler:
    """Return the handler that waits for child runs and gives their results."""

    async def wait(call: Call, once: str) -> ToolResult:
        _check_arguments(WAIT, call)
        session, sharing = context.session, context.sharing
        run_ids = [str(id) for id in call.arguments.get("runs") or ()]
        results, working = await context.gather(session, run_ids)
        if results:
            text = await sharing.memory_thread(
                sharing.run_store.results_text, session.run, results, "results"
            )
            if working:
                names = ", ".join(working)
                text += f"Still at work: {names}. Wait again for what comes of it.\n"
            return ToolResult(text, {"read": [result.run for result in results]})
        if session.due:
            return ToolResult(
                "Nothing has ended yet, but there is news for you. Wait again after it."
            )
        return ToolResult("There is nothing to wait for.")

    return Handler(WAIT, wait)


def _earlier_result(sharing: Sharing, run: Run, child: Run) -> ToolResult:
    """Return the result of a run that did this work a moment ago, as this run is told it."""
    store = sharing.run_store
    how_old = earlier(child, store.store.clock()).partition(";")[0]
    text = store.results_text(run, [store.result(child)], "results")
    return ToolResult(f"Nothing was started. This is {how_old}.\n{text}", {"read": [child.id]})


def _check_arguments(tool: Tool, call: Call) -> None:
    """Raise ToolFailed for arguments that do not fit the tool's schema."""
    if problems := schema.problems(tool.schema, call.arguments):
        raise ToolFailed("; ".join(problems))


def _entry_written(agent_memory: AgentMemory, once: str) -> str | None:
    """Return the entry that was written under this key."""
    with agent_memory.store.snapshot() as snap:
        seq = snap.first(agent_memory.id, once)
    return None if seq is None else agent_memory.store.log.at(seq).id
