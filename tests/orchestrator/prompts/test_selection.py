"""The plan of a prompt's beginning: what is expected of a run, what an entry is worth in it, what a
run used.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engines.protocol import Call, Turn
from orchestrator.prompts.selection import (
    CHANCES,
    CRITICALS,
    DOUBT,
    FIND_TOKENS,
    FIND_TURNS,
    LEAST,
    MOST,
    Expected,
    Past,
    expected,
    number,
    offers,
    past,
    reason,
    stated,
    uses,
    worth,
)
from orchestrator.runs.files.ledger import Line, Segment
from synapse.errors import InvalidQuery
from synapse.model.worth import IMPORTANT, KINDS, NAMED, NEAR
from synapse.view.view import Included, LeftOut, View
from tests.examples import examples

ROLES = ("cto", "project-lead", "engineer", "specialist", "qa", "one-of-our-own")
runs = st.lists(
    st.builds(
        Past,
        st.integers(500, 2_000_000),
        st.integers(1, 60),
        st.integers(0, 500),
        st.none() | st.integers(0, 4),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("role", ROLES)
def test_what_is_stated_is_real_work(role):
    before = stated(role)
    assert 12 <= before.turns <= 60
    assert 100_000 <= before.work <= 1_000_000
    assert expected(role, []) == before
    assert set(before.chances) == set(KINDS)


def test_an_entry_is_worth_the_turns_in_which_it_would_be_found_out():
    by = worth(Expected(400_000, 20, CHANCES))
    assert by.price == 20, "a token of the view is sent at each turn"
    assert by.saving == FIND_TURNS * 20_000 + FIND_TOKENS * 10
    assert by.pays_up_to(0.1) == by.saving * 0.1 / 20
    assert (by.criticals, by.most, by.least) == (CRITICALS, MOST, LEAST)
    assert worth(Expected(400_000, 20, CHANCES), 1 / 1.25).criticals == CRITICALS * 4 // 5, (
        "in our tokens"
    )


@given(runs)
@examples(100)
def test_no_history_lowers_what_is_kept_for_criticals(history):
    assert worth(expected("engineer", history)).criticals == CRITICALS


def test_a_history_takes_the_place_of_what_was_stated():
    short = [Past(2_000, 2)] * 40
    assert expected("engineer", short)[:2] == (2_000, 2)
    assert expected("engineer", short).runs == 20
    assert expected("engineer", short[:1]).work == (2 * stated("engineer").work + 2_000) / 3


def test_a_run_without_turns_says_nothing():
    assert expected("cto", [Past(0, 0)] * 9) == stated("cto")


def test_chances_are_learned_from_what_runs_used():
    """What was stated counts as so many entries as are named; kinds that nobody was shown stay."""
    never = [Past(100_000, 20, uses={IMPORTANT: [0, 10]})] * 3
    often = [Past(100_000, 20, uses={IMPORTANT: [9, 10]})] * 3
    low, high = expected("engineer", never).chances, expected("engineer", often).chances
    assert low[IMPORTANT] == round(CHANCES[IMPORTANT] * DOUBT / (DOUBT + 30), 4)
    assert high[IMPORTANT] == round((CHANCES[IMPORTANT] * DOUBT + 27) / (DOUBT + 30), 4)
    assert low[NAMED] == high[NAMED] == CHANCES[NAMED]


def test_what_was_used_is_told_by_what_the_agent_wrote():
    shown = [
        (NAMED, "The retry limit of service 3 is X9f31c."),
        (NAMED, "The owner key of service 7 is K77ab."),
        (NEAR, "See https://example.org/limits for more."),
        (IMPORTANT, "Nobody deploys after lunch."),
        (IMPORTANT, "The build of task-17 is red."),
        ("critical", "Use port 8443."),
    ]
    turns = [
        Turn("I set the limit to X9f31c on port 8443.", ()),
        Turn("", (Call("c", "fetch", {"url": "https://example.org/limits"}),)),
    ]
    assert uses(shown, "Do task-17.", turns) == {NAMED: [1, 2], NEAR: [1, 1]}, (
        "what has no name of its own, or only one that the task has, tells nothing"
    )


def test_a_ledger_becomes_history():
    sent = (Segment("task", 50), Segment("view", 5), Segment("wake", 1))
    first = Line("r", 0, "a", "m", "o200k_base", "exact", sent, (Segment("work_out", 9),))
    assert past([first, first._replace(got=(Segment("writeback", 3),))], 2) == Past(109, 2, 5, 2)


def test_what_is_asked_for_is_done():
    assert number("auto") is None
    assert (number(5_000), number("0")) == (5_000, 0)
    for view in (-1, "-1", "much"):
        with pytest.raises(InvalidQuery, match="view_budget"):
            number(view)


@pytest.mark.parametrize(
    ("mode", "coordinates", "unfit", "offered"),
    [
        ("auto", True, 0, True),
        ("auto", False, 0, False),
        ("auto", False, 1, True),
        ("always", False, 0, True),
        ("never", True, 4, False),
    ],
)
def test_tools_are_for_coordinators_and_for_what_does_not_fit(mode, coordinates, unfit, offered):
    assert offers(mode, coordinates, unfit) == offered


def test_the_reason_is_told_in_words():
    shown = (
        Included("a", 9, "whole", "critical"),
        Included("b", 9, "whole", NAMED),
        Included("c", 9, "whole", NAMED),
    )
    view = View("text", 100, shown, (LeftOut("d", "dear"),) * 212, False)
    of = expected("engineer", [])
    assert reason(view, 140, None, of, worth(of)) == (
        "140 tokens: 1 critical, 2 found by the task's words (p 0.3), one that is"
        " used saves 124,500; 212 others left"
        " out: would cost more than they are expected to save (p 0.02 to 0.03, 30"
        " turns); a run takes 570,000 tokens"
        " in 30 turns (no history yet: the stated expectation)"
    )
    assert reason(view, 140, 300, of, worth(of)).startswith("300 tokens as asked for; a run takes ")
    assert reason(View("", 0, (), (), False), 0, None, of, worth(of)).startswith(
        "nothing to show; "
    )
    assert "212 left out, of which 2 concern the task" in reason(
        view._replace(unfit=2), 140, None, of, worth(of)
    )
