"""`orchestrator team`: give a brief to a whole team, and wait for its report."""

from __future__ import annotations

import os
from textwrap import fill
from typing import TYPE_CHECKING

from orchestrator.cli.frame.describe import clean_text, describe_result
from orchestrator.cli.frame.engines import choose_engine, make_engine, model_of
from orchestrator.cli.frame.figures import format_money, format_tokens
from orchestrator.cli.frame.grid import grid
from orchestrator.cli.frame.options import engine_options, read_text
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import WIDTH, fields

if TYPE_CHECKING:
    from orchestrator.runs.task import Result
    from orchestrator.team import Report

HEADERS = ("run", "state", "tokens", "cost", "said")


def team_options(parser: Options) -> None:
    add = parser.add_argument
    add("--project", required=True, metavar="P", help="which project it is")
    add(
        "--brief", metavar="TEXT", help="what is wanted (default, or -: standard input)"
    )
    add(
        "--file",
        metavar="FILE",
        help="who takes part (default: team.yaml in the workspace)",
    )
    add("--force", action="store_true", help="do again what was just done")
    engine_options(parser)


def team(call: Call) -> int:
    from orchestrator.cli.frame.live import run_and_show
    from orchestrator.supervisor import Supervisor
    from orchestrator.team import Team

    args, brief = call.args, read_text(call.args.brief)
    root = call.memory.store.root or call.root
    members = Team.from_yaml(args.file or os.path.join(root, "team.yaml"))
    engine = choose_engine(args.engine or members.engine)
    model = model_of(engine, args.model, members.models)
    kind = make_engine(engine, args.script or members.script)
    with Supervisor(call.memory, engine=kind, model=model) as supervisor:
        work = members.run(supervisor, brief, args.project, args.force)
        ending = run_and_show(supervisor, work, quiet=args.quiet or call.json)
    report: Report = ending.value
    call.show(lambda: _as_json(report), lambda: _format_report(report))
    for result in report.runs:
        if not result.done:
            call.note(describe_result(result))
    return ending.code(report.done)


def _as_json(report: Report) -> dict[str, object]:
    runs = [fields(result.fields()) for result in report.runs]
    return {
        "status": report.status,
        "text": report.text,
        "why": report.why,
        "plan": report.plan,
        "runs": runs,
    }


def _format_report(report: Report) -> str:
    rows = [_row(result) for result in report.runs]
    end = f"The project is {report.status}{f': {clean_text(report.why)}' if report.why else ''}."
    table = grid(HEADERS, rows, ("tokens", "cost"))
    return f"{clean_text(report.text)}\n\n{table}\n\n{fill(end, WIDTH)}"


def _row(result: Result) -> list[str]:
    took = [format_tokens(result.usage), format_money(result.cost)]
    return [result.run or "-", result.status, *took, result.why or result.summary]
