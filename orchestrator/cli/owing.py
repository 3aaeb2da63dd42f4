"""`orchestrator debts | questions`: what was paid for and went unread; what waits for the
operator's word.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.cli.grid import grid
from orchestrator.cli.told import (
    Fields,
    Told,
    first_line,
    folder,
    money,
    runs,
    tokens,
    told,
)
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
    found = told(call, unread(call, runs(call, project=call.args.project)))
    tokens, costs = (
        sum(each.tokens for each in found),
        [each.cost for each in found if each.cost is not None],
    )
    data = {"debts": found, "tokens": tokens, "cost": sum(costs) if costs else None}
    call.show(
        lambda: data | {"debts": [each.json() for each in found]}, lambda: _drawn(found)
    )


def _drawn(found: list[Told]) -> str:
    if not found:
        return "no debts: every result was read"
    rows = [
        [
            each.id,
            each.state,
            tokens(each.usage),
            money(each.cost),
            str(each.fields["parent"]),
            first_line(each),
        ]
        for each in found
    ]
    return grid(HEADERS, rows, ("tokens", "cost"))


def questions_options(parser: Options) -> None:
    """None of its own."""


def questions(call: Call) -> None:
    found = call.memory.questions()
    call.show(
        lambda: {"questions": [codec.entry_json(entry) for entry in found]},
        lambda: "\n\n".join(map(_asked, found)) or "no questions",
    )


def _asked(entry: Entry) -> str:
    return (
        f"{block(entry, whole=True, width=columns())}\n    answer: synapse tell"
        f' {entry.author} --re {entry.id} "..."'
    )


def unread(call: Call, everything: list[dict[str, object]]) -> list[Fields]:
    """The runs that ended, after at least one turn, for a parent that ended too, and whose result
    nobody was told: not the parent as its result, and nobody, the operator included, by the entry
    that it left. A coding client hands its sub-agents' results on itself.
    """
    known = {str(run["run"]): run for run in everything}
    over = [
        run
        for run in everything
        if run["state"] == "ended" and run.get("turns") and run.get("parent")
    ]
    over = [run for run in over if not run.get("attached")]
    due = [
        run for run in over if known.get(str(run["parent"]), {}).get("state") == "ended"
    ]
    if not due:
        return []
    read = _read(call, known)
    with call.memory.store.snapshot() as snap:
        return [
            run
            for run in due
            if not {run["run"], run.get("entry")} & read
            and not snap.deliveries(entry=str(run.get("entry")))
        ]


def _read(call: Call, ids: Iterable[str]) -> set[object]:
    """All that these runs were told of: results by their runs, entries in prompts and wakes."""
    read: set[object] = set()
    for id in ids:
        for step in steps.read(folder(call, id).lines(STEPS)):
            read.update(step.fields.get("read", ()), step.fields.get("ids", ()))
    return read
