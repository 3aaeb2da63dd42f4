"""News over a bell that loses rings and tells things twice: everybody hears, once, and sooner than
without a bell.
"""

import pytest

from orchestrator.sessions.session import Session
from scenarios.data import files
from scenarios.measure import metrics
from scenarios.play.harness import Counts, play

SEEDS = range(21, 25)
# whoever takes in what it was told acts on it: what is left is the bell's
IDEAL = {"agents": "ideal"}
CELLS = {"none": {}, "whole": {"bell_lost": 0.0}, "lossy": {"bell_lost": 0.5, "told_twice": 0.5}}


@pytest.fixture(scope="module")
def heard():
    count = Counts()

    def figures(cell):
        scenario = files.load(files.find("api_migration_wake"), IDEAL | CELLS[cell])
        found = [metrics.measured(play(scenario, "view", seed, count)) for seed in SEEDS]
        return {name: sum(each.get(name, 0) for each in found) / len(found) for name in found[0]}

    return figures


def test_what_is_lost_on_the_way_is_found_by_looking(heard):
    found = {cell: heard(cell) for cell in CELLS}
    for each in found.values():
        assert (each["wake_delivery"], each["stale_after_delivery"], each["task_success"]) == (
            1,
            0,
            1,
        )
        assert (each["wake_turns"], each["wake_duplicates"]) == (1, 0)
    assert (
        found["whole"]["wake_latency"]
        < found["lossy"]["wake_latency"]
        < found["none"]["wake_latency"]
    )


def test_a_session_that_believes_all_that_is_delivered_is_found_out(heard, monkeypatch):
    def believes(self, news):
        self.inbox[news.entry.id] = news
        self.interrupt.set()

    monkeypatch.setattr(Session, "offer", believes)
    assert heard("none")["wake_duplicates"] == 0
    assert heard("lossy")["wake_duplicates"] > 0


def test_a_line_with_faults_is_the_same_twice():
    scenario = files.load(files.find("api_migration_wake"), CELLS["lossy"])
    assert (
        play(scenario, "view", 21, Counts()).events == play(scenario, "view", 21, Counts()).events
    )
