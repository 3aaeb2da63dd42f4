"""Lanes as drawings: the places of runs and of their steps on a line of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.reports.lanes import Lane, Part, windows_of

WIDE = 1_000.0
LEAST = 4.0  # of a lane, that it is seen
MARKS = 5


class Box(NamedTuple):
    """A step in the drawing of a lane."""

    part: Part
    x: float
    width: float


class DrawnLane(NamedTuple):
    """A lane with its place and its steps."""

    lane: Lane
    x: float
    width: float
    boxes: tuple[Box, ...]


class Level(NamedTuple):
    """How many ran at once, for a stretch of time; `top` is where its bar begins, of 40."""

    runs: int
    x: float
    width: float
    top: float


class Drawing(NamedTuple):
    """All lanes, how many ran at once, and marks of time in micros from the beginning."""

    began: int
    took: int
    lanes: tuple[DrawnLane, ...]
    levels: tuple[Level, ...]
    most: int
    marks: tuple[int, ...]


def draw(found: Sequence[Lane]) -> Drawing | None:
    """Return the drawing of these lanes; None where there is none."""
    if not found:
        return None
    began = min(lane.began for lane in found)
    took = max(max(lane.ended for lane in found) - began, 1)

    def place(at: int) -> float:
        return round((at - began) * WIDE / took, 2)

    windows = windows_of(found)
    most = max((len(window.runs) for window in windows), default=1)
    levels = [
        Level(
            len(window.runs),
            place(window.began),
            round(place(window.ended) - place(window.began), 2),
            round(40 - 36 * len(window.runs) / most, 2),
        )
        for window in windows
    ]
    drawn = [_drawn(lane, place(lane.began), place(lane.ended)) for lane in found]
    marks = tuple(took * step // (MARKS - 1) for step in range(MARKS))
    return Drawing(began, took, tuple(drawn), tuple(levels), most, marks)


def _drawn(lane: Lane, begin: float, end: float) -> DrawnLane:
    width = max(end - begin, LEAST)
    x = min(begin, WIDE - width)
    step_width = width / max(len(lane.parts), 1)
    boxes = tuple(
        Box(part, round(x + step_width * index, 2), round(step_width, 2))
        for index, part in enumerate(lane.parts)
    )
    return DrawnLane(lane, round(x, 2), round(width, 2), boxes)
