"""`orchestrator run`: give a task to an agent, and wait for its result; with --dry-run, show its
prompt and its price.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from orchestrator.cli.frame.describe import clean_text, describe_result
from orchestrator.cli.frame.engines import (
    choose_engine,
    model_of,
    open_supervisor,
    shell_errors,
    takes_tools,
    with_servers,
)
from orchestrator.cli.frame.figures import format_money
from orchestrator.cli.frame.options import engine_options, read_text, tool_options, wait_option
from orchestrator.reports.rows import ENDED_WELL
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import decimal, seconds
from synapse.cli.frame.parse import number as whole

if TYPE_CHECKING:
    from orchestrator.preview import Preview
    from orchestrator.runs.task import Result, Task

TOOLS = ("auto", "always", "never")


def run_options(parser: Options) -> None:
    add = parser.add_argument
    add("task", nargs="?", metavar="TASK", help="what to do (default, or -: standard input)")
    add("--agent", required=True, metavar="A", help="who is to do it")
    add("--project", default="general", metavar="P", help="for which project (default: general)")
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
        help="tokens after which it ends, with all runs below it",
    )
    add(
        "--max-usd",
        type=decimal,
        metavar="N",
        help="dollars after which it ends, with all runs below it",
    )
    add("--max-turns", type=whole, metavar="N", help="turns after which it ends")
    add(
        "--max-reply",
        type=whole,
        metavar="N",
        help="tokens of one reply at most; each call reserves them (default: 8192)",
    )
    add("--timeout", type=seconds, metavar="S", help="seconds after which it ends, or 5m, 2h")
    add("--memory-tools", choices=TOOLS, metavar="WHEN", help=f"{', '.join(TOOLS)} (default: auto)")
    add("--intent", metavar="I", help="name of the intent: the same intent is the same work")
    add("--once", action="store_true", help="not again where it is being done, or was just done")
    wait_option(parser)
    tool_options(parser)
    add("--dry-run", action="store_true", help="show the prompt and its price; call nothing")


def budget(text: str) -> int | str:
    return text if text == "auto" else whole(text)


def run(call: Call) -> int:
    args = call.args
    task = _task(call)
    if args.dry_run:
        return _dry_run(call, task)
    from orchestrator.cli.frame.asking import ended, go_on, to_the_end
    from orchestrator.cli.frame.live import run_and_show

    with shell_errors(), open_supervisor(call) as supervisor:

        def again(run: str) -> Coroutine[Any, Any, Result]:
            return with_servers(supervisor, args.mcp, lambda: go_on(supervisor, run))

        work = with_servers(supervisor, args.mcp, lambda: supervisor.spawn(task))
        result = run_and_show(supervisor, work, quiet=args.quiet or call.json)
        if args.wait:
            result = to_the_end(call, supervisor, result, again)
    call.show(
        result.fields, lambda: "\n".join(filter(None, (result.repeated, clean_text(result.text))))
    )
    if not args.quiet or not (result.done or result.played):
        call.note(describe_result(result))
    return ended(call, [result], result.status in ENDED_WELL)


def _task(call: Call) -> Task:
    from orchestrator.runs.task import Task

    args = call.args
    text = read_text(args.task)
    names = "view_budget max_tokens max_usd max_turns max_reply timeout".split()
    names += "memory_tools intent once".split()
    options: dict[str, Any] = {name: getattr(args, name) for name in names}
    return Task(text, args.agent, args.project, **options)


# -- before the spend ------------------------------------------------------------------------------


def _dry_run(call: Call, task: Task) -> int:
    from orchestrator.engines.protocol import declared
    from orchestrator.preview import preview

    engine = choose_engine(call, call.args.engine, call.args.script)
    agent = call.memory.store.agents.all().get(task.agent)
    if agent and agent.engine and not call.args.engine:
        engine = agent.engine
    has_model = agent is not None and bool(agent.model)
    task = task._replace(model=None if has_model else call.args.model)
    engines = dict(call.memory.store.settings.other).get("engines")
    kind, options = declared(engines, engine) if engine else (None, {})
    model = model_of(engine, call.args.model) or options.get("model")
    has_tools = kind is None or takes_tools(kind, by_person=kind == call.args.engine)
    estimate = preview(call.memory, task, engine, has_tools, model)
    call.show(
        lambda: _as_json(estimate),
        lambda: clean_text(f"{estimate.prompt.text}\n{_estimate(estimate)}"),
    )
    return 0


def _as_json(estimate: Preview) -> dict[str, Any]:
    return {
        "prompt": estimate.prompt.text,
        "receipt": estimate.receipt,
        "engine": estimate.engine,
        "model": estimate.model,
        "cost": {"first_turn_at_most": estimate.turn, "run": estimate.run, "turns": estimate.turns},
    }


def _estimate(estimate: Preview) -> str:
    from orchestrator.prompts.receipt import explain

    if estimate.engine is None:
        price = "not known, for no engine is named and no key is set"
    elif estimate.turn is None:
        price = (
            f"the price of {estimate.model} is not known"
            if estimate.model
            else "not known, for no model is named"
        )
    else:
        turns = "1 turn"
        if round(estimate.turns) != 1:
            turns = f"{estimate.turns:.0f} turns"
        price = (
            f"the first turn at most {format_money(estimate.turn)};"
            f" {format_money(estimate.run)} for a run of about {turns}"
        )
    explanation = explain(estimate.receipt).rstrip("\n")
    line = "-" * 78
    note = "Nothing was called and nothing was written."
    return f"{line}\n{note}\n\n{explanation}\n\nPrice: {price}"
