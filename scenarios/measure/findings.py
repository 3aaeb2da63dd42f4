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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from scenarios.data.schema import OF_MEMORY, OPERATORS, PARAMETERS
from scenarios.measure import metrics, statistics
from scenarios.measure.samples import Sample
from scenarios.measure.statistics import Interval

ISOLATED, BROADCAST = "isolated", "broadcast"
UNITS = ("tokens", "usd")
BEST = {"tokens": "saving_vs_best", "usd": "usd_vs_best"}
SUCCESS = ("success_vs_isolated", "success_vs_best")
# What a memory is for comes before what it saves: a saving does not count where one of these was
# missed.
FIRST = frozenset(("needed_recall", "task_success", "success", *SUCCESS))
SAVINGS = frozenset(
    (
        "net_saving",
        "usd_saving",
        "saving_vs_broadcast",
        "context_reduction",
        *BEST.values(),
    )
)
MARGIN = 0.02  # by how much success may fall, and memory still count as no worse
DIGITS = 9
# Figures that compare with another arm: against which, and what of a run.
COMPARED = (
    ("net_saving", ISOLATED, "tokens"), ("usd_saving", ISOLATED, "usd"), ("saving_vs_broadcast",
    BROADCAST, "tokens"),
)  # fmt: skip
Key = tuple[str, str, str]  # scenario, cell, arm
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


