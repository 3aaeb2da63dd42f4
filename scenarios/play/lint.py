"""What is wrong with a scenario before it is played: what cannot be read, what leaks, gates about
no figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from scenarios.data.files import find, load
from scenarios.data.ledger import cell_name
from scenarios.data.schema import Scenario, cells, drawn_needs
from scenarios.measure.meanings import meaning
from scenarios.play.arms.catalog import ARMS
from scenarios.play.world.truth import Leak, Truth, steps_of, texts

SEEDS = 20  # for which it is looked whether a value stands where nobody should find it


def example(id: str) -> str:
    """Return the text of a new scenario, with everything explained."""
    text = (resources.files("scenarios.data") / "example.yaml").read_text(encoding="utf-8")
    return text.replace("id: my_scenario", f"id: {id}")


def problems(named: str) -> Iterator[str]:
    """Yield the problems of a readable scenario; raise BrokenScenario for others."""
    scenario = load(find(named))
    yield from (f"there is no arm {arm}" for arm in scenario.arms if arm not in ARMS)
    names = [cell_name(cell) for cell in cells(scenario)]
    for gate in scenario.gates:
        try:
            meaning(gate.metric)
        except KeyError:
            yield f"gates: {gate.metric} is no figure"
        if gate.cell and gate.cell not in names:
            yield f"gates: {gate.text}: {gate.cell} is no cell of the grid"
    yield from _leaks(scenario)


def _leaks(scenario: Scenario) -> Iterator[str]:
    for seed in range(scenario.seed, scenario.seed + SEEDS):
        drawn = drawn_needs(scenario, seed)
        truth = Truth(drawn, seed)
        try:
            truth.lint(texts(drawn, steps_of(drawn, seed), truth))
        except Leak as leak:
            yield f"seed {seed}: {leak}"
