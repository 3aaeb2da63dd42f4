"""Charts as inline SVG, without any script: lines, bars that are stacked, points. Plain values in,
text out.

Drawn in a box that is readable on a phone; colours are the page's (`--c0` to `--c9`), so that light
and dark are its own affair. Every mark says its values when it is pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

WIDTH, HEIGHT = 390.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 98.0, 32.0, 44.0
LINE = 13.0  # the least distance of two labels
LETTER = 6.8  # width of a letter, about


class Point(NamedTuple):
    """A value at a place, with the ends of its interval; `n` runs stand behind it."""

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    n: int | None = None
    name: str = ""  # where it is not its series'


class Series(NamedTuple):
    """Points under one name. `colour` is a number of the page's palette; `strong` is drawn above
    the others.
    """

    name: str
    points: Sequence[Point]
    colour: int
    strong: bool = False
    stepped: bool = False


class Frame(NamedTuple):
    """The two axes of a chart: what they say, where they end, how their figures are written."""

    x: str
    y: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    y_from: float | None = None
    y_to: float | None = None
    x_at: Sequence[float] | None = None  # ticks, where they are not to be chosen
    x_from: float | None = None


def plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:g}"


def percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def thousands(value: float) -> str:
    size, unit = (
        (1e6, " M") if abs(value) >= 1e6 else (1e3, " k") if abs(value) >= 1e3 else (1.0, "")
    )
    return f"{value / size:.3g}{unit}"


class _Plane:
    """From values to places in the box."""

    def __init__(self, frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.frame = frame
        low_x = min(xs) if frame.x_from is None else frame.x_from
        self.xs = list(frame.x_at or ticks(low_x, max(xs)))
        low = min(ys) if frame.y_from is None else min(frame.y_from, min(ys))
        high = max(ys) if frame.y_to is None else max(frame.y_to, max(ys))
        self.ys = ticks(low, high)
        self.x_span = min(self.xs[0], low_x), max(self.xs[-1], max(xs))
        self.y_span = min(self.ys[0], low), max(self.ys[-1], high)

    def x(self, value: float) -> float:
        low, high = self.x_span
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_span
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> Iterator[str]:
        for value in self.ys:
            y = self.y(value)
            kind = "zero" if value == 0 and self.y_span[0] < 0 else "rule"
            yield (
                f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            yield _text(LEFT - 6, y + 3.5, self.frame.y_text(value), "tick", "end")
        for value in self.xs:
            yield _text(
                self.x(value), HEIGHT - BOTTOM + 17, self.frame.x_text(value), "tick", "middle"
            )
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.frame.x, "axis", "middle")
        yield _text(0, 11, self.frame.y, "axis", "start")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round figures from at most the one to at least the other."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    step = 10 ** math.floor(math.log10((high - low) / about))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


def lines(what: str, frame: Frame, series: Sequence[Series]) -> str:
    """Lines with the intervals of their points, each named at its end."""
    points = [point for curve in series for point in curve.points]
    ends = [end for point in points for end in (point.y, point.lo, point.hi) if end is not None]
    plane = _Plane(frame, [point.x for point in points], ends)
    drawn = [*plane.axes()]
    for curve in sorted(series, key=lambda curve: curve.strong):
        drawn += [*_line(plane, curve, frame)]
    last = [(plane.y(curve.points[-1].y), curve) for curve in series]
    edge = max(plane.x(curve.points[-1].x) for curve in series)
    for (y, curve), place in zip(last, _apart([y for y, _ in last]), strict=True):
        x = plane.x(curve.points[-1].x)
        drawn.append(f'<path class="lead" d="M{x + 4:.1f} {y:.1f}L{edge + 10:.1f} {place:.1f}"/>')
        drawn.append(
            _text(edge + 13, place + 3.5, curve.name, _named(curve), "start", curve.colour)
        )
    return _svg(what, drawn)


def _line(plane: _Plane, series: Series, frame: Frame) -> Iterator[str]:
    places = [(plane.x(point.x), plane.y(point.y)) for point in series.points]
    drawn = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    for (_, before), (x, y) in pairwise(places):
        drawn += f"L{x:.1f} {before:.1f}L{x:.1f} {y:.1f}" if series.stepped else f"L{x:.1f} {y:.1f}"
    yield (
        f'<path class="line{" strong" if series.strong else ""}"'
        f' style="stroke:var(--c{series.colour})" d="{drawn}"/>'
    )
    if series.stepped or len(places) > 20:
        return
    for point, (x, y) in zip(series.points, places, strict=True):
        if point.lo is not None and point.hi is not None and point.hi > point.lo:
            low, high = plane.y(point.lo), plane.y(point.hi)
            yield (
                f'<line class="whisker" style="stroke:var(--c{series.colour})"'
                f' x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
            )
        yield _dot(x, y, series, _point_label(series.name, point, frame))


def points(what: str, frame: Frame, series: Sequence[Series]) -> str:
    """Return one point each, with its name beside it."""
    plane = _Plane(
        frame, [curve.points[0].x for curve in series], [curve.points[0].y for curve in series]
    )
    return _svg(what, [*plane.axes(), *_beside(plane, frame, series)])


def _beside(plane: _Plane, frame: Frame, series: Sequence[Series]) -> Iterator[str]:
    """Yield a point for each, with its name beside it, where nothing else stands."""
    places = [(plane.x(curve.points[0].x), plane.y(curve.points[0].y)) for curve in series]
    boxes = [(x - 4, y + 3.5, 8.0) for x, y in places]
    for curve in sorted(series, key=lambda curve: not curve.strong):
        x, y = plane.x(curve.points[0].x), plane.y(curve.points[0].y)
        yield _dot(x, y, curve, _point_label(curve.name, curve.points[0], frame))
        wide = len(curve.name) * LETTER
        free_y = _free(x + 7, y + 3.5, wide, boxes) or y + 3.5
        boxes.append((x + 7, free_y, wide))
        if abs(free_y - y - 3.5) > LINE:
            yield f'<path class="lead" d="M{x:.1f} {y:.1f}L{x + 6:.1f} {free_y - 3.5:.1f}"/>'
        yield _text(x + 7, free_y, curve.name, _named(curve), "start", curve.colour)


def _free(
    x: float, y: float, width: float, taken: Sequence[tuple[float, float, float]]
) -> float | None:
    """Return a height at which nothing else is written, as near as there is; None where there is
    none.
    """
    for off in (0, *(side * step * LINE for step in range(1, 16) for side in (1, -1))):
        candidate = y + off
        if TOP < candidate < HEIGHT - BOTTOM + 4 and not any(
            abs(candidate - box_y) < LINE and x < box_left + wide and box_left < x + width
            for box_left, box_y, wide in taken
        ):
            return candidate
    return None


class Bar(NamedTuple):
    """A bar of several parts: what each is, and how much."""

    name: str
    parts: Sequence[tuple[str, float]]
    strong: bool = False


def stacked(
    what: str, bars: Sequence[Bar], colours: Mapping[str, int], text: Callable[[float], str]
) -> str:
    """Bars beside each other's names, from the top down."""
    step, margins, right, top = 24.0, 92.0, 50.0, 6.0
    most = max(sum(value for _, value in bar.parts) for bar in bars) or 1.0
    wide, drawn = WIDTH - margins - right, []
    for number, bar in enumerate(bars):
        y, x = top + number * step, margins
        drawn.append(
            _text(margins - 7, y + 14, bar.name, "name strong" if bar.strong else "name", "end")
        )
        for label, value in bar.parts:
            size = value / most * wide
            title = escape(f"{bar.name}: {label} {text(value)}")
            drawn.append(
                f'<rect x="{x:.1f}" y="{y + 3:.1f}" width="{max(size, 0):.1f}" height="{step - 7}"'
                f' style="fill:var(--c{colours[label]})"><title>{title}</title></rect>'
            )
            x += size
        drawn.append(
            _text(x + 5, y + 14, text(sum(value for _, value in bar.parts)), "tick", "start")
        )
    return _svg(what, drawn, top * 2 + len(bars) * step)


