"""Times of receipt that wrong clocks stamped, as they are taken."""

import pytest

from synapse.index.database import Database
from synapse.index.derive.corrections import Steps, corrected, is_step, steps_of
from synapse.index.derive.progress import Reached, read_reached, write_reached
from synapse.model.clock import AHEAD
from synapse.model.records import Record

HOUR = AHEAD * 10


def records(*times):
    return [
        Record.new("shown", "eng", {})._replace(seq=seq, at=at) for seq, at in enumerate(times, 1)
    ]


def taken(*times):
    given = records(*times)
    return [record.at for record in corrected(given, steps_of(given))]


def test_a_log_without_a_wrong_clock_is_left_as_it_is():
    given = records(5, 5, 6, 7)
    assert steps_of(given) == Steps()
    assert corrected(given, Steps()) is given


def test_what_a_clock_that_was_ahead_stamped_was_received_before_time_stepped_back():
    assert steps_of(records(10, HOUR, HOUR + 1, 11, 12)) == Steps(caps=((4, 11),))
    assert taken(10, HOUR, HOUR + 1, 11, 12) == [10, 11, 11, 11, 12]


def test_what_a_clock_that_was_behind_stamped_was_received_no_earlier():
    assert taken(HOUR, 5, 6, HOUR + 1) == [HOUR, HOUR, HOUR, HOUR + 1]
    assert steps_of(records(HOUR, 5, 6, HOUR + 1)) == Steps(floors=((2, 4, HOUR),))


def test_a_clock_that_comes_back_nearly_counts_as_right():
    assert taken(HOUR, 5, HOUR - AHEAD) == [HOUR, HOUR, HOUR - AHEAD]
    # one that is not back yet, or that time walks back to, leaves the step
    assert steps_of(records(HOUR, 5, HOUR - AHEAD - 1)).caps == ((2, 5),)
    assert steps_of(records(HOUR, 5, 5 + AHEAD)).caps == ((2, 5),)
    assert steps_of(records(AHEAD, 5, 5 + AHEAD)).caps == ((2, 5),)
    assert steps_of(records(AHEAD, 5, 6 + AHEAD)).floors == ((2, 3, AHEAD),)


def test_steps_within_steps_end_with_the_outer_one():
    times = (3 * HOUR, 2 * HOUR, 7, 2 * HOUR, 8, 3 * HOUR)
    assert steps_of(records(*times)) == Steps(
        floors=((3, 4, 2 * HOUR), (5, 6, 2 * HOUR), (2, 6, 3 * HOUR))
    )
    assert taken(*times) == [3 * HOUR] * 6


def test_a_bound_holds_for_the_records_it_names_and_no_other():
    steps = Steps(caps=((3, 100),), floors=((2, 4, 50),))
    given = records(1, 1, 1, 1, 500)
    assert [record.at for record in corrected(given, steps)] == [1, 50, 50, 1, 500]
    given = records(500, 500, 500, 1, 500)
    assert [record.at for record in corrected(given, steps)] == [100, 100, 500, 1, 500]


@pytest.mark.parametrize(
    ("before", "at", "step"),
    [(5, 5, False), (5, 4, True), (5, 6, False), (5, 5 + AHEAD, False), (5, 6 + AHEAD, True)],
)
def test_when_the_steps_may_be_others(before, at, step):
    assert is_step(before, at, Steps(caps=((3, 100),))) is step
    assert is_step(before, at, Steps()) is (at < before)


@pytest.mark.parametrize(
    "steps",
    [
        Steps(),
        Steps(caps=((3, 100), (5, 7))),
        Steps(floors=((2, 4, 50),)),
        Steps(((3, 100),), ((2, 4, 50), (1, 9, 0))),
    ],
)
def test_steps_are_kept_with_the_index(tmp_path, steps):
    db = Database(str(tmp_path / "brain.db"))
    write_reached(db, Reached(steps=steps, lost=(3, 4)))
    assert read_reached(db) == Reached(steps=steps, lost=(3, 4))
