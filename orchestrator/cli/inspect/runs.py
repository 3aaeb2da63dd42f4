"""`orchestrator ps | tree`: list the runs, and show who spawned whom."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from orchestrator.cli.frame.describe import describe_outcome, source_of, waiting_lines
from orchestrator.cli.frame.figures import (
    format_count,
    format_duration,
    format_money,
    format_tokens,
    mark_estimate,
)
from orchestrator.cli.frame.grid import grid
from orchestrator.cli.frame.items import format_items
from orchestrator.reports.rows import ENDED_WELL, RunRow, find_runs, run_rows
from orchestrator.reports.trees import Node, trees
from orchestrator.runs.files.trim import trimmed_on
from orchestrator.waiting.inbox import inbox
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import WIDTH, columns, first, one_line, short
from synapse.model.entry import SECOND
from synapse.system.json import dumps

HEADERS = ("run", "state", "turns", "own tokens", "own cost", "time", "task")
NUMBERS = HEADERS[2:6]
RECENT = 24 * 3_600 * SECOND  # so long `ps` names what ended otherwise than done
NEWEST = 10
MOST = 5  # of what waits for a person; `inbox` lists all
WAITS = "\n\nwaits for you:\n"
UNDONE = "\n\nended in the last 24 hours, and not done:\n"


def ps_options(parser: Options) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="list ended runs too")
    add("--watch", action="store_true", help="show what each does and last said, until Ctrl-C")
    add("--agent", metavar="AGENT", help="only this agent's")
    add("--project", metavar="P", help="only this project's")
    add(
        "--limit",
        type=whole,
        default=50,
        metavar="N",
        help="how many of the newest; 0: all (default: 50)",
    )


def ps(call: Call) -> None:
    args, source = call.args, source_of(call)
    if args.watch:
        from orchestrator.cli.inspect.watch import watch

        watch(call)
        return
    state = None if args.all else "running"
    records = find_runs(
        source, state=state, agent=args.agent, project=args.project, limit=args.limit or None
    )
    rows = run_rows(source, records)
    if args.all:
        days = {row.id: trimmed_on(source.folder(row.id)) for row in rows}
        call.show(
            lambda: {"runs": [row.json() | {"trimmed": days[row.id] or None} for row in rows]},
            lambda: format_runs(rows, everything=True) + _format_trimmed(days),
        )
        return
    undone, waiting, now = run_rows(source, _undone(call)), inbox(source), source.now()
    call.show(
        lambda: {
            "runs": [row.json() for row in rows],
            "not_done": [row.json() for row in undone],
            "waiting": [item.json(now) for item in waiting],
        },
        lambda: (
            format_runs(rows, everything=False)
            + (f"{UNDONE}{_format_reasons(undone)}" if undone else "")
            + (f"{WAITS}{format_items(waiting, now, MOST)}" if waiting else "")
        ),
    )


def _undone(call: Call) -> list[dict[str, Any]]:
    """Return the newest runs that ended in the last day, and otherwise than done."""
    since = call.memory.store.clock() - RECENT
    source = source_of(call)
    args = call.args
    return find_runs(
        source,
        state="ended",
        ended_since=since,
        agent=args.agent,
        project=args.project,
        no_statuses=dumps(ENDED_WELL),
        limit=NEWEST,
    )


def format_runs(rows: list[RunRow], *, everything: bool) -> str:
    """Return the table of these runs; with the reason why, where one ended otherwise than done."""
    if not rows:
        return "no runs" if everything else "nothing runs; `orchestrator ps --all` lists what ran"
    table = grid(HEADERS, list(map(_row, rows)), NUMBERS)
    undone = [row for row in rows if _why(row)]
    return "\n".join(
        [table, *waiting_lines(rows), *(["", _format_reasons(undone)] if undone else [])]
    )


def _format_trimmed(days: dict[str, str]) -> str:
    """Return which of these runs have lost their steps and prompts, and when."""
    trimmed = [f"{id} on {day}" for id, day in days.items() if day]
    return "\n\ntrimmed, without steps and prompt: " + ", ".join(trimmed) if trimmed else ""


def _row(row: RunRow) -> list[str]:
    figures = [
        str(row.turns),
        format_tokens(row.usage),
        format_money(row.cost),
        format_duration(row.took),
    ]
    return [row.id, row.state, *figures, first(str(row.fields.get("task", "")))]


def _why(row: RunRow) -> str:
    return (
        ""
        if row.state in ("running", "closed", "orphaned", *ENDED_WELL)
        else str(row.fields.get("why", ""))
    )


def _format_reasons(rows: list[RunRow]) -> str:
    """Return each run with its state, and the whole of why it is not done below it."""
    lines = []
    for row in rows:
        lines.append(f"{row.id}  {row.state}")
        lines += wrap(
            one_line(_why(row).replace("\n", " ")),
            WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def tree_options(parser: Options) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="from this run on (default: all trees)")
    add(
        "--limit",
        type=whole,
        default=10,
        metavar="N",
        help="how many of the newest trees; 0: all (default: 10)",
    )


def tree(call: Call) -> None:
    tops = trees(source_of(call), call.args.run, call.args.limit)
    width = columns() or 0

    def text() -> str:
        lines = [line for top in tops for line in format_tree(top, width)]
        waiting = waiting_lines(node.row for top in tops for _, node in top.walk())
        return "\n".join([*lines, *waiting]) or "no runs"

    call.show(lambda: {"trees": [top.json() for top in tops]}, text)


def format_tree(node: Node, width: int, lead: str = "", turn: str = "") -> Iterator[str]:
    """Yield the lines of a tree: each run with its state, what it and all below it took, and its
    result or its task.
    """
    row = node.row
    figures = f"{_spent(node.tokens, node.estimated, node.cost)}, {format_duration(node.took)}"
    if node.children:
        own = _spent(row.tokens, row.usage.estimated, row.cost)
        figures = f"in all {node.runs} runs, {figures}; its own {own}"
    yield short(f"{lead}{turn}{row.id}  {row.state}  {figures}  {describe_outcome(row)}", width)
    inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[turn]
    for child in node.children:
        is_last = child is node.children[-1]
        yield from format_tree(child, width, inner, "└─ " if is_last else "├─ ")


def _spent(tokens: int, estimated: bool, cost: float | None) -> str:
    count = mark_estimate(format_count(tokens), estimated)
    return f"{count} tokens, {format_money(cost)}"
