"""Tasks and results as values: what a task may ask, and what a record says of a result."""

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files.ledger import Overhead
from orchestrator.runs.task import Result, Task, check, result_of
from synapse.errors import InvalidEntry


def test_a_result_is_what_its_record_says():
    fields = {
        "status": "done",
        "usage": Usage(7, 3)._asdict(),
        "cost": 2,
        "overhead": [1, 2, 3, 4, 5, 6],
        "summary": "short",
        "why": "because",
        "entry": "syn-2026-02-01-001",
        "debt": ["a", "b"],
        "warnings": ["w"],
    }
    result = result_of("eng-1", fields, "text")
    assert result == Result(
        status="done",
        text="text",
        run="eng-1",
        usage=Usage(7, 3),
        cost=2.0,
        overhead=Overhead(1, 2, 3, 4, 5, 6),
        summary="short",
        why="because",
        entry="syn-2026-02-01-001",
        debt=("a", "b"),
        warnings=("w",),
    )
    assert result.done is True
    shown = result.fields()
    assert shown["usage"] == Usage(7, 3)._asdict()
    assert shown["overhead"]["billed"] == pytest.approx(1 / 3)
    assert shown["overhead"]["unique"] == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        dict.fromkeys(("usage", "cost", "overhead", "entry", "debt", "warnings"), None),
        dict.fromkeys(("usage", "cost", "overhead", "debt", "warnings"), "odd"),
    ],
)
def test_a_record_that_says_nothing_is_of_a_run_that_failed(fields):
    result = result_of("eng-1", fields, "")
    assert result == Result(status="failed", text="", run="eng-1", usage=Usage())
    assert result.overhead == Overhead(0, 0, 0, 0, 0, 0)
    assert (result.cost, result.entry, result.done) == (None, None, False)


@pytest.mark.parametrize("name", ["max_tokens", "max_usd", "max_turns", "timeout"])
def test_a_bound_of_nothing_is_a_bound(name):
    task = Task("Build it.", "eng", **{name: 0})
    assert check(task) is task
    for bound in (-1, float("inf"), float("nan")):
        with pytest.raises(InvalidEntry, match=name):
            check(Task("Build it.", "eng", **{name: bound}))
