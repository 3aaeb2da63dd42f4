"""The shipped scenarios, each with a few seeds: what they promise holds, and what is known to be
missed is missed.
"""

import pytest

from scenarios.data.files import library, load
from scenarios.data.ledger import cell_name
from scenarios.data.schema import cells
from scenarios.measure import findings
from scenarios.measure.study import Study
from scenarios.play import batch
from scenarios.play.arms.arm import RIVAL
from scenarios.play.arms.catalog import ARMS
from scenarios.report import report
from scenarios.report.plan import BASE, available

LONG = {"crash_resume", "defrag_30_days"}  # played by tests of their own
RUNS = 1
# Those that every run plays beside all rivals and in all cells; the others without them. The soak
# plays all of all.
WHOLE = ("contradictory_authority_wrong", "landing_pages")
# What is missed at present, as the report says too. Nothing is tuned to a gate: but for a stronger
# rival, this list can only become shorter.
KNOWN: dict[str, set[str]] = {
    "blocker_escalation": {
        "blockers_resolved == 1"  # with some seeds: a run settles its own
    },
    "context_explosion": {  # beside a grep at the start
        "usd_vs_best >= 0.15",
        "saving_vs_best[agents=ideal] >= 0.12",
    },
    "landing_pages": {
        "co_memory <= 0.05"  # with what the system text says of the memory, which is most of it
    },
    "plausible_noise": {"net_saving >= -0.03", "net_saving[agents=ideal] >= -0.03"},
    "poisoned_memory": {
        "saving_vs_best >= -0.03"  # with some seeds: somebody believes a lie
    },
    "redundant_discovery": {
        "saving_vs_best >= 0.2",
        "usd_vs_best >= 0.15",
        "saving_vs_best[agents=ideal] >= 0.12",
    },
    "stale_authority": {"saving_vs_best >= -0.03"},
    "telephone": {"saving_vs_best[agents=ideal] >= -0.03"},
}
# What is missed by the chance of the first seed alone: with six seeds these gates are met.
CHANCE: dict[str, set[str]] = {
    "api_migration_wake": {
        "saving_vs_best >= 0.2",
        "usd_vs_best >= 0.15",
        "saving_vs_best[agents=ideal] >= 0.12",
    },
    "blocker_escalation": {"saving_vs_best[agents=ideal] >= -0.03"},
    "landing_pages": {"saving_vs_best >= -0.03", "saving_vs_best[agents=ideal] >= -0.03"},
}


def missed(name, whole=True):
    """Return the gates that what ships misses, beside the isolated arm and all rivals, in the cells
    that gates are about; if not whole, in the first cell without rivals, of the gates of that one.
    """
    scenario = load(library()[name])
    thresholds = report.thresholds_of(scenario)
    if not whole:
        thresholds = [
            each
            for each in thresholds
            if not each.cell and not each.metric.endswith(("_vs_best", "_vs_broadcast"))
        ]
    named = {gate.cell for gate in scenario.gates if whole}
    arms = [
        arm
        for arm in available(scenario)
        if arm in (BASE, scenario.gated) or (whole and ARMS[arm].kind == RIVAL)
    ]
    places = [cell for cell in cells(scenario) if cell_name(cell) in named]
    orders = [
        batch.Order(name, arm, scenario.seed + n, tuple(cell.items()))
        for cell in ({}, *places)
        for arm in (arms if set(cell) <= {"agents"} else (BASE, scenario.gated))
        for n in range(RUNS)
    ]
    study = Study((made.sample for made in batch.played(orders)), report.RIVALS)
    verdicts = findings.build_findings(study, thresholds).verdicts
    assert len(verdicts) == len(thresholds) > 0
    return {each["gate"] for each in verdicts if not each["met"]}


@pytest.mark.parametrize("name", sorted({*library()} - LONG))
def test_the_gates_of_a_scenario_are_met(name):
    found = missed(name, whole=name in WHOLE)
    assert found <= KNOWN.get(name, set()) | CHANCE.get(name, set())


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted({*library()} - LONG - {*WHOLE}))
def test_the_gates_of_every_scenario_are_met_beside_all_rivals(name):
    assert missed(name) <= KNOWN.get(name, set()) | CHANCE.get(name, set())


@pytest.mark.parametrize("name", library())
def test_every_gate_is_about_what_ships(name):
    scenario = load(library()[name])
    assert scenario.gated in ("shipped", "nightly")
    assert {each.arm for each in report.thresholds_of(scenario)} == {scenario.gated}


@pytest.mark.parametrize("name", sorted({*library()} - LONG))
def test_savings_are_asked_for_after_recall_and_success(name):
    gates = load(library()[name]).gates
    for place, gate in enumerate(gates):
        if gate.metric in findings.SAVINGS and gate.op == ">=" and name != "sequential_single":
            assert any(each.metric in findings.FIRST for each in gates[:place])
