"""Intervals of figures by resampling them. Pure; chance is an argument. Called by the audit of
recorded sessions and by the suite.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

RESAMPLES = 2_000


class Interval(NamedTuple):
    """A figure and the ends of its 95 % interval."""

    value: float
    lo: float
    hi: float


@lru_cache(64)
def picks(size: int, seed: int) -> list[Callable[[Sequence[float]], tuple[float, ...]]]:
    """Return samples with replacement, each as what takes it out of as many values, of two or
    more.
    """
    draw = random.Random(seed)
    return [itemgetter(*draw.choices(range(size), k=size)) for _ in range(RESAMPLES)]


def ratio(
    ours: Sequence[float], theirs: Sequence[float], seed: int = 0, level: float = 0.95
) -> Interval:
    """Return the sum of ours by the sum of theirs, with the bootstrap's percentiles over pairs; NaN
    where theirs sum to 0, and samples in which they do are left out.
    """
    total = sum(theirs)
    if not total:
        return Interval(math.nan, math.nan, math.nan)
    value = sum(ours) / total
    if len(ours) < 2:
        return Interval(value, value, value)
    pairs = ((sum(pick(ours)), sum(pick(theirs))) for pick in picks(len(ours), seed))
    drawn = sorted(one / their for one, their in pairs if their)
    last = len(drawn) - 1
    return Interval(
        value, drawn[round((1 - level) / 2 * last)], drawn[round((1 + level) / 2 * last)]
    )
