"""`orchestrator run | resume`: a task for an agent, from its prompt to its result; what dead
processes left.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.cli.engines import chosen, function, made, model_of, takes_tools
from orchestrator.cli.told import money, share, tokens
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.parse import seconds
from synapse.cli.frame.show import clean

if TYPE_CHECKING:
    from orchestrator.preview import Preview
    from orchestrator.runs.task import Result, Task
    from orchestrator.supervisor import Supervisor

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]
TOOLS = ("auto", "always", "never")
LEFT = (
    "start their own program again, or give what they wait for: --tool, --mcp, --engine, --script, "
    "or the key in the environment; `orchestrator stop RUN` ends one"
)


def run_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "task", nargs="?", metavar="TASK", help="what to do; none, or -: standard input"
    )
    add("--agent", required=True, metavar="A", help="who is to do it")
    add(
        "--project",
        default="general",
        metavar="P",
        help="for which project; else general",
    )
    engine_options(parser)
    add(
        "--view-budget",
        type=budget,
        default="auto",
        metavar="N",
        help="tokens for memory in the prompt, or auto",
    )
    add(
        "--max-tokens",
        type=whole,
        metavar="N",
        help="end when it, with all below it, has taken so many",
    )
    add(
        "--max-usd",
        type=float,
        metavar="N",
        help="end when it, with all below it, has cost so much",
    )
    add("--max-turns", type=whole, metavar="N", help="end after so many turns")
    add(
        "--timeout",
        type=seconds,
        metavar="S",
        help="end after so many seconds, or 5m, 2h",
    )
    add(
        "--memory-tools",
        choices=TOOLS,
        metavar="WHEN",
        help=f"{', '.join(TOOLS)}; else auto",
    )
    add(
        "--intent",
        metavar="I",
        help="the same intent is the same work, whatever the text",
    )
    add(
        "--force",
        action="store_true",
        help="do it even if it is being done, or was just done",
    )
    tool_options(parser)
    add(
        "--dry-run",
        action="store_true",
        help="show the prompt and its price; call nothing",
    )


def tool_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--tool",
        action="append",
        metavar="MODULE:FUNCTION",
        help="a function as a tool",
    )
    add(
        "--mcp",
        action="append",
        metavar="CMD",
        help="the tools of an MCP server: its command, or its address",
    )


def engine_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--engine",
        metavar="E",
        help="where the agent's file names none; else by the key there is",
    )
    add("--model", metavar="M", help="where the agent's file names none")
    add("--script", metavar="MODULE:FUNCTION", help="what `--engine scripted` says")
    add("--quiet", action="store_true", help="no progress")


def budget(text: str) -> int | str:
    return text if text == "auto" else whole(text)


def run(call: Call) -> int:
    args = call.args
    task, engine = _task(call), chosen(args.engine)
    if args.dry_run:
        return _dry_run(call, task, engine)
    from orchestrator.cli.living import live

    if engine == "scripted" and args.engine is None and not args.script:
        call.note(
            "no key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY): a scripted agent only"
            " repeats its task"
        )
    with supervisor(call, engine) as boss:
        work = _served(boss, args.mcp, lambda: boss.spawn(task))
        lived = live(boss, work, quiet=args.quiet or call.json)
    result: Result = lived.value
    call.show(result.fields, lambda: clean_text(result.text))
    if not args.quiet or not result.done:
        call.note(ended(result))
    return lived.code(result.done)


def supervisor(call: Call, engine: str) -> Supervisor:
    """A supervisor of this workspace, with what the options say."""
    from orchestrator.supervisor import Supervisor

    args = call.args
    model = model_of(engine, args.model)
    tools = [function(name) for name in getattr(args, "tool", None) or ()]
    return Supervisor(
        call.memory, engine=made(engine, args.script), model=model, tools=tools
    )


async def _served(boss: Supervisor, servers: list[str] | None, work: Work[T]) -> T:
    """Return what comes of the work, done while the servers of its tools run."""
    if not servers:
        return await work()
    import shlex

    from orchestrator.tools.mcp import mcp_tools

    async with AsyncExitStack() as stack:
        for server in servers:
            taken = [tool.tool.name for tool in boss.user_tools]
            named = server if "://" in server else shlex.split(server)
            boss.user_tools += await stack.enter_async_context(
                mcp_tools(named, taken=taken)
            )
        return await work()


def _task(call: Call) -> Task:
    from orchestrator.runs.task import Task

    args = call.args
    text = said(args.task)
    names = "view_budget max_tokens max_usd max_turns timeout memory_tools intent force".split()
    more: dict[str, Any] = {name: getattr(args, name) for name in names}
    return Task(text, args.agent, args.project, **more)


def said(text: str | None) -> str:
    """The argument, or standard input."""
    found = sys.stdin.read() if text in (None, "-") else str(text)
    if not found.strip():
        raise Usage(
            "there is nothing to do: give a task, or write it to standard input"
        )
    return found.strip("\n")


def clean_text(text: str) -> str:
    return "\n".join(map(clean, text.split("\n"))) if sys.stdout.isatty() else text


def ended(result: Result) -> str:
    """How it ended and what it took, in a line or two."""
    again = ", as it did before (--force repeats it)" if result.repeated else ""
    lines = [
        f"{result.run or 'not begun'}: {result.status}{again}; {tokens(result.usage)}"
        f" tokens, {money(result.cost)}, overhead {share(result.overhead)}"
    ]
    lines += [result.why] if result.why else []
    return clean("\n".join(lines).replace("\n", "; "))


# -- before the spend ------------------------------------------------------------------------------


def _dry_run(call: Call, task: Task, engine: str) -> int:
    from orchestrator.engines.protocol import declared
    from orchestrator.preview import preview

    agent = call.memory.store.agents().get(task.agent)
    engine = (
        engine if call.args.engine or not agent or not agent.engine else agent.engine
    )
    task = task._replace(
        model=call.args.model if not agent or not agent.model else None
    )
    kind, options = declared(
        dict(call.memory.store.settings.other).get("engines"), engine
    )
    model = model_of(engine, call.args.model) or options.get("model")
    found = preview(call.memory, task, engine, takes_tools(kind), model)
    call.show(
        lambda: _as_json(found),
        lambda: clean_text(f"{found.prompt.text}\n{_estimate(found)}"),
    )
    return 0


def _as_json(found: Preview) -> dict[str, Any]:
    return {
        "prompt": found.prompt.text,
        "receipt": found.receipt,
        "engine": found.engine,
        "model": found.model,
        "cost": {
            "first_turn_at_most": found.turn,
            "run": found.run,
            "turns": found.turns,
        },
    }


def _estimate(found: Preview) -> str:
    from orchestrator.prompts.receipt import explain

    if found.turn is None:
        price = (
            f"the price of {found.model} is not known"
            if found.model
            else "not known, for no model is named"
        )
    else:
        price = (
            f"the first turn at most {money(found.turn)}; {money(found.run)} for a run"
            f" of about {_turns(found.turns)}"
        )
    told = explain(found.receipt).rstrip("\n")
    return f"{'-' * 78}\nNothing was called and nothing was written.\n\n{told}\n\nPrice: {price}"


def _turns(turns: float) -> str:
    return "1 turn" if round(turns) == 1 else f"{turns:.0f} turns"


# -- what dead processes left ----------------------------------------------------------


def resume_options(parser: Options) -> None:
    tool_options(parser)
    engine_options(parser)


def resume(call: Call) -> int:
    from orchestrator.cli.living import live

    args = call.args
    with supervisor(call, chosen(args.engine)) as boss:
        work = _served(boss, args.mcp, lambda: _resumed(boss))
        lived = live(boss, work, quiet=args.quiet or call.json)
    results, left = lived.value
    lines = [ended(result) for result in results]
    lines += [clean(f"{run}: {why}") for run, why in left.items()]
    call.show(
        lambda: {"resumed": [result.fields() for result in results], "left": left},
        lambda: (
            "\n".join(lines) or "nothing to go on with: no run has lost its supervisor"
        ),
    )
    if left:
        call.note(LEFT)
    return lived.code(not left and all(result.done for result in results))


async def _resumed(boss: Supervisor) -> tuple[list[Result], dict[str, str]]:
    """Return what came of the runs that were gone on with, and what the others wait for."""
    taken, left = await boss.recover()
    return [await boss.result(run) for run in taken], left
