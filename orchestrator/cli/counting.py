"""`orchestrator stats`: what the runs of a department, an agent, a project took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from orchestrator.cli.grid import grid
from orchestrator.cli.told import Told, about, folder, money, number, runs, told
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
        help=f"{', '.join(BY)}; else department",
    )
    add(
        "--since",
        metavar="WHEN",
        help="24h, yesterday, last tuesday, 2026-02-01; else all",
    )


def stats(call: Call) -> None:
    from synapse.model.dates import since as parse_since

    by = call.args.by
    since = parse_since(call.args.since, call.memory.store.clock()) or 0
    found = told(call, [run for run in runs(call) if run["at"] >= since])
    groups: dict[str, list[Told]] = {}
    for each in found:
        groups.setdefault(str(each.fields.get(by) or "-"), []).append(each)
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
    whole = _sum(call, "in all", found, sum(_blockers(call, "agent", since).values()))
    call.show(
        lambda: {"by": by, "groups": sums, "all": whole},
        lambda: _drawn(by, sums, whole),
    )


def _drawn(by: str, sums: list[Sum], whole: Sum) -> str:
    if not sums:
        return "no runs"
    rows = [_row(each) for each in (*sums, *([whole] if len(sums) > 1 else []))]
    about_overhead = (
        f"\n{OVERHEAD}" if any(each.overhead is not None for each in sums) else ""
    )
    note = "\n~: nobody reported or could count some of it" if whole.estimated else ""
    return grid((by, *HEADERS), rows, HEADERS) + about_overhead + note


def _row(each: Sum) -> list[str]:
    counts = (each.runs, each.done, each.blocked, each.failed, each.running)
    blockers = "-" if each.blockers is None else str(each.blockers)
    tokens = about(number(each.tokens), each.estimated)
    overhead = (
        "-" if each.overhead is None else about(f"{each.overhead:.1%}", each.estimated)
    )
    return [each.name, *map(str, counts), blockers, tokens, money(each.cost), overhead]


def _sum(call: Call, name: str, found: list[Told], blockers: int | None) -> Sum:
    states = [each.state for each in found]
    costs = [each.cost for each in found if each.cost is not None]
    spent = [parts for each in found if (parts := _overhead(call, each)) is not None]
    work = sum(parts.work for parts in spent)
    estimated = any(each.usage.estimated for each in found) or any(
        parts.counting != "exact" for parts in spent
    )
    return Sum(
        name,
        len(found),
        states.count("done"),
        states.count("blocked"),
        _any(states, FAILED),
        _any(states, ("running", "closed", "orphaned")),
        blockers,
        sum(each.tokens for each in found),
        sum(costs) if costs else None,
        sum(parts.coordination for parts in spent) / work if work else None,
        estimated,
    )


def _blockers(call: Call, by: str, since: int) -> Counter[str]:
    """How many critical entries there are in `blockers/`, by the project that they are in or by
    their author.
    """
    agents, found = call.memory.store.agents(), Counter[str]()
    with call.memory.store.snapshot() as snap:
        blockers = snap.blockers(since)
    for namespace, author, count in blockers:
        agent = agents.get(author)
        whose = {"project": namespace.partition("/")[2], "agent": author}
        if agent is not None:
            whose |= {"department": agent.department or "-", "role": agent.role}
        found[whose.get(by, "-")] += count
    return found


def _overhead(call: Call, each: Told) -> Overhead | None:
    """From the record of its end, or from the ledger while it runs."""
    if not each.running:
        return (
            Overhead(*each.fields["overhead"]) if each.fields.get("overhead") else None
        )
    return ledger.overhead(ledger.read(folder(call, each.id).lines(LEDGER)))


def _any(states: Iterable[str], wanted: tuple[str, ...]) -> int:
    return sum(state in wanted for state in states)
