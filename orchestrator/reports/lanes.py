"""Runs side by side in time: a lane for each, with its steps in their order, and the windows in
which most of them ran at once.

Records say when a run began and ended, and `times.jsonl` beside its steps when each was recorded:
a step took from what came before it, a tool from when it was called. Where there are no times, the
steps have an order alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from orchestrator.reports.rows import RunRow, Source
from orchestrator.runs.files import ledger, steps
from orchestrator.runs.files.folder import LEDGER, STEPS, TIMES
from orchestrator.runs.files.steps import Step

HOUR = 3_600_000_000
WAITS = frozenset(("wait",))  # tools that do nothing but wait for others
# what a step is in a lane
MODEL, TOOL, WAIT, NEWS, TAKEN = "model", "tool", "wait", "news", "taken over"


class Part(NamedTuple):
    """A step in a lane: its kind, what it was, and from when to when; None where that is not
    known.
    """

    kind: str
    label: str
    began: int | None = None
    ended: int | None = None


class Lane(NamedTuple):
    """A run in time. Of the tokens that it `sent`, `again` were the beginning of a prompt that it
    had sent before, and `cached` those of which the provider reports that it had kept them.
    """

    row: RunRow
    began: int
    ended: int
    parts: tuple[Part, ...]
    sent: int
    again: int
    cached: int


class Window(NamedTuple):
    """A time in which equally many ran. `hourly` is what an hour of it costs in dollars, with the
    cost of each run spread evenly over its time: an estimate.
    """

    began: int
    ended: int
    runs: tuple[str, ...]
    hourly: float | None


def lanes(source: Source, rows: Iterable[RunRow]) -> list[Lane]:
    """Return a lane for each run, in the order in which they began."""
    drawn = [_lane(source, row) for row in rows]
    return sorted(drawn, key=lambda lane: (lane.began, lane.row.fields["seq"]))


def _lane(source: Source, row: RunRow) -> Lane:
    folder = source.folder(row.id)
    lines = ledger.read(folder.lines(LEDGER))
    recorded = steps.read_known(folder.lines(STEPS))
    began = int(row.fields["at"])
    return Lane(
        row,
        began,
        began + max(row.took, 0),
        tuple(parts_of(recorded, steps.times(folder.lines(TIMES)), began)),
        sum(line.counted for line in lines),
        sum(part.tokens for line in lines for part in line.sent if not part.first),
        ledger.spent(lines)[0].cached_tokens,
    )


def parts_of(
    taken: Iterable[Step],
    times: Mapping[tuple[int, int], int] | None = None,
    began: int | None = None,
) -> list[Part]:
    """Return the steps of a run as parts of its lane; a call and its result are one. `times` says
    when they were recorded, `began` when the run began.
    """
    parts: list[Part] = []
    names: dict[str, str] = {}
    called: dict[str, int | None] = {}
    last = began
    for step in taken:
        at = times.get((step.n, step.epoch)) if times else None
        if step.kind == "turn":
            turn = step.fields["turn"]
            names = {call["id"]: str(call["name"]) for call in turn["calls"]}
            called = {}
            model = str(turn.get("model") or "model")
            parts.append(Part(MODEL, model, last, at))
        elif step.kind == "call":
            called[step.fields["call"]] = at
        elif step.kind == "result":
            call = step.fields["call"]
            name = names.get(call, "tool")
            kind = WAIT if name in WAITS else TOOL
            parts.append(Part(kind, name, called.get(call) or last, at))
        elif step.kind == "message":
            parts.append(Part(NEWS, str(step.fields.get("why", "message")), at, at))
        elif step.kind == "attempt":
            parts.append(Part(TAKEN, "another process went on", at, at))
        last = at if at is not None else last
    return parts


def busiest(found: Sequence[Lane], most: int = 3) -> list[Window]:
    """Return the windows in which most ran at once, the busiest first; none where no two did."""
    windows = [window for window in windows_of(found) if len(window.runs) > 1]
    windows.sort(key=lambda window: (-len(window.runs), window.began - window.ended))
    return windows[:most]


def windows_of(found: Sequence[Lane]) -> list[Window]:
    """Return the time of these lanes cut wherever a run began or ended, in order."""
    cuts = sorted({at for lane in found for at in (lane.began, lane.ended)})
    windows = []
    for began, ended in pairwise(cuts):
        running = [lane for lane in found if lane.began <= began and lane.ended >= ended]
        if running:
            windows.append(
                Window(began, ended, tuple(lane.row.id for lane in running), _hourly(running))
            )
    return windows


def _hourly(here: Sequence[Lane]) -> float | None:
    rates = [
        lane.row.cost * HOUR / (lane.ended - lane.began)
        for lane in here
        if lane.row.cost is not None and lane.ended > lane.began
    ]
    return sum(rates) if rates else None
