"""From samples to what a report says: figures with intervals, comparisons, verdicts, and from where
on memory pays.

Pure: samples and thresholds in, tables of plain values out, the same on every machine: numbers are
rounded to nine digits, and chance has fixed seeds. Whoever has the ledger can make all of it again,
which is what `verify` does.

A figure's key is its arm, `view`; in a cell of the grid with the cell behind it, `view@n=6`; where
a report tells of several scenarios with the scenario before it, `telephone/view`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scenarios.data.schema import OPERATORS, PARAMETERS
from scenarios.measure import statistics
from scenarios.measure.statistics import Interval
from scenarios.measure.study import BEST, ISOLATED, MARGIN, SUCCESS, UNITS, Study

# What a memory is for comes before what it saves: a saving does not count where one of these was
# missed.
FIRST = frozenset(("needed_recall", "task_success", "success", *SUCCESS))
SAVINGS = frozenset(
    ("net_saving", "usd_saving", "saving_vs_broadcast", "context_reduction", *BEST.values())
)
DIGITS = 9
Table = dict[str, Any]
HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda value, limit: math.isclose(value, limit, abs_tol=1e-9),
    ">=": lambda value, limit: value >= limit - 1e-12,
    "<=": lambda value, limit: value <= limit + 1e-12,
    ">": lambda value, limit: value > limit,
    "<": lambda value, limit: value < limit,
}
assert set(HOLDS) == set(OPERATORS)


class Threshold(NamedTuple):
    """What a figure of a scenario has to be, in this arm; in a cell of its grid, or with its own
    parameters.
    """

    scenario: str
    text: str
    metric: str
    arm: str
    op: str
    limit: float
    cell: str = ""

    def met(self, value: float) -> bool:
        return HOLDS[self.op](value, self.limit)


class Findings(NamedTuple):
    """What is said of the runs: each a part of report.json."""

    metrics: Table
    comparisons: list[Table]
    verdicts: list[Table]
    break_even: list[Table]
    rivals: list[Table]
    equal: list[Table]


def build_findings(study: Study, thresholds: Sequence[Threshold]) -> Findings:
    return Findings(
        _metrics(study),
        [row for scenario in study.scenarios for row in _comparisons(study, scenario)],
        _verdicts(study, thresholds),
        [row for scenario in study.scenarios for row in _break_even(study, scenario)],
        [row for scenario in study.scenarios for row in _best_rivals(study, scenario)],
        [row for scenario in study.scenarios for row in _equal(study, scenario)],
    )


def _best_rivals(study: Study, scenario: str) -> Iterator[Table]:
    arm = study.gated(scenario)
    for cell in study.names(scenario):
        if arm is not None and study.rivals and set(study.arms(scenario, cell)) & set(study.rivals):
            for unit in UNITS:
                yield {
                    "scenario": scenario,
                    "cell": cell,
                    "arm": arm,
                    "unit": unit,
                    "rival": study.best(scenario, unit, cell),
                }


def _equal(study: Study, scenario: str) -> Iterator[Table]:
    """Yield the arms that came out equal in every run of a cell: what differs between them made no
    difference.
    """
    for cell in study.names(scenario):
        groups: list[list[str]] = []
        for arm in study.arms(scenario, cell):
            group = next(
                (group for group in groups if _same(study, scenario, cell, group[0], arm)), None
            )
            groups.append([arm]) if group is None else group.append(arm)
        yield from (
            {"scenario": scenario, "cell": cell, "arms": group}
            for group in groups
            if len(group) > 1
        )


def _same(study: Study, scenario: str, cell: str, one: str, other: str) -> bool:
    ours, theirs = (
        {sample.seed: sample.figures for sample in study.of(scenario, arm, cell)}
        for arm in (one, other)
    )
    shared = ours.keys() & theirs.keys()
    return bool(shared) and all(ours[seed] == theirs[seed] for seed in shared)


def rounded(value: float) -> float:
    """Round to nine significant digits: equal on every machine."""
    return float(f"{value:.{DIGITS}g}")


def interval_fields(value: Interval) -> Table:
    return {name: rounded(item) for name, item in value._asdict().items()}


def _metrics(study: Study) -> Table:
    table: Table = {}
    for scenario, cell, arm in study.cells:
        rows = study.rows(scenario, arm, cell)
        table[study.key(scenario, cell, arm)] = {
            name: {**interval_fields(value), "n": sum(name in row for row in rows)}
            for name, value in study.figures(scenario, arm, cell).items()
        }
    return table


def _comparisons(study: Study, scenario: str) -> list[Table]:
    """Return each arm beside the isolated one in pairs: tokens, and whether success is no worse."""
    rows = [
        _compared(study, scenario, arm)
        for arm in study.arms(scenario)
        if arm != ISOLATED and study.pairs(scenario, arm, ISOLATED)
    ]
    together = statistics.holm({str(row["arm"]): float(row["p"]) for row in rows})
    return [row | {"p_holm": rounded(together[row["arm"]])} for row in rows]


def _compared(study: Study, scenario: str, arm: str) -> Table:
    pairs = study.pairs(scenario, arm, ISOLATED)
    saving = study.saving(scenario, arm, ISOLATED)
    ratios = [math.log(one.tally["tokens"] / two.tally["tokens"]) for one, two in pairs]
    ours, theirs = (
        [pair[side].figures.get("task_success", 0.0) for pair in pairs] for side in (0, 1)
    )
    success = statistics.non_inferior(ours, theirs, MARGIN)
    flips = _flips(
        study, scenario, arm, "net_saving", lambda there: (there.value > 0) != (saving.value > 0)
    )
    return {
        "scenario": scenario,
        "arm": arm,
        "against": ISOLATED,
        "n": len(pairs),
        "saving": interval_fields(saving),
        "p": rounded(statistics.p_value(ratios)),
        "success_difference": rounded(success.difference),
        "success_lo": rounded(success.lo),
        "no_worse": success.holds,
        "fragile": bool(flips),
        "flips": flips,
    }


def _flips(
    study: Study, scenario: str, arm: str, metric: str, other: Callable[[Interval], bool]
) -> list[str]:
    """Return the cells of the sensitivity grid in which a figure says the opposite."""
    figures = (
        (cell, study.figures(scenario, arm, cell).get(metric))
        for cell in sensitivity(study, scenario)
    )
    return [cell for cell, value in figures if value is not None and other(value)]


def _verdicts(study: Study, thresholds: Sequence[Threshold]) -> list[Table]:
    """Return all verdicts. Where a gate that comes first was missed, no gate of a saving in the
    same cell is met.
    """
    verdicts = [_verdict(study, threshold) for threshold in thresholds]
    missed: dict[tuple[str, str], list[str]] = {}
    for threshold, verdict in zip(thresholds, verdicts, strict=True):
        if threshold.metric in FIRST and verdict["met"] is False:
            missed.setdefault((threshold.scenario, threshold.cell), []).append(threshold.text)
    for threshold, verdict in zip(thresholds, verdicts, strict=True):
        first = missed.get((threshold.scenario, threshold.cell))
        if first and threshold.metric in SAVINGS and threshold.op in (">", ">=") and verdict["met"]:
            verdict |= {"met": False, "first": first}
    return verdicts


def _verdict(study: Study, threshold: Threshold) -> Table:
    """Return the verdict on a threshold. `met` is null where its arm was not played; `runs_met` are
    the runs that meet it one by one; `flips` are the cells of the sensitivity grid in which it
    comes out the other way.
    """
    scenario, arm, metric = threshold.scenario, threshold.arm, threshold.metric
    table: Table = {"scenario": scenario, "gate": threshold.text, "arm": arm, "metric": metric}
    cell = threshold.cell or study.base(scenario)
    if not study.of(scenario, arm, cell):
        return table | {
            "met": None,
            "why": f"{arm} was not played{f' in {cell}' if threshold.cell else ''}",
            "fragile": False,
            "flips": [],
            "cells": {},
        }
    value = study.figures(scenario, arm, cell).get(metric)
    if value is None and metric in BEST.values() and study.ablest(scenario, cell):
        why = "no rival does as many tasks right"
        return table | {"met": True, "why": why, "fragile": False, "flips": [], "cells": {}}
    if value is None:
        return table | {
            "met": False,
            "why": "nothing was measured",
            "fragile": False,
            "flips": [],
            "cells": {},
        }
    is_met = threshold.met(value.value)
    rows = [row[metric] for row in study.rows(scenario, arm, cell) if metric in row]
    flips = (
        _flips(study, scenario, arm, metric, lambda there: threshold.met(there.value) != is_met)
        if not threshold.cell
        else []
    )
    return (
        table
        | interval_fields(value)
        | {
            "n": len(rows),
            "runs_met": sum(map(threshold.met, rows)),
            "met": is_met,
            "fragile": bool(flips),
            "flips": flips,
            "cells": {} if threshold.cell else dict(_in_cells(study, threshold)),
        }
    )


def _in_cells(study: Study, threshold: Threshold) -> Iterator[tuple[str, Table]]:
    """Yield the verdict in each other cell in which the threshold was measured."""
    scenario, arm, metric = threshold.scenario, threshold.arm, threshold.metric
    for cell in study.names(scenario):
        played = cell != study.base(scenario) and (scenario, cell, arm) in study.cells
        value = study.figures(scenario, arm, cell).get(metric) if played else None
        if value is not None:
            n = sum(metric in row for row in study.rows(scenario, arm, cell))
            yield (cell, {**interval_fields(value), "n": n, "met": threshold.met(value.value)})


def sensitivity(study: Study, scenario: str) -> list[str]:
    """Return the cells in which nothing differs but how agents read, use tools and think, or what
    things cost.
    """
    cells = [cell for cell in study.names(scenario) if cell != study.base(scenario)]
    return [cell for cell in cells if study.varied(scenario, cell) <= set(PARAMETERS)]


def surface(study: Study, scenario: str) -> list[str]:
    """Return the first cell, and those in which only the scenario's own parameters differ: the
    team's size, say.
    """
    return [
        cell for cell in study.names(scenario) if not study.varied(scenario, cell) & set(PARAMETERS)
    ]


def _break_even(study: Study, scenario: str) -> list[Table]:
    """Return, for each value of the other parameters, the smallest team from which on memory pays:
    the lower end of the saving's interval is above 0 there, and for every larger team. Null where
    there is none.
    """
    arm = study.gated(scenario)
    teams = dict[tuple[tuple[str, Any], ...], list[tuple[int, Interval]]]()
    for cell in surface(study, scenario) if arm else ():
        group = study.of(scenario, arm or "", cell)
        pairs = study.pairs(scenario, arm or "", ISOLATED, cell)
        if pairs:
            settings = tuple(pair for pair in group[0].cell if pair[0] != "n")
            teams.setdefault(settings, []).append(
                (group[0].team, study.saving(scenario, arm or "", ISOLATED, cell))
            )
    if len({team for sizes in teams.values() for team, _ in sizes}) < 2:
        return []
    return [
        _from_where(scenario, arm or "", dict(settings), sorted(sizes))
        for settings, sizes in teams.items()
    ]


def _from_where(
    scenario: str, arm: str, where: Table, sizes: Sequence[tuple[int, Interval]]
) -> Table:
    smallest = None
    for team, saving in reversed(sizes):
        if saving.lo <= 0:
            break
        smallest = team
    return {
        "scenario": scenario,
        "arm": arm,
        "where": where,
        "team": smallest,
        "teams": [team for team, _ in sizes],
    }
