"""The first line of a ledger: what is played, and how it is counted. `harness` and `nightly_runs`
note it; the line of `crashes` has its prices from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenarios.data import ledger
from scenarios.data.schema import Scenario
from scenarios.measure import dollars
from synapse.system.tokens import DEFAULT

PRICES = dollars.in_ledger()


def fields(
    scenario: Scenario,
    arm: str,
    seed: int,
    roster: Sequence[dict[str, Any]] = (),
    tasks: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the fields of the line, in their order."""
    return {
        "format": ledger.FORMAT,
        "scenario": scenario.id,
        "digest": scenario.digest,
        "arm": arm,
        "seed": seed,
        "cell": dict(scenario.cell),
        "encoding": DEFAULT,
        "counting": "exact",
        "gated": arm == scenario.gated,
        "roster": [*roster],
        "tasks": [*tasks],
        "facts": [fact.id for fact in scenario.facts],
        "prices": PRICES,
    }
