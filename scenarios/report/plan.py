"""What is played of a scenario: which arms, in which cells, under which seeds. Plays nothing.

The scenario's own parameters are played by every arm, and so is the cell with the other kind of
agents, ideal beside degraded: so often as the scenario says by what ships, the isolated one and the
rivals, the others less often. Each other cell of its grid is played by what ships and the isolated
ones, and where the team's size differs by the rivals that grow with it too. Where nothing differs
but what the memory is to an agent, isolated agents would do the very same once more: they are not
played again, and the cell is held against the isolated runs of the scenario's own parameters, seed
by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scenarios.data.files import BrokenScenario, load
from scenarios.data.schema import OF_MEMORY, Scenario, cells
from scenarios.play.arms.catalog import ARMS
from scenarios.play.batch import Order

BASE = "isolated"
# what is drawn beside it as a team grows
COMPARED = ("broadcast", "manager", "file_tail", "tool_cache")
LESS = 4  # runs in a cell of the grid, where there is no --full
FEWEST = 4  # runs of ablations and controls, where there is no --full


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
    """Yield the runs of a scenario. Arms that cannot run are left out: `missing` says why."""
    own = dict(cell or {})
    scenario = load(text, own)
    chosen = available(scenario, arms)
    first = scenario.seed if seed is None else seed
    most = runs or (scenario.full if full else scenario.runs)
    for arm in chosen:
        yield from (
            Order(name, arm, first + n, tuple(own.items())) for n in range(_times(arm, most, full))
        )
    for each in cells(scenario) if grid else ():
        combined = own | each
        least = most if full or "agents" in each else min(most, LESS)
        for arm in _in_cell(scenario, load(text, combined), each, chosen):
            yield from (
                Order(name, arm, first + n, tuple(combined.items()))
                for n in range(_times(arm, least, full))
            )


def _times(arm: str, most: int, full: bool) -> int:
    """Return how many runs of an arm there are, where what is judged has so many."""
    judged = full or arm == BASE or ARMS[arm].kind in ("product", "rival")
    return most if judged else min(most, FEWEST)


def _in_cell(
    scenario: Scenario, changed: Scenario, cell: Mapping[str, Any], arms: Sequence[str]
) -> list[str]:
    if set(cell) == {"agents"}:
        return list(arms)
    arms_named = {scenario.gated, BASE}
    if len(cell) == 1 and len(changed.agents) != len(scenario.agents):
        arms_named |= set(COMPARED)
    if same_alone(scenario, changed, cell):
        arms_named.discard(BASE)
    return [arm for arm in arms if arm in arms_named]


def same_alone(scenario: Scenario, changed: Scenario, cell: Mapping[str, Any]) -> bool:
    """Return whether isolated agents do exactly the same in this cell."""
    return (
        cell.keys() <= OF_MEMORY
        and changed._replace(params=scenario.params, cell=scenario.cell) == scenario
    )


def available(scenario: Scenario, arms: Sequence[str] | None = None) -> list[str]:
    """Return the arms that the scenario has and that can run."""
    for arm in arms or ():
        if arm not in ARMS:
            raise BrokenScenario(f"there is no arm {arm}; there are {', '.join(ARMS)}")
    chosen = [arm for arm in scenario.arms if arms is None or arm in arms]
    if not chosen:
        raise BrokenScenario(
            f"{scenario.id}: has none of {', '.join(arms or ())}, but {', '.join(scenario.arms)}"
        )
    return [arm for arm in chosen if ARMS[arm].missing() is None]


def missing(arms: Iterable[str]) -> dict[str, str]:
    """Return the arms that cannot run, each with its reason."""
    return {arm: why for arm in arms if arm in ARMS and (why := ARMS[arm].missing())}