class Study:
    """Samples by scenario, cell and arm, in the order of their seeds; pairs are runs of one seed.
    `rivals` are the arms that what ships is held against.
    """

    def __init__(self, samples: Iterable[Sample], rivals: Collection[str] = ()) -> None:
        self.rivals = rivals
        self._best: dict[tuple[str, str, str], str | None] = {}
        self.cells: dict[Key, list[Sample]] = {}
        for sample in samples:
            self.cells.setdefault(
                (sample.scenario, sample.name, sample.arm), []
            ).append(sample)
        for group in self.cells.values():
            group.sort(key=lambda sample: sample.seed)
        self.scenarios = list(dict.fromkeys(scenario for scenario, _, _ in self.cells))
        self._figures: dict[Key, dict[str, Interval]] = {}

    def key(self, scenario: str, cell: str, arm: str) -> str:
        """Return the key that a report uses."""
        before = f"{scenario}/" if len(self.scenarios) > 1 else ""
        return f"{before}{arm}@{cell}" if cell else f"{before}{arm}"

    def names(self, scenario: str) -> list[str]:
        """Return the names of a scenario's cells, in the order of play."""
        return list(
            dict.fromkeys(cell for which, cell, _ in self.cells if which == scenario)
        )

    def base(self, scenario: str) -> str:
        """The cell that the others vary: the first; empty where it is the scenario's own
        parameters.
        """
        return next(iter(self.names(scenario)), "")

    def arms(self, scenario: str, cell: str | None = None) -> list[str]:
        chosen = self.base(scenario) if cell is None else cell
        return [
            arm for which, key, arm in self.cells if (which, key) == (scenario, chosen)
        ]

    def of(self, scenario: str, arm: str, cell: str | None = None) -> list[Sample]:
        """The runs of an arm in a cell. Where a cell differs from the first only in what memory is
        to agents, isolated ones were not played again: those of the first stand for them.
        """
        base = self.base(scenario)
        chosen = base if cell is None else cell
        if (
            arm == ISOLATED
            and (scenario, chosen, arm) not in self.cells
            and self._same_alone(scenario, chosen)
        ):
            chosen = base
        return self.cells.get((scenario, chosen, arm), [])

    def _same_alone(self, scenario: str, cell: str) -> bool:
        return cell in self.names(scenario) and self.varied(scenario, cell) <= OF_MEMORY

    def varied(self, scenario: str, cell: str) -> set[str]:
        """The parameters in which a cell differs from the one that it varies."""
        cells = {
            name: set(group[0].cell)
            for (which, name, _), group in self.cells.items()
            if which == scenario
        }
        return {name for name, _ in cells[cell] ^ cells[self.base(scenario)]}

    def gated(self, scenario: str) -> str | None:
        return next(
            (
                arm
                for (which, _, arm), arms in self.cells.items()
                if which == scenario and arms[0].gated
            ),
            None,
        )

    def pairs(
        self, scenario: str, arm: str, other: str, cell: str | None = None
    ) -> list[tuple[Sample, Sample]]:
        """The runs of both arms that have the same seed, and took any tokens."""
        theirs = {
            sample.seed: sample
            for sample in self.of(scenario, other, cell)
            if sample.tally["tokens"]
        }
        return [
            (sample, theirs[sample.seed])
            for sample in self.of(scenario, arm, cell)
            if sample.seed in theirs and sample.tally["tokens"]
        ]

    def figures(
        self, scenario: str, arm: str, cell: str | None = None
    ) -> dict[str, Interval]:
        """Every figure of an arm in a cell, with its interval."""
        key = scenario, self.base(scenario) if cell is None else cell, arm
        if key not in self._figures:
            self._figures[key] = self._measured(*key)
        return self._figures[key]

    def _measured(self, scenario: str, cell: str, arm: str) -> dict[str, Interval]:
        group = self.of(scenario, arm, cell)
        values: dict[str, list[float]] = {}
        for row in self.rows(scenario, arm, cell):
            for name, value in row.items():
                values.setdefault(name, []).append(value)
        figures = {
            name: statistics.interval(item) for name, item in sorted(values.items())
        }
        if "success" in values:
            figures["success"] = statistics.proportion(
                round(sum(values["success"])), len(values["success"])
            )
        done = [float(item.done) for item in group]
        for name, label in (
            ("tokens_per_success", "tokens"),
            ("usd_per_success", "usd"),
        ):
            if name in figures and "usd" in values:
                figures[name] = statistics.ratio(values[label], done)
        for name, against, label in COMPARED:
            if name in figures:
                figures[name] = self.saving(scenario, arm, against, cell, label)
        for unit, name in BEST.items():
            if name in figures:
                pairs = self.pairs(
                    scenario, arm, self.best(scenario, unit, cell) or "", cell
                )
                own, theirs = zip(
                    *((_spent(one, unit), _spent(two, unit)) for one, two in pairs),
                    strict=True,
                )
                figures[name] = statistics.saving(own, theirs)
        return {
            name: item for name, item in figures.items() if math.isfinite(item.value)
        }

    def best(self, scenario: str, unit: str, cell: str | None = None) -> str | None:
        """Return the rival that what ships is held against: of those that do as many tasks right,
        on average, the one that spends least, on average; None where there is none.
        """
        chosen = self.base(scenario) if cell is None else cell
        if (scenario, chosen, unit) not in self._best:
            self._best[scenario, chosen, unit] = self._chosen(scenario, unit, chosen)
        return self._best[scenario, chosen, unit]

    def _chosen(self, scenario: str, unit: str, cell: str) -> str | None:
        means = dict[str, float]()
        for rival in self._rivals(scenario, cell):
            pairs = self.pairs(scenario, self.gated(scenario) or "", rival, cell)
            if fmean(_done(two) - _done(one) for one, two in pairs) >= -MARGIN - 1e-12:
                means[rival] = fmean(_spent(two, unit) for _, two in pairs)
        return min(means, key=means.__getitem__, default=None)

    def _rivals(self, scenario: str, cell: str) -> list[str]:
        """Return the rivals that were played under seeds of what ships."""
        arm = self.gated(scenario) or ""
        return [
            rival
            for rival in self.arms(scenario, cell)
            if rival in self.rivals and self.pairs(scenario, arm, rival, cell)
        ]

    def ablest(self, scenario: str, cell: str) -> str | None:
        """Return the rival that does most tasks right, on average."""
        means = {
            rival: fmean(map(_done, self.of(scenario, rival, cell)))
            for rival in self._rivals(scenario, cell)
        }
        return max(means, key=means.__getitem__, default=None)

    def _held_against(self, scenario: str, cell: str) -> dict[int, dict[str, float]]:
        """Return what each run of what ships comes to beside the isolated one and the best rivals
        of its seed.
        """
        arm, rows = self.gated(scenario) or "", dict[int, dict[str, float]]()
        for unit, name in BEST.items():
            for one, two in self.pairs(
                scenario, arm, self.best(scenario, unit, cell) or "", cell
            ):
                if _spent(two, unit):
                    rows.setdefault(one.seed, {})[name] = 1 - _spent(
                        one, unit
                    ) / _spent(two, unit)
        for name, against in zip(
            SUCCESS, (ISOLATED, self.ablest(scenario, cell)), strict=True
        ):
            for one, two in self.pairs(scenario, arm, against or "", cell):
                if "task_success" in one.figures:
                    rows.setdefault(one.seed, {})[name] = _done(one) - _done(two)
        return rows

    def rows(
        self, scenario: str, arm: str, cell: str | None = None
    ) -> list[dict[str, float]]:
        """The figures of each run, with those that need another arm of its seed."""
        labels = {
            name: 0.0
            for sample in self.of(scenario, arm, cell)
            for name in sample.figures
            if name[:7] == "tokens."
        }
        against = (
            self._held_against(scenario, cell or self.base(scenario))
            if arm == self.gated(scenario)
            else {}
        )
        tallies = [
            {sample.seed: sample.tally for sample in self.of(scenario, name, cell)}
            for name in (ISOLATED, BROADCAST)
        ]
        return [
            labels
            | sample.figures
            | metrics.beside(
                sample.tally, *(tally.get(sample.seed) for tally in tallies)
            )
            | against.get(sample.seed, {})
            for sample in self.of(scenario, arm, cell)
        ]

    def saving(
        self,
        scenario: str,
        arm: str,
        other: str,
        cell: str | None = None,
        what: str = "tokens",
    ) -> Interval:
        """Return 1 - T ÷ T of the other arm, or $ ÷ $ (`what`: usd), by the geometric mean over
        pairs.
        """
        pairs = self.pairs(scenario, arm, other, cell)
        own, theirs = zip(
            *((one.tally[what], two.tally[what]) for one, two in pairs), strict=True
        )
        return statistics.saving(own, theirs)


