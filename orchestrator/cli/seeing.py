"""`orchestrator ps | tree`: which runs there are, and who spawned whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.cli.grid import grid
from orchestrator.cli.told import Fields, Told, below, first_line, lasted, money, one, runs, tokens, told, waiting_lines
from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import number as whole
from synapse.cli.show import columns, first, short
from synapse.entry import SECOND

HEADERS = ("run", "state", "turns", "tokens", "cost", "time", "task")
RECENT = 24 * 3_600 * SECOND  # so long `ps` names what ended otherwise than done
NEWEST = 10
TASK = 40  # characters of a task beside the reason why it is not done


def ps_options(parser: Options) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="those that have ended too")
    add("--agent", metavar="AGENT", help="only this agent's")
    add("--project", metavar="P", help="only this project's")
    add("--limit", type=whole, default=50, metavar="N", help="the newest so many; 0: all; else 50")


def ps(call: Call) -> None:
    args = call.args
    state = None if args.all else "running"
    found = runs(call, state=state, agent=args.agent, project=args.project, limit=args.limit or None)
    shown = told(call, found)
    if args.all:
        call.show(lambda: {"runs": [each.json() for each in shown]}, lambda: listing(shown, everything=True))
        return
    undone = told(call, _undone(call))
    call.show(
        lambda: {"runs": [each.json() for each in shown], "not_done": [each.json() for each in undone]},
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
    rows = [[each.id, each.state, first(str(each.fields.get("why", "")))] for each in undone]
    return f"\n\nended in the last 24 hours, and not done:\n{grid(('run', 'state', 'why'), rows)}"


def listing(shown: list[Told], *, everything: bool) -> str:
    """Return the table of these runs; with the reason why, where one ended otherwise than done."""
    if not shown:
        return "no runs" if everything else "nothing runs; `orchestrator ps --all` lists what ran"
    reasons = any(map(_why, shown))
    headers = (*HEADERS, "why") if reasons else HEADERS
    table = grid(headers, [_row(each, reasons) for each in shown], ("turns", "tokens", "cost", "time"))
    return "\n".join([table, *waiting_lines(shown)])


def _row(each: Told, reasons: bool) -> list[str]:
    figures = [str(each.turns), tokens(each.usage), money(each.cost), lasted(each.took)]
    task = first(str(each.fields.get("task", "")))
    return [each.id, each.state, *figures, *([short(task, TASK), _why(each)] if reasons else [task])]


def _why(each: Told) -> str:
    return "" if each.state in ("running", "orphaned", "done") else first(str(each.fields.get("why", "")))


def tree_options(parser: Options) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="from this run on; else all trees")
    add("--limit", type=whole, default=10, metavar="N", help="the newest so many trees; 0: all; else 10")


def tree(call: Call) -> None:
    grown = _trees(call)
    shown = {each.id: each for each in told(call, [run for tops in grown.values() for run in tops])}
    tops = [str(run["run"]) for run in grown.get(None, ())]
    call.show(
        lambda: {"trees": [_nested(top, shown, grown) for top in tops]},
        lambda: "\n".join([*_drawn(tops, shown, grown), *waiting_lines(shown.values())]) or "no runs",
    )


def _drawn(tops: list[str], shown: dict[str, Told], grown: dict[str | None, list[Fields]]) -> Iterator[str]:
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
    top: str, shown: dict[str, Told], grown: dict[str | None, list[Fields]], width: int, lead: str = "", turn: str = ""
) -> Iterator[str]:
    """The lines of a tree: each run with its state, and what it left or is at."""
    each = shown[top]
    figures = f"{tokens(each.usage)} tokens, {money(each.cost)}, {lasted(each.took)}"
    yield short(f"{lead}{turn}{top}  {each.state}  {figures}  {first_line(each)}", width)
    inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[turn]
    children = [str(run["run"]) for run in grown.get(top, ())]
    for child in children:
        yield from drawn(child, shown, grown, width, inner, "└─ " if child == children[-1] else "├─ ")


def _nested(top: str, shown: dict[str, Told], grown: dict[str | None, list[Fields]]) -> dict[str, object]:
    children = [_nested(str(run["run"]), shown, grown) for run in grown.get(top, ())]
    return {**shown[top].json(), "children": children}
