"""`orchestrator unread | questions`: results that nobody read, and questions to the operator."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.cli.frame.describe import (
    Fields,
    RunRow,
    describe_outcome,
    find_runs,
    run_folder,
    run_rows,
)
from orchestrator.cli.frame.figures import format_money, format_tokens
from orchestrator.cli.frame.grid import grid
from orchestrator.runs import steps
from orchestrator.runs.folder import STEPS
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import block, columns
from synapse.formats import codec
from synapse.model.entry import Entry

HEADERS = ("run", "state", "tokens", "cost", "for", "summary")


def unread_options(parser: Options) -> None:
    parser.add_argument("--project", metavar="P", help="only this project's")


def unread(call: Call) -> None:
    runs = find_runs(call, project=call.args.project)
    rows = run_rows(call, unread_runs(call, runs))
    costs = [row.cost for row in rows if row.cost is not None]
    totals = {
        "tokens": sum(row.tokens for row in rows),
        "cost": sum(costs) if costs else None,
    }
    call.show(
        lambda: {"debts": [row.json() for row in rows], **totals},
        lambda: _format_unread(rows),
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
    return grid(HEADERS, rows, ("tokens", "cost"))


def questions_options(parser: Options) -> None:
    """Add nothing: the verb has no options of its own."""


def questions(call: Call) -> None:
    entries = call.memory.questions()
    call.show(
        lambda: {"questions": [codec.entry_json(entry) for entry in entries]},
        lambda: "\n\n".join(map(_format_question, entries)) or "no questions",
    )


def _format_question(entry: Entry) -> str:
    text = block(entry, whole=True, width=columns())
    return f'{text}\n    answer: synapse tell {entry.author} --re {entry.id} "..."'


def unread_runs(call: Call, records: list[dict[str, object]]) -> list[Fields]:
    """Return the runs whose result cost at least one turn, and that nobody read.

    Such a run has ended, and its parent too. The parent was not given its result; and nobody, the
    operator included, was given the entry that it left. A coding client gives its main
    conversation the results of sub-agents itself, so these are left out.
    """
    by_id = {str(run["run"]): run for run in records}
    candidates = []
    for run in records:
        parent = by_id.get(str(run.get("parent")), {})
        has_ended = run["state"] == "ended" and parent.get("state") == "ended"
        if has_ended and run.get("turns") and not run.get("attached"):
            candidates.append(run)
    if not candidates:
        return []
    delivered = _delivered(call, by_id)
    with call.memory.store.snapshot() as snap:
        return [
            run
            for run in candidates
            if not {run["run"], run.get("entry")} & delivered
            and not snap.deliveries(entry=str(run.get("entry")))
        ]


def _delivered(call: Call, ids: Iterable[str]) -> set[object]:
    """Return what these runs were given: results by their runs, entries in prompts and wakes."""
    delivered: set[object] = set()
    for id in ids:
        for step in steps.read_known(run_folder(call, id).lines(STEPS)):
            delivered.update(step.fields.get("read", ()), step.fields.get("ids", ()))
    return delivered
