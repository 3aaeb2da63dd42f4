"""Spend beside its limits: what today, each department and the whole workspace took of their
bounds.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from orchestrator.reports.rows import Source
from orchestrator.run_store.costs import budget_of
from orchestrator.runs.records import Runs
from orchestrator.spend.limits import NO_LIMITS, Amount, Limits, Policy, day_of, policy
from orchestrator.spend.reservations import Budget


class Standing(NamedTuple):
    """How a scope stands: its bounds, what was taken, what calls in flight have reserved, the runs
    begun in it and those that are alive.
    """

    scope: str
    limits: Limits
    spent: Amount
    reserved: Amount
    runs: int
    live: int


class Limited(NamedTuple):
    """The scopes that are counted today, and the bounds of each run and of each tree."""

    day: Standing
    workspace: Standing
    departments: tuple[Standing, ...]
    run: Limits
    tree: Limits


def limited(source: Source) -> Limited:
    """Return the spend of today and of the departments, beside the limits of synapse.yaml."""
    rules = policy(dict(source.store.settings.other))
    budget = _budget(source, rules)
    try:
        day = f"day:{day_of(source.now(), rules.zone)}"
        live = NO_LIMITS._replace(live=rules.day.live)
        return Limited(
            _standing(budget, day, rules.day._replace(live=None)),
            _standing(budget, "workspace", live),
            tuple(
                _standing(budget, f"department:{name}", _limits_of(name, rules))
                for name in _departments(source, rules)
            ),
            rules.run,
            rules.tree,
        )
    finally:
        budget.close()


def _budget(source: Source, rules: Policy) -> Budget:
    """Return the budget as it stands; where no run began, one that is nowhere."""
    path = os.path.join(source.root, "runs", "spend.db")
    if source.store.log.database is not None or os.path.exists(path):
        return budget_of(Runs(source.store), source.root, rules)
    return Budget(policy=rules)


def _departments(source: Source, rules: Policy) -> list[str]:
    agents = {agent.department for agent in source.store.agents.all().values()}
    return sorted({name for name in (*agents, *rules.departments) if name} - {"*"})


def _limits_of(name: str, rules: Policy) -> Limits:
    return rules.departments.get(name, rules.departments.get("*", NO_LIMITS))


def _standing(budget: Budget, scope: str, limits: Limits) -> Standing:
    return Standing(scope, limits, *budget.standing(scope))