def _done(sample: Sample) -> float:
    return sample.figures.get("task_success", 0.0)


def _spent(sample: Sample, unit: str) -> float:
    return sample.tally["tokens"] if unit == "tokens" else sample.figures.get(unit, 0.0)


def found(study: Study, thresholds: Sequence[Threshold]) -> Findings:
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
        if (
            arm is not None
            and study.rivals
            and set(study.arms(scenario, cell)) & set(study.rivals)
        ):
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
                (
                    group
                    for group in groups
                    if _same(study, scenario, cell, group[0], arm)
                ),
                None,
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
    """So that a number is the same on every machine, and every digit of it counts."""
    return float(f"{value:.{DIGITS}g}")


def told(value: Interval) -> Table:
    return {name: rounded(item) for name, item in value._asdict().items()}


def _metrics(study: Study) -> Table:
    table: Table = {}
    for scenario, cell, arm in study.cells:
        rows = study.rows(scenario, arm, cell)
        table[study.key(scenario, cell, arm)] = {
            name: {**told(value), "n": sum(name in row for row in rows)}
            for name, value in study.figures(scenario, arm, cell).items()
        }
    return table


def _comparisons(study: Study, scenario: str) -> list[Table]:
    """Every arm beside the isolated one, by pairs: tokens, and whether success is no worse."""
    rows = [
        _compared(study, scenario, arm)
        for arm in study.arms(scenario)
        if arm != ISOLATED and study.pairs(scenario, arm, ISOLATED)
    ]
    together = statistics.holm({str(row["arm"]): float(row["p"]) for row in rows})
    return [row | {"p_holm": rounded(together[row["arm"]])} for row in rows]


