"""Measuring and saying what was measured: timings, rows of the table, targets. Knows nothing of
what is measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

TIMES = frozenset(("p50", "p95", "p99", "max", "min", "took", "above"))
LEAST = "min"
COLUMNS = ("operation", "entries", "measured", "measured beside it", "ratio", "target", "")


class Beside(NamedTuple):
    """What the same machine did in the same minute with the least that could do the job, in seconds
    or per second.
    """

    what: str
    value: float


class Goal(NamedTuple):
    """A bound on one value of a row, or on its ratio to what was measured beside it."""

    value: str
    most: float | None = None
    least: float | None = None

    def holds(self, found: float) -> bool:
        return (self.most is None or found <= self.most) and (
            self.least is None or found >= self.least
        )

    def __str__(self) -> str:
        bound = self.most if self.most is not None else self.least
        assert bound is not None
        return f"{self.value} {'≤' if self.most is not None else '≥'} {shown(self.value, bound)}"


class Row(NamedTuple):
    """One line of the table. `values` are seconds, counts, bytes or rates, by their names."""

    operation: str
    size: int | None
    values: dict[str, float]
    beside: Beside | None = None
    goals: tuple[Goal, ...] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if self.beside is None or not self.beside.value:
            return None
        main = next(iter(self.values.values()))
        return main / self.beside.value

    @property
    def missed(self) -> list[str]:
        known = self.values | ({} if self.ratio is None else {"ratio": self.ratio})
        return [goal.value for goal in self.goals if not goal.holds(known[goal.value])]

    @property
    def verdict(self) -> str:
        if not self.goals:
            return ""
        return f"MISSED: {', '.join(self.missed)}" if self.missed else "met"


class Timing:
    """The seconds that each of many calls took."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self.seconds = sorted(seconds)

    def at(self, share: float) -> float:
        return self.seconds[min(len(self.seconds) - 1, int(len(self.seconds) * share))]

    @property
    def p50(self) -> float:
        return self.at(0.5)

    def values(self, *more: str) -> dict[str, float]:
        """p50, p99 and max, whatever else is named, and the least, which only the JSON shows."""
        found = {
            "p50": self.p50,
            "p99": self.at(0.99),
            "max": self.seconds[-1],
            LEAST: self.seconds[0],
        }
        return found | {name: self.at(int(name[1:]) / 100) for name in more}


def timed(
    call: Callable[[], object],
    *,
    before: Callable[[], object] | None = None,
    calls: int = 300,
    budget: float = 2.0,
    least: int = 5,
) -> Timing:
    """Time a call again and again, after one that is not counted; `before` runs ahead of each,
    outside the time.
    """
    seconds: list[float] = []
    if before:
        before()
    call()
    gc.collect()
    end = time.perf_counter() + budget
    while len(seconds) < least or (len(seconds) < calls and time.perf_counter() < end):
        if before:
            before()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return Timing(seconds)


def once(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def shown(name: str, value: float) -> str:
    """A value in the unit that its name stands for."""
    if name in TIMES:
        return duration(value)
    if name == "per_s":
        return f"{value:,.0f}/s"
    if name == "bytes":
        return f"{value / (1 << 20):.1f} MiB"
    return f"{value:.2f}" if name == "ratio" else f"{value:g}"


def duration(seconds: float) -> str:
    us = seconds * 1e6
    if us < 999.5:
        return f"{us:.3g} µs"
    return f"{us / 1e3:.3g} ms" if us < 999_500 else f"{seconds:.3g} s"


def cells(row: Row) -> tuple[str, ...]:
    measured = ", ".join(
        f"{_label(name)}{shown(name, value)}" for name, value in row.values.items() if name != LEAST
    )
    beside = "" if row.beside is None else f"{row.beside.what}: {_beside(row)}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}×"
    goals = ", ".join(map(str, row.goals))
    size = "" if row.size is None else f"{row.size:,}"
    note = f" ({row.note})" if row.note else ""
    return (row.operation, size, measured + note, beside, ratio, goals, row.verdict)


def _label(name: str) -> str:
    return "" if name in ("per_s", "bytes", "took", "ratio") else f"{name} "


def _beside(row: Row) -> str:
    assert row.beside is not None
    first = next(iter(row.values))
    return shown(first if first in ("per_s", "bytes") else "p50", row.beside.value)


def line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def as_json(row: Row) -> dict[str, object]:
    return {
        "operation": row.operation,
        "entries": row.size,
        "values": row.values,
        "beside": None if row.beside is None else row.beside._asdict(),
        "ratio": row.ratio,
        "target": [str(goal) for goal in row.goals],
        "missed": row.missed,
        "note": row.note,
    }
