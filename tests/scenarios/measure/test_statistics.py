"""What is said of figures: against known answers, and against what must come out of chance
alone.
"""

import math
import random

import pytest

from orchestrator.reports.intervals import ratio
from scenarios.measure.statistics import (
    fragile,
    holm,
    interval,
    non_inferior,
    p_value,
    proportion,
    saving,
    slope,
)


def test_an_interval_holds_the_mean_nineteen_times_of_twenty() -> None:
    draw, held = random.Random(5), 0
    for turn in range(150):
        found = interval([draw.lognormvariate(0, 0.5) for _ in range(40)], turn)
        held += found.lo <= math.exp(0.125) <= found.hi
    assert 0.87 <= held / 150 <= 0.99


def test_what_never_differs_has_no_width() -> None:
    assert interval([3.0] * 9) == (3.0, 3.0, 3.0)
    assert math.isnan(interval([]).value)


def test_a_share_of_few() -> None:
    assert proportion(0, 30).lo == 0
    assert proportion(30, 30).hi == 1
    found = proportion(8, 10)
    # Wilson's, as textbooks have it
    assert (round(found.lo, 3), round(found.hi, 3)) == (0.49, 0.943)


def test_a_saving_is_of_pairs() -> None:
    theirs = [100.0, 1_000.0, 10_000.0]
    found = saving([each * 0.6 for each in theirs], theirs)
    assert found == pytest.approx((0.4, 0.4, 0.4))


def test_signs_flipped_in_every_way() -> None:
    assert p_value([1.0] * 8) == 2 / 2**8
    assert p_value([1.0, -1.0]) == 1.0
    assert p_value([]) == 1.0


def test_chance_alone_is_rarely_significant() -> None:
    draw = random.Random(11)
    found = [p_value([draw.gauss(0, 1) for _ in range(20)], turn) for turn in range(40)]
    assert sum(p < 0.05 for p in found) <= 6
    assert p_value([draw.gauss(1, 0.5) for _ in range(30)]) < 0.001


def test_many_questions_at_once() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )


def test_worse_by_a_little_and_by_more() -> None:
    draw = random.Random(2)
    theirs = [1.0 if draw.random() < 0.9 else 0.0 for _ in range(400)]
    assert non_inferior(theirs, theirs).holds
    assert not non_inferior([max(each - 0.05, 0) for each in theirs], theirs).holds


def test_a_slope_is_not_moved_by_outliers() -> None:
    xs = list(range(30))
    ys = [2.0 * x for x in xs]
    ys[3] = 5_000.0
    found = slope(xs, ys)
    assert found.value == pytest.approx(2.0)
    assert found.lo <= 2 <= found.hi
    assert slope([1], [1]) == (0, 0, 0)


def test_a_conclusion_that_flips() -> None:
    assert fragile(lambda share: share > 0.5, [0.3, 0.6])
    assert not fragile(lambda share: share > 0.5, [0.6, 0.9])


def test_the_same_twice() -> None:
    values = [random.Random(1).random() for _ in range(20)]
    assert interval(values, 3) == interval(values, 3)


def test_a_ratio_is_of_sums() -> None:
    found = ratio([10.0, 30.0, 20.0, 40.0], [1.0, 0.0, 2.0, 1.0])
    assert found.value == 25
    assert found.lo < 25 < found.hi < math.inf
    assert math.isnan(ratio([1.0], [0.0]).value)
    assert ratio([6.0], [2.0]) == (3, 3, 3)
