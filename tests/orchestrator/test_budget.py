"""The budget: what is planned stays below its share of the work, over any history of runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.budget import (
    CAPSULE,
    CRITICALS,
    LEAST,
    MOST,
    SHARE,
    Expected,
    Past,
    expected,
    past,
    plan,
    spare,
    stated,
)
from orchestrator.ledger import Line, Segment
from synapse.errors import InvalidQuery

SCHEMA = 250
runs = st.lists(
    st.builds(
        Past, st.integers(500, 2_000_000), st.integers(1, 60), st.integers(0, 500), st.none() | st.integers(0, 4)
    ),
    min_size=1,
    max_size=60,
)


def test_before_there_is_a_history_the_expectation_is_stated():
    found = plan(expected("engineer", []), SCHEMA)
    assert expected("engineer", []) == stated("engineer")
    assert (found.view, found.only_critical, found.tools) == (385, False, False)
    assert found.share < SHARE
    assert found.why == (
        "385 tokens, no memory tools; about 4.0% of 119,400 tokens of work in 12 turns"
        " (no history yet: the stated expectation)"
    )


@pytest.mark.parametrize(
    ("work", "turns", "view", "tools"),
    [
        (1_900, 1, CRITICALS, False),
        (11_000, 6, CRITICALS, False),
        (29_000, 6, 193, False),
        (116_000, 12, 386, False),
        (960_000, 30, 690, True),
        (4_000_000, 40, MOST, True),
    ],
)
def test_long_tasks_pay_for_more(work, turns, view, tools):
    found = plan(Expected(work, turns, 0.0, 1.0, 5), SCHEMA)
    assert (found.view, found.tools) == (view, tools)
    assert found.only_critical == (view == CRITICALS)
    assert found.share <= SHARE or found.only_critical


@given(runs, st.integers(0, 900), st.integers(0, 300), st.sampled_from(["auto", "never"]))
def test_what_is_expected_to_be_billed_stays_below_its_share(history, schema, fixed, tools):
    found = plan(expected("engineer", history), schema, fixed=fixed, tools=tools)
    assert found.share < SHARE or found.only_critical
    assert LEAST <= found.view <= MOST
    assert not (found.only_critical and found.tools)


@given(
    st.lists(st.tuples(st.integers(2_000, 900_000), st.integers(1, 40)), min_size=3, max_size=20), st.integers(0, 400)
)
def test_runs_like_those_before_keep_below_it_in_sum(shapes, schema):
    """What the plan would have cost the very runs that it was made from."""
    history = [Past(work, turns, 50, 1) for work, turns in shapes]
    found = plan(expected("engineer", history), schema)
    each = found.view + (schema + CAPSULE / 2) * found.tools
    cost = sum(each * run.turns + run.other for run in history)
    assert found.only_critical or cost < SHARE * sum(run.work for run in history)


def test_a_history_takes_the_place_of_what_was_stated():
    short = [Past(2_000, 2)] * 40
    assert expected("engineer", short) == Expected(2_000, 2, 0, 1.0, 20)
    assert expected("engineer", short[:1]).work == (2 * stated("engineer").work + 2_000) / 3
    assert plan(expected("engineer", short), SCHEMA).view == CRITICALS
    assert plan(expected("engineer", [*short, *[Past(2_000_000, 30)] * 20]), SCHEMA).tools


def test_only_runs_that_had_tools_say_how_often_they_are_used():
    history = [Past(9_000, 9), Past(9_000, 9, 0, 4), Past(9_000, 9, 0, 0)]
    assert expected("engineer", history).capsules == 2
    assert expected("engineer", history[:1]).capsules == stated("engineer").capsules


def test_a_run_without_turns_says_nothing():
    assert expected("cto", [Past(0, 0)] * 9) == stated("cto")


def test_what_is_asked_for_is_done():
    of = expected("engineer", [])
    assert plan(of, SCHEMA, view=5_000)[:3] == (5_000, False, False)
    assert plan(of, SCHEMA, view="0").view == 0
    assert plan(of, SCHEMA, tools="always").tools
    assert not plan(Expected(9_000_000, 30, 0, 1), SCHEMA, tools="never").tools
    assert "as asked for" in plan(of, view=300).why
    for view in (-1, "-1", "much"):
        with pytest.raises(InvalidQuery, match="view_budget"):
            plan(of, view=view)
    with pytest.raises(InvalidQuery, match="auto, always, never"):
        plan(of, tools="sometimes")


def test_a_ledger_becomes_history():
    sent = (Segment("task", 50), Segment("view", 5), Segment("wake", 1))
    first = Line("r", 0, "a", "m", "o200k_base", "exact", sent, (Segment("work_out", 9),))
    assert past([first, first._replace(got=(Segment("writeback", 3),))], 2) == Past(109, 2, 5, 2)


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 2_000_000)), max_size=20), st.integers(0, 400))
def test_a_tree_keeps_to_its_share_though_runs_take_what_others_left(before, schema):
    """What those that ended took, and what the next is planned to take, is below the share of all their work; unless
    they had taken more already, or only what is critical is shown."""
    left, run = spare(before), expected("engineer", [])
    found = plan(run, schema, spare=left)
    assert found.view >= plan(run, schema).view or found.tools
    billed = found.view * run.turns + run.other + (schema * run.turns + CAPSULE * run.turns / 2) * found.tools
    took, work = sum(took for took, _ in before), sum(work for _, work in before)
    if took <= SHARE * work and not found.only_critical:
        assert took + billed <= SHARE * (work + run.work)


def test_what_others_left_is_told():
    left = spare([(1_000, 200_000), (3_000, 100_000)])
    assert left == 11_000
    assert plan(stated("engineer"), spare=left).why.endswith(", beyond the 11,000 tokens that others of its tree left")
    assert spare([(9_000, 100_000)]) == 0
