"""Samples of a report by scenario, cell and arm: their figures, pairs and the best rival.

Pure; `findings` draws conclusions from it, reports and charts read it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from statistics import fmean

from orchestrator.reports.intervals import ratio
from scenarios.data.schema import OF_MEMORY
from scenarios.measure import metrics, statistics
from scenarios.measure.samples import Sample
from scenarios.measure.statistics import Interval

ISOLATED, BROADCAST = "isolated", "broadcast"
Key = tuple[str, str, str]  # scenario, cell, arm
UNITS = ("tokens", "usd")
BEST = {"tokens": "saving_vs_best", "usd": "usd_vs_best"}
SUCCESS = ("success_vs_isolated", "success_vs_best")
MARGIN = 0.02  # by how much success may fall, and memory still count as no worse


# Figures that compare with another arm: against which, and what of a run.
COMPARED = (
    ("net_saving", ISOLATED, "tokens"), ("usd_saving", ISOLATED, "usd"), ("saving_vs_broadcast",
    BROADCAST, "tokens"),
)  # fmt: skip


class Study:
    """Samples by scenario, cell and arm, in the order of their seeds; pairs are runs of one seed.
    `rivals` are the arms that what ships is held against.
    """

    def __init__(self, samples: Iterable[Sample], rivals: Collection[str] = ()) -> None:
        self.rivals = rivals
        self._best: dict[tuple[str, str, str], str | None] = {}
        self.cells: dict[Key, list[Sample]] = {}
        for sample in samples:
            self.cells.setdefault((sample.scenario, sample.name, sample.arm), []).append(sample)
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
        return list(dict.fromkeys(cell for which, cell, _ in self.cells if which == scenario))

    def base(self, scenario: str) -> str:
        """Return the cell that the others vary: the first; empty where it is the scenario's own
        parameters.
        """
        return next(iter(self.names(scenario)), "")

    def arms(self, scenario: str, cell: str | None = None) -> list[str]:
        chosen = self.base(scenario) if cell is None else cell
        return [arm for which, key, arm in self.cells if (which, key) == (scenario, chosen)]

    def of(self, scenario: str, arm: str, cell: str | None = None) -> list[Sample]:
        """Return the runs of an arm in a cell. Where a cell differs from the first only in what
        memory is to agents, isolated ones were not played again: those of the first stand for them.
        """
        base = self.base(scenario)
        chosen = base if cell is None else cell
        if (
            arm == ISOLATED
            and (scenario, chosen, arm) not in self.cells
            and chosen in self.names(scenario)
            and self.varied(scenario, chosen) <= OF_MEMORY
        ):
            chosen = base
        return self.cells.get((scenario, chosen, arm), [])

    def varied(self, scenario: str, cell: str) -> set[str]:
        """Return the parameters in which a cell differs from the one that it varies."""
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
        """Return the runs of both arms that have the same seed, and took any tokens."""
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

    def figures(self, scenario: str, arm: str, cell: str | None = None) -> dict[str, Interval]:
        """Return every figure of an arm in a cell, with its interval."""
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
        figures = {name: statistics.interval(item) for name, item in sorted(values.items())}
        if "success" in values:
            figures["success"] = statistics.proportion(
                round(sum(values["success"])), len(values["success"])
            )
        done = [float(item.done) for item in group]
        for name, label in (("tokens_per_success", "tokens"), ("usd_per_success", "usd")):
            if name in figures and "usd" in values:
                figures[name] = ratio(values[label], done)
        for name, against, label in COMPARED:
            if name in figures:
                figures[name] = self.saving(scenario, arm, against, cell, label)
        for unit, name in BEST.items():
            if name in figures:
                pairs = self.pairs(scenario, arm, self.best(scenario, unit, cell) or "", cell)
                own, theirs = zip(
                    *((_spent(one, unit), _spent(two, unit)) for one, two in pairs), strict=True
                )
                figures[name] = statistics.saving(own, theirs)
        return {name: item for name, item in figures.items() if math.isfinite(item.value)}

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
            for one, two in self.pairs(scenario, arm, self.best(scenario, unit, cell) or "", cell):
                if _spent(two, unit):
                    rows.setdefault(one.seed, {})[name] = 1 - _spent(one, unit) / _spent(two, unit)
        for name, against in zip(SUCCESS, (ISOLATED, self.ablest(scenario, cell)), strict=True):
            for one, two in self.pairs(scenario, arm, against or "", cell):
                if "task_success" in one.figures:
                    rows.setdefault(one.seed, {})[name] = _done(one) - _done(two)
        return rows

    def rows(self, scenario: str, arm: str, cell: str | None = None) -> list[dict[str, float]]:
        """Return the figures of each run, with those that need another arm of its seed."""
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
            | metrics.beside(sample.tally, *(tally.get(sample.seed) for tally in tallies))
            | against.get(sample.seed, {})
            for sample in self.of(scenario, arm, cell)
        ]

    def saving(
        self, scenario: str, arm: str, other: str, cell: str | None = None, what: str = "tokens"
    ) -> Interval:
        """Return 1 - T ÷ T of the other arm, or $ ÷ $ (`what`: usd), by the geometric mean over
        pairs.
        """
        pairs = self.pairs(scenario, arm, other, cell)
        own, theirs = zip(*((one.tally[what], two.tally[what]) for one, two in pairs), strict=True)
        return statistics.saving(own, theirs)


def _done(sample: Sample) -> float:
    return sample.figures.get("task_success", 0.0)


def _spent(sample: Sample, unit: str) -> float:
    return sample.tally["tokens"] if unit == "tokens" else sample.figures.get(unit, 0.0)
