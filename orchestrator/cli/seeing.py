"""`orchestrator ps | tree`: which runs there are, and who spawned whom."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from orchestrator.cli.grid import grid
from orchestrator.cli.told import (
    Fields,
    Told,
    below,
    first_line,
    lasted,
    money,
    one,
    runs,
    tokens,
    told,
    waiting_lines,
)
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import WIDTH, clean, columns, first, short
from synapse.model.entry import SECOND

HEADERS = ("run", "state", "turns", "tokens", "cost", "time", "task")
RECENT = 24 * 3_600 * SECOND  # so long `ps` names what ended otherwise than done
NEWEST = 10


def ps_options(parser: Options) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="those that have ended too")
    add("--agent", metavar="AGENT", help="only this agent's")
    add("--project", metavar="P", help="only this project's")
    add(
        "--limit",
        type=whole,
        default=50,
        metavar="N",
        help="the newest so many; 0: all; else 50",
    )


def ps(call: Call) -> None:
    args = call.args
    state = None if args.all else "running"
    found = runs(
        call,
        state=state,
        agent=args.agent,
        project=args.project,
        limit=args.limit or None,
    )
    shown = told(call, found)
    if args.all:
        call.show(
            lambda: {"runs": [each.json() for each in shown]},
            lambda: listing(shown, everything=True),
        )
        return
    undone = told(call, _undone(call))
    call.show(
        lambda: {
            "runs": [each.json() for each in shown],
            "not_done": [each.json() for each in undone],
        },
        lambda: listing(shown, everything=False) + _not_done(undone),
    )


def _undone(call: Call) -> list[dict[str, Any]]:
    """Return the newest runs that ended in the last day, and otherwise than done."""
    since = call.memory.store.clock() - RECENT
    ended = runs(call, state="ended", agent=call.args.agent, project=call.args.project)
    recent = [run for run in ended if run.get("ended_at", 0) >= since]
    return [run for run in recent if run.get("status") != "done"][:NEWEST]


def _not_done(undone: list[Told]) -> str:
    if not undone:
        return ""
    return f"\n\nended in the last 24 hours, and not done:\n{_reasons(undone)}"


def listing(shown: list[Told], *, everything: bool) -> str:
    """Return the table of these runs; with the reason why, where one ended otherwise than done."""
    if not shown:
        return (
            "no runs"
            if everything
            else "nothing runs; `orchestrator ps --all` lists what ran"
        )
    table = grid(HEADERS, list(map(_row, shown)), ("turns", "tokens", "cost", "time"))
    undone = [each for each in shown if _why(each)]
    return "\n".join(
        [table, *waiting_lines(shown), *(["", _reasons(undone)] if undone else [])]
    )


def _row(each: Told) -> list[str]:
    figures = [str(each.turns), tokens(each.usage), money(each.cost), lasted(each.took)]
    return [each.id, each.state, *figures, first(str(each.fields.get("task", "")))]


def _why(each: Told) -> str:
    return (
        ""
        if each.state in ("running", "closed", "orphaned", "done")
        else str(each.fields.get("why", ""))
    )


def _reasons(undone: list[Told]) -> str:
    """Return each run with its state, and the whole of why it is not done below it."""
    lines = []
    for each in undone:
        lines.append(f"{each.id}  {each.state}")
        lines += wrap(
            clean(_why(each)),
            WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def tree_options(parser: Options) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="from this run on; else all trees")
    add(
        "--limit",
        type=whole,
        default=10,
        metavar="N",
        help="the newest so many trees; 0: all; else 10",
    )


def tree(call: Call) -> None:
    grown = _trees(call)
    shown = {
        each.id: each
        for each in told(call, [run for tops in grown.values() for run in tops])
    }
    tops = [str(run["run"]) for run in grown.get(None, ())]
    call.show(
        lambda: {"trees": [_nested(top, shown, grown) for top in tops]},
        lambda: (
            "\n".join([*_drawn(tops, shown, grown), *waiting_lines(shown.values())])
            or "no runs"
        ),
    )


def _drawn(
    tops: list[str], shown: dict[str, Told], grown: dict[str | None, list[Fields]]
) -> Iterator[str]:
    for top in tops:
        yield from drawn(top, shown, grown, columns() or 0)


def _trees(call: Call) -> dict[str | None, list[Fields]]:
    """The runs below the one that was asked for, or the newest trees; by parent."""
    if call.args.run:
        top = one(call, call.args.run)
        grown = below(runs(call, root=top["root"]))
        kept: dict[str | None, list[Fields]] = {None: [top]}
        left = [str(top["run"])]
        while left:
            id = left.pop()
            kept[id] = grown.get(id, [])
            left += [str(run["run"]) for run in kept[id]]
        return kept
    grown = below(runs(call))
    if call.args.limit:
        grown[None] = grown.get(None, [])[-call.args.limit :]
    return grown


def drawn(
    top: str,
    shown: dict[str, Told],
    grown: dict[str | None, list[Fields]],
    width: int,
    lead: str = "",
    turn: str = "",
) -> Iterator[str]:
    """The lines of a tree: each run with its state, and what it left or is at."""
    each = shown[top]
    figures = f"{tokens(each.usage)} tokens, {money(each.cost)}, {lasted(each.took)}"
    yield short(
        f"{lead}{turn}{top}  {each.state}  {figures}  {first_line(each)}", width
    )
    inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[turn]
    children = [str(run["run"]) for run in grown.get(top, ())]
    for child in children:
        yield from drawn(
            child, shown, grown, width, inner, "└─ " if child == children[-1] else "├─ "
        )


def _nested(
    top: str, shown: dict[str, Told], grown: dict[str | None, list[Fields]]
) -> dict[str, object]:
    children = [_nested(str(run["run"]), shown, grown) for run in grown.get(top, ())]
    return {**shown[top].json(), "children": children}
