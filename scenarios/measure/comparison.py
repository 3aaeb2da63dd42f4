"""The product beside its rivals, on the same seeds: the figures that a report begins with. Pure.

Which rival is the best, `Study.best` says: the one that takes least of those that do as many tasks
right as the product. Everything is paired by seed, and only seeds that the product and all of its
rivals were played with count. A cell counts where nothing but the kind of agents differs, ideal or
degraded, from the scenario's own parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from scenarios.data.schema import DEGRADED, IDEAL, PARAMETERS, agents_as
from scenarios.measure import statistics
from scenarios.measure.findings import Table, interval_fields, rounded
from scenarios.measure.samples import Sample
from scenarios.measure.statistics import Interval
from scenarios.measure.study import MARGIN, Study

PRODUCT, RIVAL = "product", "rival"
# that stand beside tokens, dollars and success
FIGURES = ("redundancy", "needed_recall", "co_task", "co_memory")


def table(study: Study, scenarios: Mapping[str, Table]) -> list[Table]:
    """Return a row for each scenario and cell in which the product met a rival; degraded agents
    first.
    """
    rows = []
    for scenario in study.scenarios:
        kinds = scenarios[scenario].get("kinds", {})
        params = scenarios[scenario]["params"]
        for cell in _cells(study, scenario):
            row = _row(study, scenario, cell, kinds, params)
            if row is not None:
                rows.append(row)
    return sorted(
        rows, key=lambda row: (study.scenarios.index(row["scenario"]), row["agents"] != DEGRADED)
    )


def imperfect(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return in what agents of these parameters are not ideal."""
    names = [
        name for name, one in PARAMETERS.items() if one.degraded is not None or name == "claims"
    ]
    return {
        name: params[name]
        for name in names
        if name in params and params[name] != PARAMETERS[name].value
    }


def _cells(study: Study, scenario: str) -> list[str]:
    """Return the first cell, and those that differ from it in nothing but the agents."""
    base = study.base(scenario)
    cells = [cell for cell in study.names(scenario) if cell != base]
    return [base, *(cell for cell in cells if study.varied(scenario, cell) <= {"agents"})]


def _row(
    study: Study, scenario: str, cell: str, kinds: Mapping[str, str], params: Mapping[str, Any]
) -> Table | None:
    arms = [arm for arm in study.arms(scenario, cell) if study.of(scenario, arm, cell)]
    product = next((arm for arm in arms if kinds.get(arm) == PRODUCT), None)
    rivals = [arm for arm in arms if kinds.get(arm) == RIVAL]
    if product is None or not rivals:
        return None
    runs = _same_seeds(study, scenario, cell, [product, *rivals])
    if not runs[product]:
        return None
    chosen = dict(runs[product][0].cell)
    agents = agents_as(str(chosen["agents"])) if "agents" in chosen else {}
    lacks = imperfect({**params, **agents, **chosen})
    bars = {arm: _bar(group) for arm, group in runs.items()}
    comparisons = {arm: _beside(runs[product], runs[arm]) for arm in rivals}
    figures = study.figures(scenario, product, cell)
    return {
        "scenario": scenario,
        "cell": cell,
        "agents": DEGRADED if lacks else IDEAL,
        "lacks": lacks,
        "product": product,
        "n": len(runs[product]),
        "bars": bars,
        "beside": comparisons,
        "best": study.best(scenario, "tokens", cell),
        "best_usd": study.best(scenario, "usd", cell),
        "figures": {name: interval_fields(figures[name]) for name in FIGURES if name in figures},
        "runs": {
            name: _range(runs[product], name)
            for name in ("co_task", "co_memory")
            if name in figures
        },
    }


def _same_seeds(
    study: Study, scenario: str, cell: str, arms: Sequence[str]
) -> dict[str, list[Sample]]:
    """Return the runs of each arm, of those seeds that all of them have."""
    runs = {
        arm: {run.seed: run for run in study.of(scenario, arm, cell) if run.tally["tokens"]}
        for arm in arms
    }
    seeds = sorted(set.intersection(*(set(group) for group in runs.values())))
    return {arm: [group[seed] for seed in seeds] for arm, group in runs.items()}


def _bar(runs: Sequence[Sample]) -> Table:
    values = {
        unit: interval_fields(statistics.interval([run.tally.get(unit, 0.0) for run in runs]))
        for unit in ("tokens", "usd")
    }
    return {**values, "success": rounded(fmean(_success(run) for run in runs))}


def _beside(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Table:
    """Return what the product saves beside a rival, and whether it does as many tasks right."""
    success = statistics.non_inferior(
        list(map(_success, ours)), list(map(_success, theirs)), MARGIN
    )
    return {
        "tokens": _saving(ours, theirs, "tokens"),
        "usd": _saving(ours, theirs, "usd"),
        "success_difference": rounded(success.difference),
        "success_lo": rounded(success.lo),
        "no_worse": success.holds,
    }


def _saving(ours: Sequence[Sample], theirs: Sequence[Sample], what: str) -> Table:
    pairs = [
        (one.tally.get(what, 0.0), two.tally.get(what, 0.0))
        for one, two in zip(ours, theirs, strict=True)
    ]
    paid = [pair for pair in pairs if all(pair)]
    if not paid:
        return interval_fields(Interval(0.0, 0.0, 0.0))
    own, other = zip(*paid, strict=True)
    return interval_fields(statistics.saving(own, other))


def _success(run: Sample) -> float:
    return run.figures.get("task_success", 0.0)


def _range(runs: Sequence[Sample], name: str) -> Table:
    values = [run.figures[name] for run in runs if name in run.figures]
    return {"least": rounded(min(values)), "most": rounded(max(values))}
