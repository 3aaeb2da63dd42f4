"""`orchestrator stats`: sum up what the runs of a department, an agent, a project took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from orchestrator.cli.frame.describe import RunRow, find_runs, run_folder, run_rows
from orchestrator.cli.frame.figures import format_count, format_money, mark_estimate
from orchestrator.cli.frame.grid import grid
from orchestrator.runs import ledger
from orchestrator.runs.folder import LEDGER
from orchestrator.runs.ledger import Overhead
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options

BY = ("department", "agent", "project", "role", "model")
HEADERS = (
    "runs",
    "done",
    "blocked",
    "failed",
    "running",
    "blockers",
    "tokens",
    "cost",
    "overhead",
)
OVERHEAD = """\
overhead: tokens that memory took (views, tool schemas, recalls, wakes, entries
written back, what the system text says of it) as a share of the tokens of the
work. Short runs pass 100 %: what is critical is shown whatever the task takes.
Views that are sized by themselves (auto) hold what is expected to save more
than it takes, whatever its share.
"""
FAILED = ("failed", "timeout", "stopped", "refused")


class Sum(NamedTuple):
    """What a group of runs took. `blocked` are runs that ended so; `blockers` the critical entries
    in `blockers/`, whatever became of the runs, None where nothing tells whose they are. `overhead`
    is what memory cost of the work, as billed; None where nothing worked. `estimated`: nobody
    reported some of the tokens, or no tokenizer was there to count what they were for.
    """

    name: str
    runs: int
    done: int
    blocked: int
    failed: int
    running: int
    blockers: int | None
    tokens: int
    cost: float | None
    overhead: float | None
    estimated: bool


def stats_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--by",
        default="department",
        choices=BY,
        metavar="WHAT",
        help=f"{', '.join(BY)} (default: department)",
    )
    add(
        "--since",
        metavar="WHEN",
        help="24h, yesterday, last tuesday, 2026-02-01 (default: all)",
    )


def stats(call: Call) -> None:
    from synapse.model.dates import since as parse_since

    by = call.args.by
    since = parse_since(call.args.since, call.memory.store.clock()) or 0
    rows = run_rows(call, [run for run in find_runs(call) if run["at"] >= since])
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(str(row.fields.get(by) or "-"), []).append(row)
    reported = None if by == "model" else _blockers(call, by, since)
    sums = [
        _sum(
            call,
            name,
            groups.get(name, []),
            None if reported is None else reported[name],
        )
        for name in sorted({*groups, *(reported or ())})
    ]
    total = _sum(call, "in all", rows, sum(_blockers(call, "agent", since).values()))
    call.show(
        lambda: {"by": by, "groups": sums, "all": total},
        lambda: _format_stats(by, sums, total),
    )


def _format_stats(by: str, sums: list[Sum], total: Sum) -> str:
    if not sums:
        return "no runs"
    rows = [_row(group) for group in (*sums, *([total] if len(sums) > 1 else []))]
    about_overhead = (
        f"\n{OVERHEAD}" if any(group.overhead is not None for group in sums) else ""
    )
    note = (
        "\n~: some of it was not reported, or could not be counted"
        if total.estimated
        else ""
    )
    return grid((by, *HEADERS), rows, HEADERS) + about_overhead + note


def _row(group: Sum) -> list[str]:
    counts = (group.runs, group.done, group.blocked, group.failed, group.running)
    blockers = "-" if group.blockers is None else str(group.blockers)
    tokens = mark_estimate(format_count(group.tokens), group.estimated)
    overhead = (
        "-"
        if group.overhead is None
        else mark_estimate(f"{group.overhead:.1%}", group.estimated)
    )
    return [
        group.name,
        *map(str, counts),
        blockers,
        tokens,
        format_money(group.cost),
        overhead,
    ]


def _sum(call: Call, name: str, rows: list[RunRow], blockers: int | None) -> Sum:
    states = [row.state for row in rows]
    costs = [row.cost for row in rows if row.cost is not None]
    spent = [overhead for row in rows if (overhead := _overhead(call, row)) is not None]
    work = sum(overhead.work for overhead in spent)
    estimated = any(row.usage.estimated for row in rows) or any(
        overhead.counting != "exact" for overhead in spent
    )
    return Sum(
        name,
        len(rows),
        states.count("done"),
        states.count("blocked"),
        _count_states(states, FAILED),
        _count_states(states, ("running", "closed", "orphaned")),
        blockers,
        sum(row.tokens for row in rows),
        sum(costs) if costs else None,
        sum(overhead.coordination for overhead in spent) / work if work else None,
        estimated,
    )


def _blockers(call: Call, by: str, since: int) -> Counter[str]:
    """Count the critical entries in `blockers/`, by their project or their author."""
    agents, counts = call.memory.store.agents(), Counter[str]()
    with call.memory.store.snapshot() as snap:
        blockers = snap.blockers(since)
    for namespace, author, count in blockers:
        agent = agents.get(author)
        whose = {"project": namespace.partition("/")[2], "agent": author}
        if agent is not None:
            whose |= {"department": agent.department or "-", "role": agent.role}
        counts[whose.get(by, "-")] += count
    return counts


def _overhead(call: Call, row: RunRow) -> Overhead | None:
    """Return the overhead of a run: by the record of its end, by the ledger while it runs."""
    if not row.running:
        return Overhead(*row.fields["overhead"]) if row.fields.get("overhead") else None
    return ledger.overhead(ledger.read(run_folder(call, row.id).lines(LEDGER)))


def _count_states(states: Iterable[str], wanted: tuple[str, ...]) -> int:
    return sum(state in wanted for state in states)
