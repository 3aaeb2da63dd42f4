"""A month, played short: what nights keep, and that it is the same every time."""

import pytest

from scenarios import ledger, metrics, nights, reading
from scenarios.harness import counter


@pytest.fixture(scope="module")
def month():
    scenario, count = reading.load(reading.find("defrag_30_days"), {"days": 16}), counter()
    return lambda arm, seed=91: nights.play(scenario, arm, seed, count)


def test_a_month_is_the_same_twice(month):
    assert month("nightly") == month("nightly")


def test_nights_lose_nothing(month):
    found = {arm: metrics.measured(next(ledger.runs(month(arm)))) for arm in ("off", "nightly")}
    assert found["nightly"]["fact_retention"] >= 0.98
    assert found["nightly"]["probe.reachable"] == 1 > found["off"]["probe.reachable"]
    for name in ("probe.answered", "probe.rebuilt"):
        assert found["nightly"][name] == 1
    assert found["nightly"]["probe.retold"] == found["nightly"]["probe.second_night.acts"] == 0


def test_a_night_is_missed_and_made_up_for(month):
    run = next(ledger.runs(month("nightly")))
    assert [event["night"] for event in run.of("consolidate")] == [day for day in range(1, 17) if day != nights.MISSED]
