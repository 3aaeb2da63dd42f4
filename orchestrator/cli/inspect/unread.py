"""`orchestrator unread`: results that nobody read."""

from __future__ import annotations

from orchestrator.cli.frame.describe import describe_outcome, source_of
from orchestrator.cli.frame.figures import format_money, format_tokens
from orchestrator.cli.frame.grid import grid
from orchestrator.reports.rows import RunRow, run_rows
from orchestrator.reports.unread import SINCE, unread_runs
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.model.dates import since as parse_since

HEADERS = ("run", "state", "own tokens", "own cost", "for", "summary")


def unread_options(parser: Options) -> None:
    add = parser.add_argument
    add("--project", metavar="P", help="only this project's")
    add(
        "--since",
        default=SINCE,
        metavar="WHEN",
        help=f"of runs that ended since then: 24h, yesterday (default: {SINCE})",
    )


def unread(call: Call) -> None:
    source = source_of(call)
    since = parse_since(call.args.since, source.now()) or 0
    rows = run_rows(source, unread_runs(source, since, call.args.project))
    costs = [row.cost for row in rows if row.cost is not None]
    totals = {"tokens": sum(row.tokens for row in rows), "cost": sum(costs) if costs else None}
    call.show(
        lambda: {"debts": [row.json() for row in rows], **totals}, lambda: _format_unread(rows)
    )


def _format_unread(runs: list[RunRow]) -> str:
    if not runs:
        return "no unread results"
    rows = [
        [
            row.id,
            row.state,
            format_tokens(row.usage),
            format_money(row.cost),
            str(row.fields["parent"]),
            describe_outcome(row),
        ]
        for row in runs
    ]
    return grid(HEADERS, rows, HEADERS[2:4])
