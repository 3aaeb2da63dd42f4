"""Lanes as drawings: the places of runs and of their steps on a line of time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestrator.reports.lanes import NEWS, TAKEN, Lane, Part, windows_of

WIDE = 1_000.0
LEAST = 8.0  # of a lane, that it is seen
INSTANT = frozenset((NEWS, TAKEN))  # steps that take no time
MARKS = 5


class Box(NamedTuple):
    """A step in the drawing of a lane."""

    part: Part
    x: float
    width: float


class DrawnLane(NamedTuple):
    """A lane with its place and its steps; these are as wide as they took where that is `timed`,
    else equally wide.
    """

    lane: Lane
    x: float
    width: float
    boxes: tuple[Box, ...]
    timed: bool


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
    drawn = [_drawn(lane, place) for lane in found]
    marks = tuple(took * step // (MARKS - 1) for step in range(MARKS))
    return Drawing(began, took, tuple(drawn), tuple(levels), most, marks)


def _drawn(lane: Lane, place: Callable[[int], float]) -> DrawnLane:
    begin, end = place(lane.began), place(lane.ended)
    width = max(end - begin, LEAST)
    x = min(begin, WIDE - width)
    timed = _timed(lane.parts, place)
    each = width / max(len(lane.parts), 1)
    boxes = timed or [
        Box(part, round(x + each * n, 2), round(each, 2)) for n, part in enumerate(lane.parts)
    ]
    return DrawnLane(lane, round(x, 2), round(width, 2), tuple(boxes), timed is not None)


def _timed(parts: Sequence[Part], place: Callable[[int], float]) -> list[Box] | None:
    """Return the steps where and as wide as they took; None where that is not known of all."""
    boxes = []
    for part in parts:
        if part.began is None or part.ended is None:
            return None
        begin, end = place(part.began), place(part.ended)
        width = max(end - begin, LEAST if part.kind in INSTANT else LEAST / 2)
        boxes.append(Box(part, round(min(begin, WIDE - width), 2), round(width, 2)))
    return sorted(boxes, key=lambda box: box.part.kind in INSTANT)  # these on top
