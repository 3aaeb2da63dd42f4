"""Sums over runs: what a department, an agent, a project, a role, a model or a day took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from orchestrator.reports.notices import Notices, notices
from orchestrator.reports.rows import Fields, RunRow, Source, find_runs, run_rows
from orchestrator.runs.files import ledger, steps
from orchestrator.runs.files.folder import LEDGER, STEPS
from orchestrator.runs.files.ledger import Overhead, Unanswered

BY = ("department", "agent", "project", "role", "model")
DAY = "day"
NONE = "-"  # the group of runs without one
FAILED = ("failed", "timeout", "stopped", "refused")


class Sum(NamedTuple):
    """What a group of runs took. `blocked` are runs that ended so; `blockers` the critical entries
    in `blockers/`, whatever became of the runs, None where nothing tells whose they are. `overhead`
    is what memory cost of the work, as billed, without what was played; None where nothing worked.
    `spared` are the calls of tools that were not made, for another run had their results.
    `estimated`: nobody reported some of the tokens, or no tokenizer was there to count what they
    were for. `unanswered` are the calls whose reply nobody has, which are among the tokens.
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
    spared: int
    estimated: bool
    unanswered: Unanswered


class Sums(NamedTuple):
    """The sums of the groups, and of all runs; the notices to sessions of clients."""

    by: str
    groups: list[Sum]
    all: Sum
    notices: list[Notices]


def sums(source: Source, by: str, since: int = 0) -> Sums:
    """Return what the runs since then took, by one of BY or by the day that they began."""
    return sums_of(source, by, since, run_rows(source, find_runs(source, since=since or None)))


def sums_of(source: Source, by: str, since: int, rows: list[RunRow]) -> Sums:
    """Return what these runs took, which are those since then."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(group_of(source, by, row), []).append(row)
    with source.store.snapshot() as snap:
        blockers = snap.blockers(since)
    reported = None if by in ("model", DAY) else _blockers_by(source, by, blockers)
    found = [
        _sum(source, name, groups.get(name, []), None if reported is None else reported[name])
        for name in sorted({*groups, *(reported or ())})
    ]
    total = _sum(source, "in all", rows, sum(count for *_, count in blockers))
    return Sums(by, found, total, notices(row.fields for row in rows))


def group_of(source: Source, by: str, row: RunRow) -> str:
    """Return the group that a run is counted in."""
    if by != DAY:
        return str(row.fields.get(by) or NONE)
    from orchestrator.spend.limits import day_of

    return day_of(row.fields["at"], _zone(source))


def span_of_day(source: Source, day: str) -> tuple[int, int]:
    """Return when a day began, and when the next one does."""
    from orchestrator.spend.limits import span_of

    return span_of(day, _zone(source))


def _zone(source: Source) -> str:
    from orchestrator.spend.limits import policy

    return policy(dict(source.store.settings.other)).zone


def _sum(source: Source, name: str, rows: list[RunRow], blockers: int | None) -> Sum:
    states = [row.state for row in rows]
    costs = [row.cost for row in rows if row.cost is not None]
    spent = [
        found
        for row in rows
        if not row.fields.get("played") and (found := overhead_of(source, row)) is not None
    ]
    work = sum(overhead.work for overhead in spent)
    estimated = any(row.usage.estimated for row in rows) or any(
        overhead.counting != "exact" for overhead in spent
    )
    return Sum(
        name,
        len(rows),
        states.count("done"),
        _count_states(states, ("blocked", "waiting")),
        _count_states(states, FAILED),
        _count_states(states, ("running", "closed", "orphaned")),
        blockers,
        sum(row.tokens for row in rows),
        sum(costs) if costs else None,
        sum(overhead.coordination for overhead in spent) / work if work else None,
        sum(spared(source, row.fields) for row in rows),
        estimated,
        sum_unanswered(row.unanswered for row in rows),
    )


def sum_unanswered(each: Iterable[Unanswered]) -> Unanswered:
    """Return the calls whose reply nobody has, and what they took, of several runs."""
    calls = list(each)
    costs = [one.cost for one in calls if one.cost is not None]
    return Unanswered(
        sum(one.calls for one in calls),
        sum(one.tokens for one in calls),
        sum(costs) if costs else None,
    )


def _blockers_by(source: Source, by: str, blockers: Iterable[tuple[str, str, int]]) -> Counter[str]:
    """Count the critical entries in `blockers/`, by their project or their author."""
    agents, counts = source.store.agents.all(), Counter[str]()
    for namespace, author, count in blockers:
        agent = agents.get(author)
        whose = {"project": namespace.partition("/")[2], "agent": author}
        if agent is not None:
            whose |= {"department": agent.department or "-", "role": agent.role}
        counts[whose.get(by, "-")] += count
    return counts


def overhead_of(source: Source, row: RunRow) -> Overhead | None:
    """Return the overhead of a run: by the record of its end, by the ledger while it runs."""
    if not row.running:
        return Overhead(*row.fields["overhead"]) if row.fields.get("overhead") else None
    return ledger.overhead(ledger.read(source.folder(row.id).lines(LEDGER)))


def spared(source: Source, run: Fields) -> int:
    """Return how many calls of tools a run did not make, for another had their results: by the
    record of its end, by its steps while it runs. None of one that was played.
    """
    if run.get("played"):
        return 0
    if run["state"] != "running":
        return int((run.get("shares") or {}).get("given", 0))
    lines = source.folder(str(run["run"])).lines(STEPS)
    acts = (step.fields.get("act") or {} for step in steps.read_known(lines))
    return sum(list(act.get("counts", ())).count("given") for act in acts)


def _count_states(states: Iterable[str], wanted: tuple[str, ...]) -> int:
    return sum(state in wanted for state in states)
