"""Dollars, computed by hand."""

import pytest

from scenarios.data.ledger import Run
from scenarios.measure import dollars
from scenarios.measure.dollars import Cost

BEGIN = {
    "kind": "begin",
    "t": 0,
    "arm": "view",
    "seed": 1,
    "cell": {},
    "scenario": "s",
    "prices": dollars.in_ledger(),
}


def call(step, t, sent, said, run="a-1"):
    """A prompt of so many tokens, and its reply two seconds later."""
    about = {"run": run, "agent": "a", "step": step}
    yield {
        "kind": "prompt",
        "t": t,
        **about,
        "segments": [["system", 10, 0], ["task", sent - 10, 1]],
    }
    yield {
        "kind": "completion",
        "t": t + 2_000,
        **about,
        "segments": [["work_out", said]],
        "interrupted": False,
    }


def run_of(*events, **more):
    begin = BEGIN | more
    return Run(
        [begin, *events, {"kind": "finish", "t": 1_000_000, "elapsed": 0, "tasks": 0, "ok": 0}]
    )


EVENTS = [
    *call(1, 0, 1_000, 100),  # shorter than any cache takes
    *call(2, 10_000, 2_000, 50),  # all of it is written
    *call(3, 309_000, 2_600, 50),  # 299 s later: 2,000 are read, 600 written
    *call(4, 610_000, 3_000, 0),  # 301 s later: the entry is gone, 3,000 are written
    *call(1, 612_000, 2_000, 10, "b-1"),  # another run has a cache of its own
]
COSTS = [
    Cost(0, 0, 1_000, 100), Cost(0, 2_000, 0, 50), Cost(2_000, 600, 0, 50), Cost(0, 3_000, 0, 0),
    Cost(0, 2_000, 0, 10),
]  # fmt: skip


@pytest.mark.parametrize("name", dollars.MODELS)
def test_a_cache_is_written_read_and_forgotten(name):
    assert [cost for _, cost in dollars.calls(EVENTS, dollars.MODELS[name])] == COSTS


def test_a_run_costs_what_it_costs_by_hand():
    found = dollars.spent(run_of(*EVENTS))
    said, read, written, fresh = 210 * 15, 2_000 * 0.3, 7_600, 1_000 * 3
    assert found == {
        "usd": pytest.approx((said + read + written * 3.75 + fresh) / 1e6),
        "usd_automatic": pytest.approx((said + read + written * 3 + fresh) / 1e6),
    }


def test_what_has_no_conversation_costs_too():
    relay = {
        "kind": "relay",
        "t": 0,
        "agent": "a",
        "read": 1_000,
        "wrote": 100,
        "kept": [],
        "lost": [],
        "changed": [],
    }
    night = {"kind": "consolidate", "t": 0, "tokens": 10_000}
    assert dollars.spent(run_of(relay, night))["usd"] == pytest.approx(
        (1_000 * 3 + 100 * 15 + 10_000 * 3) / 1e6
    )


def test_the_price_list_of_the_ledger_counts():
    dearer = dollars.in_ledger()
    dearer["explicit"] = dearer["explicit"] | {"output": 30.0}
    before, after = (
        dollars.spent(run_of(*EVENTS, prices=each)) for each in (dollars.in_ledger(), dearer)
    )
    assert after["usd"] - before["usd"] == pytest.approx(210 * 15 / 1e6)
    assert after["usd_automatic"] == before["usd_automatic"]


def test_each_completion_says_what_it_cost():
    events = [dict(event) for event in EVENTS]
    dollars.book(events)
    told = [event for event in events if event["kind"] == "completion"]
    assert [(event["cached"], event["written"]) for event in told] == [
        (cost.read, cost.written) for cost in COSTS
    ]
    assert sum(event["cost"] for event in told) == pytest.approx(
        dollars.spent(run_of(*EVENTS))["usd"]
    )


def test_of_a_real_model_the_providers_word_counts():
    events = [event | {"cost": 0.25} for event in EVENTS if event["kind"] == "completion"]
    assert dollars.spent(run_of(*events, engine="anthropic")) == {"usd": 1.25}