class Measure(NamedTuple):
    """A bar with the ends of its interval, and what stands behind it."""

    name: str
    value: float
    lo: float
    hi: float
    note: str
    colour: int
    strong: bool = False


def measures(what: str, bars: Sequence[Measure], text: Callable[[float], str]) -> str:
    """Return bars beside each other's names, with their intervals, from the top down."""
    step, margins, right, top = 24.0, 92.0, 128.0, 6.0
    most = max(bar.hi for bar in bars) or 1.0
    wide, drawn = WIDTH - margins - right, []
    for number, bar in enumerate(bars):
        y = top + number * step
        size, lo, hi = (max(value / most * wide, 0.0) for value in (bar.value, bar.lo, bar.hi))
        title = escape(
            f"{bar.name}: {text(bar.value)} [{text(bar.lo)}, {text(bar.hi)}], {bar.note}"
        )
        drawn.append(
            _text(margins - 7, y + 14, bar.name, "name strong" if bar.strong else "name", "end")
        )
        drawn.append(
            f'<rect class="{"strong" if bar.strong else "other"}" x="{margins:.1f}" y="{y + 3:.1f}"'
            f' width="{size:.1f}" height="{step - 7}" style="fill:var(--c{bar.colour})">'
            f"<title>{title}</title></rect>"
        )
        if hi > lo:
            drawn.append(
                f'<line class="ends" x1="{margins + lo:.1f}" x2="{margins + hi:.1f}"'
                f' y1="{y + 11.5:.1f}" y2="{y + 11.5:.1f}"/>'
            )
        drawn.append(
            _text(
                margins + max(size, hi) + 6,
                y + 15,
                f"{text(bar.value)} · {bar.note}",
                "tick",
                "start",
            )
        )
    return _svg(what, drawn, top * 2 + len(bars) * step)


