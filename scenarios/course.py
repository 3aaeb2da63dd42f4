"""What is played of a scenario: which arms, in which cells, under which seeds. Plays nothing.

The scenario's own parameters are played by every arm; so often as the scenario says by the arm that is gated, the
isolated one and those that a gate names, the others less often. Each cell of its grid is played by the
gated, the isolated and the named ones, and where the team's size differs by broadcast and the manager too. Where
nothing differs but what the memory is to an agent, isolated agents would do the very same once more: they are not
played again, and the cell is held against the isolated runs of the scenario's own parameters, seed by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from scenarios.arms import ARMS
from scenarios.batch import Order
from scenarios.reading import BrokenScenario, load
from scenarios.schema import OF_MEMORY, Scenario

BASE, BROADCAST = "isolated", "broadcast"
COMPARED = (BROADCAST, "manager")  # how these grow with a team is what the others are held against
LESS = 10  # runs in a cell of the grid, and of the other arms, where there is no --full


def cells(scenario: Scenario) -> list[dict[str, Any]]:
    """The cells of its grid, in which something differs from the scenario's own parameters; each once."""
    found: list[dict[str, Any]] = []
    for axis in scenario.grid:
        for values in product(*(_listed(each) for each in axis.values())):
            cell = {name: value for name, value in zip(axis, values, strict=True) if scenario.params[name] != value}
            if cell and cell not in found:
                found.append(cell)
    return found


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def planned(
    text: str,
    name: str,
    arms: Sequence[str] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    cell: Mapping[str, Any] | None = None,
    *,
    grid: bool = True,
    full: bool = False,
) -> Iterator[Order]:
    """The runs of a scenario's text. Arms that cannot run are left out: `missing` says why."""
    own = dict(cell or {})
    scenario = load(text, own)
    chosen = available(scenario, arms)
    first, most = scenario.seed if seed is None else seed, runs or (scenario.full if full else scenario.runs)
    for arm in chosen:
        times = most if full or arm in _named(scenario) else min(most, LESS)
        yield from (Order(name, arm, first + n, tuple(own.items())) for n in range(times))
    for each in cells(scenario) if grid else ():
        there = own | each
        least = most if full else min(most, LESS)
        for arm in _in_cell(scenario, load(text, there), each, chosen):
            yield from (Order(name, arm, first + n, tuple(there.items())) for n in range(least))


def _in_cell(scenario: Scenario, changed: Scenario, cell: Mapping[str, Any], arms: Sequence[str]) -> list[str]:
    named = _named(scenario)
    if len(cell) == 1 and len(changed.agents) != len(scenario.agents):
        named |= set(COMPARED)
    if same_alone(scenario, changed, cell):
        named.discard(BASE)
    return [arm for arm in arms if arm in named]


def same_alone(scenario: Scenario, changed: Scenario, cell: Mapping[str, Any]) -> bool:
    """Whether isolated agents do the very same in this cell."""
    return cell.keys() <= OF_MEMORY and changed._replace(params=scenario.params, cell=scenario.cell) == scenario


def _named(scenario: Scenario) -> set[str | None]:
    return {gate.arm for gate in scenario.gates} | {scenario.gated, BASE}


def available(scenario: Scenario, arms: Sequence[str] | None = None) -> list[str]:
    """Those of the arms that the scenario has and that can run."""
    for arm in arms or ():
        if arm not in ARMS:
            raise BrokenScenario(f"there is no arm {arm}; there are {', '.join(ARMS)}")
    chosen = [arm for arm in scenario.arms if arms is None or arm in arms]
    if not chosen:
        raise BrokenScenario(f"{scenario.id}: has none of {', '.join(arms or ())}, but {', '.join(scenario.arms)}")
    return [arm for arm in chosen if ARMS[arm].missing() is None]


def missing(arms: Iterable[str]) -> dict[str, str]:
    """Which arms cannot run, and why."""
    return {arm: why for arm in arms if arm in ARMS and (why := ARMS[arm].missing())}
