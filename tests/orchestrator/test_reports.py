"""Lanes in time: what ran at once, and how it is drawn."""

from typing import NamedTuple

import pytest

from orchestrator.reports.lanes import Lane, Part, busiest, parts_of, windows_of
from orchestrator.runs.files.steps import Step, dump_time, times
from orchestrator.server.drawing import LEAST, WIDE, draw

SECOND = 1_000_000


class Row(NamedTuple):
    """What a lane asks of its run."""

    id: str
    cost: float | None


def lane(id, began, ended, cost=None, parts=()):
    span = began * SECOND, ended * SECOND
    return Lane(Row(id, cost), *span, tuple(parts), 0, 0, 0)


def test_windows_are_cut_where_runs_begin_and_end():
    lanes = [lane("a", 0, 10), lane("b", 2, 6), lane("c", 6, 8)]
    found = [
        (window.began // SECOND, window.ended // SECOND, "".join(window.runs))
        for window in windows_of(lanes)
    ]
    assert found == [(0, 2, "a"), (2, 6, "ab"), (6, 8, "ac"), (8, 10, "a")]


def test_the_busiest_window_is_first_and_one_alone_is_none():
    lanes = [lane("a", 0, 10), lane("b", 2, 6), lane("c", 5, 6), lane("d", 20, 30)]
    assert [len(window.runs) for window in busiest(lanes)] == [3, 2]
    assert busiest([lane("a", 0, 10)]) == []
    assert busiest([]) == []


def test_an_hour_costs_what_the_runs_of_the_window_cost():
    lanes = [lane("a", 0, 10, 0.01), lane("b", 0, 20, 0.01), lane("c", 0, 10)]
    (window, *_) = busiest(lanes)
    assert window.hourly == pytest.approx(3.6 + 1.8)
    unknown = busiest([lane("a", 0, 1), lane("b", 0, 1)])
    assert unknown[0].hourly is None


def test_a_run_without_a_length_is_seen_and_nothing_is_divided_by_it():
    drawing = draw([lane("a", 5, 5, 0.01), lane("b", 0, 10, 0.01)])
    by_id = {drawn.lane.row.id: drawn for drawn in drawing.lanes}
    assert by_id["a"].width > 0
    assert all(one.x + one.width <= WIDE for one in drawing.lanes)
    assert draw([]) is None


def test_steps_divide_a_lane_in_their_order():
    parts = [Part("model", "m"), Part("tool", "read"), Part("model", "m")]
    (drawn,) = draw([lane("a", 0, 9, parts=parts)]).lanes
    assert [box.part for box in drawn.boxes] == parts
    assert [round(box.width, 1) for box in drawn.boxes] == [333.3] * 3


def test_a_call_and_its_result_are_one_part():
    turn = {"calls": [{"id": "c1", "name": "wait"}, {"id": "c2", "name": "look"}]}
    taken = [
        Step(0, 1, "prompt", {}),
        Step(1, 1, "turn", {"turn": {**turn, "model": "m"}}),
        Step(2, 1, "call", {"call": "c1"}),
        Step(3, 1, "result", {"call": "c1"}),
        Step(4, 1, "result", {"call": "c2"}),
        Step(5, 1, "message", {"why": "wake"}),
        Step(6, 2, "attempt", {}),
    ]
    kinds = [(part.kind, part.label) for part in parts_of(taken)]
    assert kinds == [
        ("model", "m"),
        ("wait", "wait"),
        ("tool", "look"),
        ("news", "wake"),
        ("taken over", "another process went on"),
    ]


def test_a_step_is_as_wide_as_it_took():
    turn = {"calls": [{"id": "c1", "name": "look"}], "model": "m"}
    taken = [
        Step(0, 1, "prompt", {}),
        Step(1, 1, "turn", {"turn": turn}),
        Step(2, 1, "call", {"call": "c1"}),
        Step(3, 1, "result", {"call": "c1"}),
        Step(4, 1, "message", {"why": "wake"}),
        Step(5, 1, "turn", {"turn": {**turn, "calls": []}}),
    ]
    at = {n: n * n * SECOND for n in range(1, 6)}
    lines = [dump_time(step, at[step.n]) for step in taken[1:]]
    lines.insert(2, '[1, 2, "torn')
    known = times(lines)
    parts = parts_of(taken, known, 0)
    assert [(part.kind, part.began, part.ended) for part in parts] == [
        ("model", 0, at[1]),
        ("tool", at[2], at[3]),
        ("news", at[4], at[4]),
        ("model", at[4], at[5]),
    ]
    (drawn,) = draw([lane("a", 0, 25, parts=parts)]).lanes
    assert drawn.timed
    assert [box.x for box in drawn.boxes] == [0, 160, 640, 640]
    assert [box.width for box in drawn.boxes] == [40, 200, 360, LEAST]
    assert drawn.boxes[-1].part.kind == "news"  # on top, for it takes no time
    del known[3, 1]  # a power cut took it: no step is drawn where it was not
    (drawn,) = draw([lane("a", 0, 25, parts=parts_of(taken, known, 0))]).lanes
    assert not drawn.timed
    assert [box.width for box in drawn.boxes] == [250] * 4
