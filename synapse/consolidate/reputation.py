"""Reputation: how the fate of an agent's entries moves the authority that it writes with. Pure:
deeds in, steps out.

No agent moves its own: only what others did counts, with entries that they were shown. Gains are
bounded by time, not by how much is written: one for each day of a period.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from synapse.model.agents import LEAST, MOST
from synapse.model.clock import DAY
from synapse.system.typed import NamedTuple

PERIOD = 30 * DAY
LIVED, ACTED, SUPERSEDED = "lived to its time", "acted on", "superseded"
WORTH = {LIVED: 1, ACTED: 5, SUPERSEDED: -2}


class Deed(NamedTuple):
    """What became of an agent's entry: when, by whom (empty where it just lived), who had been
    shown it, and the records that prove it."""

    kind: str
    agent: str
    entry: str
    at: int
    by: str = ""
    seen_by: tuple[str, ...] = ()
    records: tuple[int, ...] = ()


class Step(NamedTuple):
    """How much a deed moved, and why no more."""

    deed: Deed
    move: int
    why: str


def steps(
    deeds: Iterable[Deed], since: int, until: int, counted: Collection[tuple[str, str]] = ()
) -> list[Step]:
    """Return what each deed of a period moves. `counted` are the entries, with `gain` or `loss`,
    that moved it before.

    A period has one gain for each whole day. An entry that lived takes that of its own day; a
    critical one that others acted on is worth five, and takes any that are left. An entry gains
    once and loses once; another agent's supersedings cost one loss a day.
    """
    within = sorted({deed for deed in deeds if since < deed.at <= until}, key=_order)
    by_agent: dict[str, list[Deed]] = defaultdict(list)
    for deed in within:
        by_agent[deed.agent].append(deed)
    days = max((until - since) // DAY, 1)
    judged = [
        step for own in by_agent.values() for step in _agent_steps(own, since, days, set(counted))
    ]
    return sorted(judged, key=lambda step: _order(step.deed))


def total_move(authority: int, moves: Iterable[Step]) -> int:
    """Return by how much these steps move an authority: never below LEAST, nor above MOST, and
    never back over where it was."""
    after = authority + sum(step.move for step in moves)
    return min(max(after, min(authority, LEAST)), max(authority, MOST)) - authority


def _agent_steps(
    deeds: Sequence[Deed], since: int, days: int, counted: set[tuple[str, str]]
) -> Iterator[Step]:
    """Yield what one agent's deeds move. The most valuable ones come last: they take the days that
    are left."""
    used_days: set[int] = set()
    losses: set[tuple[str, int]] = set()
    acted = {deed.entry for deed in deeds if deed.kind == ACTED and not _why_void(deed)}
    for deed in sorted(deeds, key=lambda deed: (deed.kind == ACTED, _order(deed))):
        day = min((deed.at - since - 1) // DAY, days - 1)
        sort = "loss" if deed.kind == SUPERSEDED else "gain"
        why = _why_void(deed)
        if not why and (
            (deed.entry, sort) in counted or (deed.kind == LIVED and deed.entry in acted)
        ):
            why = "counts once"
        if why:
            yield Step(deed, 0, why)
        elif deed.kind == SUPERSEDED:
            yield _loss(deed, day, losses)
        else:
            yield _gain(deed, day, days, used_days)
        counted.update({(deed.entry, sort)} if not why else ())


def _why_void(deed: Deed) -> str:
    """Return why a deed counts for nothing at all; empty where it counts."""
    if deed.by == deed.agent:
        return "its own act"
    if not set(deed.seen_by) - {deed.agent}:
        return "nobody else was shown it"
    return ""


def _loss(deed: Deed, day: int, losses: set[tuple[str, int]]) -> Step:
    if (deed.by, day) in losses:
        return Step(deed, 0, f"{deed.by} had superseded another on that day")
    losses.add((deed.by, day))
    return Step(deed, WORTH[SUPERSEDED], f"{SUPERSEDED} by {deed.by}")


def _gain(deed: Deed, day: int, days: int, used_days: set[int]) -> Step:
    free = [number for number in (*range(day, days), *range(day)) if number not in used_days]
    got = free[: WORTH[ACTED]] if deed.kind == ACTED else [day] * (day in free)
    used_days.update(got)
    why = f"{deed.kind} by {deed.by}" if deed.kind == ACTED else deed.kind
    return Step(deed, len(got), why if len(got) == WORTH[deed.kind] else f"{why}; one gain a day")


def _order(deed: Deed) -> tuple[int, str, str, str, tuple[int, ...]]:
    return deed.at, deed.entry, deed.kind, deed.by, deed.records
