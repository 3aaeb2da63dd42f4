"""The shipped scenarios, each with a few seeds: what they promise holds, and what is known to be missed is missed."""

import io

import pytest

from scenarios import running
from scenarios.course import available
from scenarios.reading import library, load

LONG = {"crash_resume", "defrag_30_days"}  # played by tests of their own
KNOWN = {
    "redundant_discovery": {"net_saving >= 0.5"},  # with 20 agents, on average, too little by two points
    "landing_pages": {"co_memory < 0.05"},  # what the system text says of the memory counts, and is most of it
}


@pytest.mark.parametrize("name", sorted({*library()} - LONG))
def test_the_gates_of_a_scenario_are_met(name, tmp_path):
    scenario = load(library()[name])
    arms = {scenario.gated, "isolated", *(gate.arm for gate in scenario.gates if gate.arm)} & {*available(scenario)}
    wanted = running.Wanted([name], sorted(arms), runs=3, grid=False)
    made = running.play(wanted, str(tmp_path), 1, io.StringIO())
    missed = {verdict["gate"] for verdict in made.table["verdicts"] if not verdict["met"]}
    assert missed <= KNOWN.get(name, set())
