"""`orchestrator debts | questions`: what was paid for and went unread; what waits for the
operator's word.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.cli.frame.describe import (
    Fields,
    RunRow,
    describe_outcome,
    find_runs,
    format_money,
    format_tokens,
    run_folder,
    run_rows,
)
from orchestrator.cli.frame.grid import grid
from orchestrator.runs import steps
from orchestrator.runs.folder import STEPS
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import block, columns
from synapse.formats import codec
from synapse.model.entry import Entry

HEADERS = ("run", "state", "tokens", "cost", "for", "summary")


def debts_options(parser: Options) -> None:
    parser.add_argument("--project", metavar="P", help="only this project's")


def debts(call: Call) -> None:
    rows = run_rows(call, unread_runs(call, find_runs(call, project=call.args.project)))
    tokens, costs = (
        sum(row.tokens for row in rows),
        [row.cost for row in rows if row.cost is not None],
    )
    data = {"debts": rows, "tokens": tokens, "cost": sum(costs) if costs else None}
    call.show(
        lambda: data | {"debts": [row.json() for row in rows]},
        lambda: _format_unread(rows),
    )


def _format_unread(runs: list[RunRow]) -> str:
    if not runs:
        return "no debts: every result was read"
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
    """None of its own."""


def questions(call: Call) -> None:
    entries = call.memory.questions()
    call.show(
        lambda: {"questions": [codec.entry_json(entry) for entry in entries]},
        lambda: "\n\n".join(map(_format_question, entries)) or "no questions",
    )


def _format_question(entry: Entry) -> str:
    return (
        f"{block(entry, whole=True, width=columns())}\n    answer: synapse tell"
        f' {entry.author} --re {entry.id} "..."'
    )


def unread_runs(call: Call, records: list[dict[str, object]]) -> list[Fields]:
    """The runs that ended, after at least one turn, for a parent that ended too, and whose result
    nobody was told: not the parent as its result, and nobody, the operator included, by the entry
    that it left. A coding client hands its sub-agents' results on itself.
    """
    by_id = {str(run["run"]): run for run in records}
    ended = [
        run
        for run in records
        if run["state"] == "ended" and run.get("turns") and run.get("parent")
    ]
    ended = [run for run in ended if not run.get("attached")]
    candidates = [
        run
        for run in ended
        if by_id.get(str(run["parent"]), {}).get("state") == "ended"
    ]
    if not candidates:
        return []
    read = _delivered(call, by_id)
    with call.memory.store.snapshot() as snap:
        return [
            run
            for run in candidates
            if not {run["run"], run.get("entry")} & read
            and not snap.deliveries(entry=str(run.get("entry")))
        ]


def _delivered(call: Call, ids: Iterable[str]) -> set[object]:
    """All that these runs were told of: results by their runs, entries in prompts and wakes."""
    read: set[object] = set()
    for id in ids:
        for step in steps.read(run_folder(call, id).lines(STEPS)):
            read.update(step.fields.get("read", ()), step.fields.get("ids", ()))
    return read
