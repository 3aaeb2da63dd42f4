"""What can be said of figures from a few dozen paired runs: intervals, tests, slopes. Pure; chance
is an argument.

Runs are paired by seed, so differences are looked at within pairs. Where the runs are scripted,
intervals describe the chance in the scenarios alone, and nothing about models.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from statistics import NormalDist, fmean, median
from typing import NamedTuple

from orchestrator.reports.intervals import Interval as Interval
from orchestrator.reports.intervals import picks

FLIPS = 10_000
EXACT = 12  # so many pairs at most are flipped in every way there is
_NORMAL = NormalDist()


def interval(values: Sequence[float], seed: int = 0, level: float = 0.95) -> Interval:
    """Return the mean with its bootstrap interval, bias-corrected and accelerated."""
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    mean = fmean(values)
    if min(values) == max(values):
        return Interval(mean, mean, mean)
    size = len(values)
    drawn = sorted([sum(pick(values)) / size for pick in picks(size, seed)])
    bias, speed = _bias(drawn, mean), _acceleration(values)
    ends = (
        _end(drawn, bias, speed, _NORMAL.inv_cdf(tail))
        for tail in ((1 - level) / 2, (1 + level) / 2)
    )
    return Interval(mean, *ends)


def _bias(drawn: Sequence[float], mean: float) -> float:
    """Return the bias correction of a bootstrap, from the drawn means in their order."""
    # those equal to it count by half
    smaller = (bisect_left(drawn, mean) + bisect_right(drawn, mean)) / 2
    return _NORMAL.inv_cdf(min(max(smaller / len(drawn), 1 / len(drawn)), 1 - 1 / len(drawn)))


def _acceleration(values: Sequence[float]) -> float:
    """Return how fast the spread changes with the mean, by leaving out one value at a time."""
    total, count = math.fsum(values), len(values)
    if count < 3:
        return 0.0
    means = [(total - value) / (count - 1) for value in values]
    middle = fmean(means)
    spread = math.fsum((middle - mean) ** 2 for mean in means)
    return (
        0.0
        if spread == 0
        else math.fsum((middle - mean) ** 3 for mean in means) / (6 * spread**1.5)
    )


def _end(drawn: Sequence[float], bias: float, speed: float, z: float) -> float:
    shifted = bias + z
    share = _NORMAL.cdf(bias + shifted / (1 - speed * shifted))
    return drawn[min(max(round(share * len(drawn)), 0), len(drawn) - 1)]


def proportion(hits: int, of: int, level: float = 0.95) -> Interval:
    """Return a share with Wilson's interval, which holds at 0 and 1 too."""
    if not of:
        return Interval(math.nan, math.nan, math.nan)
    z, share = _NORMAL.inv_cdf((1 + level) / 2), hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return Interval(
        share,
        max(middle - half, 0.0) if hits else 0.0,
        min(middle + half, 1.0) if hits < of else 1.0,
    )


def log_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the logarithm of ours divided by theirs, for each pair."""
    return [math.log(one / their) for one, their in zip(ours, theirs, strict=True)]


def saving(ours: Sequence[float], theirs: Sequence[float], seed: int = 0) -> Interval:
    """1 - ours / theirs, by the geometric mean of the pairs' ratios."""
    value, lo, hi = interval(log_ratios(ours, theirs), seed)
    return Interval(1 - math.exp(value), 1 - math.exp(hi), 1 - math.exp(lo))


def p_value(differences: Sequence[float], seed: int = 0) -> float:
    """Return the two-sided p value of a sign-flip test; exact for few pairs."""
    size = len(differences)
    observed = abs(math.fsum(differences)) * (1 - 1e-12)
    if not size:
        return 1.0
    if size <= EXACT:
        sums = [
            abs(math.fsum(map(math.prod, zip(signs, differences))))  # noqa: B905
            for signs in product((1, -1), repeat=size)
        ]
        return sum(item >= observed for item in sums) / len(sums)
    draw = random.Random(seed)
    hits = 0
    for _ in range(FLIPS):
        bits = draw.getrandbits(size)
        hits += (
            abs(sum(item if bits >> at & 1 else -item for at, item in enumerate(differences)))
            >= observed
        )
    return (hits + 1) / (FLIPS + 1)


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Return the p values of several questions asked of the same runs, as they count together."""
    adjusted: dict[str, float] = {}
    least = 0.0
    for rank, name in enumerate(sorted(values, key=values.__getitem__)):
        least = max(least, min(values[name] * (len(values) - rank), 1.0))
        adjusted[name] = least
    return {name: adjusted[name] for name in values}


class Inferiority(NamedTuple):
    """Whether ours is worse than theirs by the margin at most: the lower end of the 90 % interval
    decides.
    """

    difference: float
    lo: float
    margin: float

    @property
    def holds(self) -> bool:
        return self.lo >= -self.margin


def non_inferior(
    ours: Sequence[float], theirs: Sequence[float], margin: float = 0.02, seed: int = 0
) -> Inferiority:
    differences = [one - their for one, their in zip(ours, theirs, strict=True)]
    value, lo, _ = interval(differences, seed, level=0.9)
    return Inferiority(value, lo, margin)


def slope(xs: Sequence[float], ys: Sequence[float]) -> Interval:
    """Theil and Sen's slope: the median of those between all pairs, with Kendall's interval."""
    slopes = sorted(
        (y2 - y1) / (x2 - x1)
        for (x1, y1), (x2, y2) in combinations(zip(xs, ys, strict=True), 2)
        if x1 != x2
    )
    if not slopes:
        return Interval(0.0, 0.0, 0.0)
    size = len(xs)
    width = _NORMAL.inv_cdf(0.975) * math.sqrt(size * (size - 1) * (2 * size + 5) / 18)
    low = max(math.floor((len(slopes) - width) / 2), 0)
    high = min(math.ceil((len(slopes) + width) / 2), len(slopes) - 1)
    return Interval(median(slopes), slopes[low], slopes[high])


def fragile(holds: Callable[[float], bool], values: Sequence[float]) -> bool:
    """Return whether a conclusion holds for some values of a grid and not for others."""
    return len({holds(value) for value in values}) > 1
