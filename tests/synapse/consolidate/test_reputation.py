"""Reputation, as a pure function: bounds that no deeds break, and games that win nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.consolidate.reputation import (
    ACTED,
    DAY,
    LIVED,
    PERIOD,
    SUPERSEDED,
    WORTH,
    Deed,
    Step,
    steps,
    total_move,
)
from tests.examples import examples

AGENTS = ("a", "b", "c", "puppet")

deeds = st.builds(
    Deed,
    kind=st.sampled_from((LIVED, ACTED, SUPERSEDED)),
    agent=st.sampled_from(AGENTS),
    entry=st.integers(0, 60).map(lambda n: f"syn-{n}"),
    at=st.integers(-DAY, 32 * DAY),
    by=st.sampled_from(("", *AGENTS)),
    seen_by=st.sets(st.sampled_from(AGENTS), max_size=2).map(sorted).map(tuple),
)
many = st.lists(deeds, max_size=80)


def lived(n, day=0, agent="a", **more):
    return Deed(LIVED, agent, f"syn-{agent}-{day}-{n}", day * DAY + n + 1, seen_by=("b",))._replace(
        **more
    )


def moves(found, agent="a"):
    return sum(step.move for step in found if step.deed.agent == agent)


def gains_are_bounded(found, days=30):
    """Nobody gains more than once for each day of the period."""
    gained = {
        agent: sum(step.move for step in found if step.deed.agent == agent and step.move > 0)
        for agent in AGENTS
    }
    return all(gain <= days for gain in gained.values())


def losses_are_bounded(found):
    """No two losses of an agent on one day come from one other."""
    seen = [
        (step.deed.agent, step.deed.by, (step.deed.at - 1) // DAY)
        for step in found
        if step.move < 0
    ]
    return len(seen) == len(set(seen))


def own_acts_count_nothing(found):
    return not any(step.move for step in found if step.deed.by == step.deed.agent)


def unseen_entries_count_nothing(found):
    return not any(step.move for step in found if not {*step.deed.seen_by} - {step.deed.agent})


def entries_count_once(found):
    counted = [(step.deed.agent, step.deed.entry, step.move > 0) for step in found if step.move]
    return len(counted) == len(set(counted))


RULES = (
    gains_are_bounded,
    own_acts_count_nothing,
    unseen_entries_count_nothing,
    entries_count_once,
)


@given(many)
@examples(100)
def test_no_deeds_break_a_rule(found):
    judged = steps(found, 0, PERIOD)
    assert [rule.__name__ for rule in RULES if not rule(judged)] == []
    assert losses_are_bounded(judged)
    assert all(0 < step.deed.at <= PERIOD for step in judged)
    assert all(step.why for step in judged)
    assert all(abs(step.move) <= abs(WORTH[step.deed.kind]) for step in judged)


def test_the_rules_catch_a_sum_that_forgets_them():
    found = [lived(n) for n in range(40)] + [
        Deed(ACTED, "a", "syn-x", 1, "a"),
        Deed(LIVED, "a", "syn-a-0-1", 2),
    ]
    naive = [Step(deed, WORTH[deed.kind], "counted") for deed in found]
    assert [rule.__name__ for rule in RULES if rule(naive)] == []


@given(many, st.randoms())
@examples(100)
def test_the_order_of_deeds_makes_no_difference(found, chance):
    judged = steps(found, 0, PERIOD)
    again = [*found, *found[:3]]
    chance.shuffle(again)
    assert steps(again, 0, PERIOD) == judged


@given(many, st.integers(0, 100))
@examples(100)
def test_a_standing_stays_within_its_bounds(found, standing):
    for agent in AGENTS:
        own = [step for step in steps(found, 0, PERIOD) if step.deed.agent == agent]
        after = standing + total_move(standing, own)
        assert min(standing, 10) <= after <= 100
        if 10 < after < 100:
            assert after - standing == moves(own, agent)


@given(many, many)
@examples(100)
def test_what_counted_once_never_counts_again(first, second):
    before = steps(first, 0, PERIOD)
    counted = {
        (step.deed.entry, "gain" if step.move > 0 else "loss") for step in before if step.move
    }
    after = steps([*first, *second], 0, PERIOD, counted)
    assert not [step for step in after if step.move > 0 and (step.deed.entry, "gain") in counted]
    assert not [step for step in after if step.move < 0 and (step.deed.entry, "loss") in counted]


@pytest.mark.parametrize(
    ("found", "sum"),
    [
        ([lived(1)], 1),
        ([lived(1), lived(1, 3), lived(1, 29)], 3),
        ([lived(1, by="b", kind=SUPERSEDED)], -2),
        ([lived(1, by="b", kind=ACTED)], 5),
        ([lived(1, by="b", kind=ACTED), lived(1)], 5),  # the same entry: it counts once
        ([lived(1, 29, by="b", kind=ACTED)], 5),  # whatever day it was, the period has others
        ([lived(1, by="b", kind=ACTED), lived(1, by="b", kind=SUPERSEDED)], 3),
        ([lived(n, day) for day in range(30) for n in range(9)], 30),
        ([lived(1, day) for day in range(28)] + [lived(2, 5, by="b", kind=ACTED)], 30),
        ([lived(1, -1), lived(1, 30)], 0),  # not of this period
    ],
)
def test_what_deeds_are_worth(found, sum):
    assert moves(steps(found, 0, PERIOD)) == sum


# -- games -----------------------------------------------------------------------------


def test_who_supersedes_or_confirms_itself_moves_nothing():
    for kind in (SUPERSEDED, ACTED):
        (step,) = steps([lived(1, by="a", kind=kind)], 0, PERIOD)
        assert (step.move, step.why) == (0, "its own act")


def test_what_nobody_was_shown_moves_nothing():
    for seen in ((), ("a",)):
        (step,) = steps([lived(1, seen_by=seen)], 0, PERIOD)
        assert (step.move, step.why) == (0, "nobody else was shown it")


def test_a_flood_of_trivial_entries_gains_one_a_day():
    assert moves(steps([lived(n) for n in range(5_000)], 0, PERIOD)) == 1


def test_two_puppets_gain_no_more_than_one_that_is_honest():
    found = []
    for n in range(500):
        for one, other in (("a", "puppet"), ("puppet", "a")):
            found.append(lived(n, n % 30, one, kind=ACTED, by=other, seen_by=(other,)))
            found.append(lived(1_000 + n, n % 30, one, seen_by=(other,)))
    honest = steps([lived(1, day) for day in range(30)], 0, PERIOD)
    assert (
        moves(steps(found, 0, PERIOD))
        == moves(steps(found, 0, PERIOD), "puppet")
        == moves(honest)
        == 30
    )


def test_an_adversary_costs_one_loss_a_day():
    found = [lived(n, 3, kind=SUPERSEDED, by="puppet") for n in range(100)]
    assert moves(steps(found, 0, PERIOD)) == -2
    assert moves(steps([*found, lived(1, 3, kind=SUPERSEDED, by="b")], 0, PERIOD)) == -4
