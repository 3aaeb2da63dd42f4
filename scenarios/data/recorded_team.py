"""A recorded team as parameters of a scenario: how much of what its agents ask for another agent
had asked before, and what a result is long. Called by `run --from`.
"""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any, NamedTuple

from scenarios.data.faults import fault
from scenarios.data.files import BrokenScenario, load
from scenarios.data.schema import Scenario, drawn_needs

SEEDS = 5
STEPS = 50  # in which an overlap is looked for


class RecordedTeam(NamedTuple):
    """The share of calls that another agent had made before, and the tokens of a result."""

    again: float
    tokens: float


def read_team(path: str) -> RecordedTeam:
    """Return the team that an audit's JSON tells of; BrokenScenario where it tells of none."""
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
    except ValueError as error:
        raise BrokenScenario(f"{path}: {fault(error)}") from error
    team = fields.get("team") if isinstance(fields, dict) else None
    values = [team.get(name) if isinstance(team, dict) else None for name in RecordedTeam._fields]
    numbers = [float(value) for value in values if isinstance(value, int | float) and value >= 0]
    if len(numbers) < len(values):
        advice = f"`orchestrator audit --json > {path}` writes one"
        raise BrokenScenario(f"{path}: is no audit: {advice}")
    return RecordedTeam(*numbers)


def parameters_of(team: RecordedTeam, text: str) -> dict[str, Any]:
    """Return the parameters with which a scenario's agents find out again as much as this team, and
    pay as much for it.
    """
    scenario = load(text)
    if "overlap" not in scenario.params or not scenario.facts:
        raise BrokenScenario(f"{scenario.id}: has no overlap that a recorded team could have")
    overlaps = [step / STEPS for step in range(STEPS + 1)]
    nearest = min(overlaps, key=lambda overlap: abs(_again(text, overlap) - team.again))
    length = fmean(fact.cost.tokens for fact in scenario.facts)
    price = team.tokens / length * scenario.params["price"]
    return {"overlap": nearest, "price": round(price, 4)}


def _again(text: str, overlap: float) -> float:
    """Return the share of needs that an earlier task of the scenario has too."""
    scenario = load(text, {"overlap": overlap})
    return fmean(_share(drawn_needs(scenario, scenario.seed + n)) for n in range(SEEDS))


def _share(scenario: Scenario) -> float:
    needs = [need for job in scenario.jobs for need in job.needs]
    return 1 - len(set(needs)) / len(needs) if needs else 0.0