# -- Pieces ----------------------------------------------------------------------------


def _dot(x: float, y: float, series: Series, label: str) -> str:
    size = 4.5 if series.strong else 3.2
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" style="fill:var(--c{series.colour})">'
        f"<title>{escape(label)}</title></circle>"
    )


def _point_label(name: str, point: Point, frame: Frame) -> str:
    ends = (
        ""
        if point.lo is None or point.hi is None
        else f" [{frame.y_text(point.lo)}, {frame.y_text(point.hi)}]"
    )
    runs = f", n = {point.n}" if point.n else ""
    return f"{point.name or name}: {frame.y_text(point.y)}{ends} at {frame.x_text(point.x)}{runs}"


def _named(series: Series) -> str:
    return "name strong" if series.strong else "name"


def _text(x: float, y: float, text: str, kind: str, anchor: str, colour: int | None = None) -> str:
    fill = f' style="fill:var(--c{colour})"' if colour is not None else ""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"'
        f' text-anchor="{anchor}"{fill}>{escape(text)}</text>'
    )


def _apart(places: Sequence[float]) -> list[float]:
    """Heights for labels, near to where they belong and none upon another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    result = list(places)
    for before, after in pairwise(order):
        result[after] = max(result[after], result[before] + LINE)
    overflow = (result[order[-1]] - (HEIGHT - BOTTOM + 4)) if order else 0.0
    if overflow > 0:
        result[order[-1]] -= overflow
        for after, before in zip(reversed(order), list(reversed(order))[1:], strict=False):
            result[before] = min(result[before], result[after] - LINE)
    return result


def _svg(what: str, drawn: Sequence[str], height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(what)}">'
        f"<title>{escape(what)}</title>{''.join(drawn)}</svg>"
    )