def _compared(study: Study, scenario: str, arm: str) -> Table:
    pairs, saving = (
        study.pairs(scenario, arm, ISOLATED),
        study.saving(scenario, arm, ISOLATED),
    )
    ratios = [math.log(one.tally["tokens"] / two.tally["tokens"]) for one, two in pairs]
    ours, theirs = (
        [pair[side].figures.get("task_success", 0.0) for pair in pairs]
        for side in (0, 1)
    )
    success = statistics.non_inferior(ours, theirs, MARGIN)
    flips = _flips(
        study,
        scenario,
        arm,
        "net_saving",
        lambda there: (there.value > 0) != (saving.value > 0),
    )
    return {
        "scenario": scenario,
        "arm": arm,
        "against": ISOLATED,
        "n": len(pairs),
        "saving": told(saving),
        "p": rounded(statistics.p_value(ratios)),
        "success_difference": rounded(success.difference),
        "success_lo": rounded(success.lo),
        "no_worse": success.holds,
        "fragile": bool(flips),
        "flips": flips,
    }


def _flips(
    study: Study,
    scenario: str,
    arm: str,
    metric: str,
    other: Callable[[Interval], bool],
) -> list[str]:
    """The cells of the sensitivity grid in which a figure says the opposite."""
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
            missed.setdefault((threshold.scenario, threshold.cell), []).append(
                threshold.text
            )
    for threshold, verdict in zip(thresholds, verdicts, strict=True):
        first = missed.get((threshold.scenario, threshold.cell))
        if (
            first
            and threshold.metric in SAVINGS
            and threshold.op in (">", ">=")
            and verdict["met"]
        ):
            verdict |= {"met": False, "first": first}
    return verdicts


def _verdict(study: Study, threshold: Threshold) -> Table:
    """Return the verdict on a threshold. `met` is null where its arm was not played; `runs_met` are
    the runs that meet it one by one; `flips` are the cells of the sensitivity grid in which it
    comes out the other way.
    """
    scenario, arm, metric = threshold.scenario, threshold.arm, threshold.metric
    table: Table = {
        "scenario": scenario,
        "gate": threshold.text,
        "arm": arm,
        "metric": metric,
    }
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
        return table | {
            "met": True,
            "why": why,
            "fragile": False,
            "flips": [],
            "cells": {},
        }
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
        _flips(
            study,
            scenario,
            arm,
            metric,
            lambda there: threshold.met(there.value) != is_met,
        )
        if not threshold.cell
        else []
    )
    return (
        table
        | told(value)
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
            yield cell, {**told(value), "n": n, "met": threshold.met(value.value)}


def sensitivity(study: Study, scenario: str) -> list[str]:
    """The cells in which nothing differs but how agents read, use tools and think, or what things
    cost.
    """
    cells = [cell for cell in study.names(scenario) if cell != study.base(scenario)]
    return [cell for cell in cells if study.varied(scenario, cell) <= set(PARAMETERS)]


def surface(study: Study, scenario: str) -> list[str]:
    """The first cell, and those in which only the scenario's own parameters differ: the team's
    size, say.
    """
    return [
        cell
        for cell in study.names(scenario)
        if not study.varied(scenario, cell) & set(PARAMETERS)
    ]


def _break_even(study: Study, scenario: str) -> list[Table]:
    """For each of the other parameters of the surface, the smallest team from which on memory pays:
    the lower end of the saving's interval is above 0 there, and for every larger team. Null where
    there is none.
    """
    arm, teams = (
        study.gated(scenario),
        dict[tuple[tuple[str, Any], ...], list[tuple[int, Interval]]](),
    )
    for cell in surface(study, scenario) if arm else ():
        group, pairs = (
            study.of(scenario, arm or "", cell),
            study.pairs(scenario, arm or "", ISOLATED, cell),
        )
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
