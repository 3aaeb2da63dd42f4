"""`orchestrator team`: give a brief to a whole team, and wait for its report."""

from __future__ import annotations

import os
from textwrap import fill
from typing import TYPE_CHECKING

from orchestrator.cli.frame.asking import Lines, ended, until_answered
from orchestrator.cli.frame.describe import clean_text, describe_result, describe_tree
from orchestrator.cli.frame.engines import choose_engine, make_engine, model_of, shell_errors
from orchestrator.cli.frame.figures import format_money, format_tokens
from orchestrator.cli.frame.grid import grid
from orchestrator.cli.frame.live import run_and_show
from orchestrator.cli.frame.options import engine_options, read_text, wait_option
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import WIDTH
from synapse.formats.wants import of_script
from synapse.trust import decisions
from synapse.wire.forms import fields

if TYPE_CHECKING:
    from orchestrator.supervisor import Supervisor
    from orchestrator.team import Report

HEADERS = ("run", "state", "own tokens", "own cost", "said")


def team_options(parser: Options) -> None:
    add = parser.add_argument
    add("--project", required=True, metavar="P", help="which project it is")
    add("--brief", metavar="TEXT", help="what is wanted (default, or -: standard input)")
    add("--file", metavar="FILE", help="who takes part (default: team.yaml in the workspace)")
    add("--once", action="store_true", help="do nothing again that was just done")
    wait_option(parser)
    engine_options(parser)


def team(call: Call) -> int:
    from orchestrator.engines.protocol import no_engine
    from orchestrator.supervisor import Supervisor
    from orchestrator.team import Team

    args, brief = call.args, read_text(call.args.brief)
    root = call.memory.store.root or call.root
    members = Team.from_yaml(args.file or os.path.join(root, "team.yaml"))
    if not args.engine and ":" in members.engine:
        raise no_engine(members.engine)  # a class is named by a person, not by a file
    engine = choose_engine(call, args.engine or members.engine, args.script)
    model = model_of(engine, args.model, members.models)
    script = args.script or _trusted_script(call, args.file, members.script)
    kind = make_engine(engine, script if engine == "scripted" else None)
    with shell_errors(), Supervisor(call.memory, engine=kind, model=model) as supervisor:
        work = members.run(supervisor, brief, args.project, args.once)
        report = run_and_show(supervisor, work, quiet=args.quiet or call.json)
        lines = Lines()
        while args.wait and report.waiting:
            report = _answered(call, supervisor, report, lines)
    call.show(lambda: _as_json(report), lambda: _format_report(report))
    for result in report.runs:
        if not result.done and not report.played:
            call.note(describe_result(result))
    return ended(call, report.runs, report.done or report.played)


def _answered(call: Call, supervisor: Supervisor, report: Report, lines: Lines) -> Report:
    """Wait for an answer to a run of a team, and return what the team came to then."""
    from orchestrator.team import go_on

    async def rest() -> Report:
        async with supervisor:
            await supervisor.recover(root.root)
            first = await supervisor.memory_thread(supervisor.run_store.known, root.root)
            return await go_on(supervisor, first) or report

    waiting = next(result for result in report.runs if result.waiting)
    root = supervisor.run_store.known(waiting.run)
    until_answered(call, waiting.run, lines)
    return run_and_show(supervisor, rest(), quiet=call.args.quiet or call.json)


def _trusted_script(call: Call, file: str | None, script: str | None) -> str | None:
    """Return the script of the team's file. One of the workspace's own needs a person's trust; a
    file that lies elsewhere is named by the person who gives the command.
    """
    root = call.memory.store.root
    path = os.path.realpath(file or os.path.join(root or call.root, "team.yaml"))
    if root is not None and path.startswith(os.path.realpath(root) + os.sep):
        inside = os.path.relpath(path, os.path.realpath(root))
        decisions.demand(root, of_script(script, inside))
    return script


def _as_json(report: Report) -> dict[str, object]:
    runs = [fields(result.fields()) for result in report.runs]
    return {
        "status": report.status,
        "text": report.text,
        "why": report.why,
        "plan": report.plan,
        "tree": fields(report.tree),
        "runs": runs,
    }


def _format_report(report: Report) -> str:
    rows = [
        [
            result.run or "-",
            result.status,
            format_tokens(result.usage),
            format_money(result.cost),
            result.why or result.summary,
        ]
        for result in report.runs
    ]
    end = f"The project is {report.status}{f': {clean_text(report.why)}' if report.why else ''}."
    if report.played:
        end = "The project was played: nobody worked on it, and nothing is done."
    table = grid(HEADERS, rows, HEADERS[2:4])
    total = f"In all {describe_tree(report.tree)}."
    earlier = report.runs[0].repeated if report.runs else ""
    text = "\n".join(filter(None, (earlier, clean_text(report.text))))
    return f"{text}\n\n{table}\n\n{total}\n{fill(end, WIDTH)}"
