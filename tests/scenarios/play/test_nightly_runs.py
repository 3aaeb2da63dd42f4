"""A month, played short: what nights keep, and that it is the same every time."""

import importlib
from datetime import datetime, timedelta
from functools import cache

import pytest

from orchestrator.nightly import schedule
from scenarios.data import files
from scenarios.measure import metrics
from scenarios.play import nightly_runs
from scenarios.play.harness import Counts
from synapse.model.records import Guard

DAYS = 20  # to the day after the clocks change
GAP = "2026-03-29"


def play(arm, days=DAYS):
    return nightly_runs.play(
        files.load(files.find("defrag_30_days"), {"days": days}), arm, 91, Counts()
    )


@pytest.fixture(scope="module")
def month():
    return cache(play)


@pytest.fixture(scope="module")
def found(month):
    return lambda arm: metrics.measured(month(arm))


def test_a_month_is_the_same_twice(month):
    assert play("nightly").events == month("nightly").events


def test_nights_lose_nothing(found):
    assert found("nightly")["fact_retention"] >= 0.98
    assert found("nightly")["probe.reachable"] == 1 > found("off")["probe.reachable"]
    for name in ("probe.answered", "probe.rebuilt"):
        assert found("nightly")[name] == 1
    assert found("nightly")["probe.retold"] == found("nightly")["probe.second_night.acts"] == 0


def test_a_night_is_missed_and_made_up_for(month):
    run = month("nightly")
    days = [day for day in range(1, DAYS + 1) if day != nightly_runs.MISSED]
    assert [event["night"] for event in run.of("consolidate")] == days


def test_nights_go_by_local_dates_also_where_the_clocks_change(month, found):
    run = month("nightly")
    start = datetime.fromisoformat("2026-03-10T09:00:00Z")
    begun = {
        event["date"]: start + timedelta(milliseconds=event["t"]) for event in run.of("consolidate")
    }
    died = str(start.date() + timedelta(nightly_runs.DIED))
    assert all(
        at.strftime("%H:%M") == "01:30" for on, at in begun.items() if on < GAP and on != died
    )
    assert begun[GAP].strftime("%H:%M") == "01:00"
    assert begun["2026-03-30"].strftime("%H:%M") == "00:30"
    assert [on for on, at in begun.items() if on != str(at.date())] == []
    kept = {
        name: found("nightly")[f"probe.nights.{name}"] for name in ("dates", "on_time", "after_gap")
    }
    assert kept == {"dates": DAYS - 1, "on_time": DAYS - 2, "after_gap": 1}


def test_nights_that_know_no_summer_time_are_found_out(monkeypatch):
    def in_winter(at, on, zone):
        return right(at, on, schedule.UTC) - 3_600_000_000

    right = schedule.instant
    monkeypatch.setattr(schedule, "instant", in_winter)
    found = metrics.measured(play("nightly"))
    # on the next night, too, it is an hour late
    assert found["probe.nights.after_gap"] == 2


def test_a_night_that_dies_is_gone_on_with(month, found):
    run = month("nightly")
    (event,) = (event for event in run.of("consolidate") if event["night"] == nightly_runs.DIED)
    assert event["archived"] > 1
    # behind half past two in winter
    late = event["t"] / 1_000 % 86_400 - (1.5 + 24 - 9) * 3_600
    assert late >= 30 * 60  # not before its lease is over
    kept = {
        name: found("nightly")[f"probe.nights.{name}"] for name in ("gone_on", "again", "twice")
    }
    assert kept == {"gone_on": 1, "again": 0, "twice": 0}


def test_nights_that_are_run_as_often_as_one_asks_are_found_out(monkeypatch):
    module = importlib.import_module("synapse.consolidate.nightly")
    monkeypatch.setattr(
        module, "vacant", lambda key, *about: Guard(key, "vacant", lambda records: True)
    )
    found = metrics.measured(play("nightly", 3))
    assert found["probe.nights.again"] == 3


@pytest.mark.parametrize(
    ("regime", "days"),
    [("nightly", [1, 10, 14, 20, 30]), ("weekly", [7, 14, 21, 28]), ("off", [14])],
)
def test_a_month_is_asked_about_to_its_end(regime, days):
    kept = [day for day in range(1, 31) if nightly_runs.REGIMES[regime](day)]
    assert sorted(nightly_runs._asked(kept)) == days
