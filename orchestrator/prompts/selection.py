"""The selection of entries for a prompt: by what an entry is expected to save, and what it costs.
Pure.

A prompt is sent again at every turn, so a token of the view is paid as often as there are turns. An
entry that is used saves the turns in which the agent would have found it out alone. How likely
entries are used is learned, kind by kind, from earlier runs of the role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from orchestrator.engines.protocol import Turn
from orchestrator.runs.files.ledger import COORDINATION, Line, by_label, overhead
from orchestrator.runs.task import check_mode
from synapse.errors import InvalidQuery
from synapse.model.condense import specifics
from synapse.model.worth import (
    ADDRESSED,
    CHANCES,
    CRITICAL,
    IMPORTANT,
    KINDS,
    NAMED,
    NEAR,
    STATUS,
    Worth,
)
from synapse.view.view import View

CRITICALS = 2_000  # tokens that what is critical may take, whatever the task
MOST = 2_000  # tokens of the rest of a view, with its frame
# tokens of what a clause of the task names, that are there whatever they save
LEAST = 600
# tokens of the recent decisions to all, that are there where they are few, whatever they save
DECISIONS = 240
# what finding one thing out alone takes: turns, and tokens that they give back
FIND_TURNS, FIND_TOKENS = 3, 4_500
NEWEST = 20  # runs of the role that are looked at
# with fewer runs than this, the stated expectation stands in for those that are missing
STAND_IN = 3
# what of coordination is not counted as other
PLANNED = ("guide", "view", "tool_schema", "capsule")
DOUBT = 10  # entries that a stated chance counts for, beside those that runs were shown


class Past(NamedTuple):
    """One run of the role, from its ledger: the tokens of its work as billed, its turns, the billed
    tokens of what memory costs besides view, schemas and capsules, how often a memory tool gave
    something back, where the run had such tools, and, kind by kind, how many entries it used of how
    many that it was shown and could be told.
    """

    work: int
    turns: int
    other: int = 0
    capsules: int | None = None
    uses: Mapping[str, Sequence[int]] = {}


class Expected(NamedTuple):
    """What a run of the role takes, on average, and how likely it uses an entry of each kind;
    `runs` of its own stand behind it.
    """

    work: float
    turns: float
    chances: Mapping[str, float]
    runs: int = 0


class Plan(NamedTuple):
    """What one run is given: the tokens of the view and its frame, and whether it is offered the
    memory's tools. `why` says in words what the view was chosen by.
    """

    view: int
    tools: bool
    why: str


# What is expected of a role before it has a history: turns, and tokens that each adds to the
# conversation.
_STATED = {
    "cto": (40, 1_000),
    "project-lead": (40, 1_000),
    "engineer": (30, 1_200),
    "specialist": (20, 1_200),
    "qa": (16, 1_200),
}
_START = 1_200  # tokens of system text and task

_NAMES = {
    CRITICAL: "critical",
    NAMED: "found by the task's words",
    NEAR: "near to the task's words",
    ADDRESSED: "addressed",
    IMPORTANT: "important",
    STATUS: "recent",
}


def stated(role: str) -> Expected:
    """Return what is expected of a role that has no history."""
    turns, growth = _STATED.get(role, _STATED["engineer"])
    work = turns * _START + growth * turns * (turns - 1) // 2 + growth * turns // 3
    return Expected(work, turns, CHANCES)


def expected(role: str, past: Sequence[Past]) -> Expected:
    """Return what the newest runs took, and used: plain means, and of each chance what is stated as
    if so many entries stood behind it.
    """
    newest = [run for run in past if run.turns > 0][-NEWEST:]
    before = stated(role)
    missing = [Past(int(before.work), int(before.turns))] * max(STAND_IN - len(newest), 0)
    runs = [*newest, *missing]
    return Expected(
        sum(run.work for run in runs) / len(runs),
        sum(run.turns for run in runs) / len(runs),
        {kind: _chance(kind, newest) for kind in KINDS},
        len(newest),
    )


def _chance(kind: str, runs: Sequence[Past]) -> float:
    """Return the chance of an entry of this kind to be used: the mean of what is stated and what
    was.
    """
    pairs = [run.uses[kind] for run in runs if kind in run.uses]
    used, total = (sum(pair[index] for pair in pairs) for index in (0, 1))
    return round((CHANCES[kind] * DOUBT + used) / (DOUBT + total), 4)


def worth(of: Expected, scale: float = 1.0, floor: int = 0) -> Worth:
    """Return by what a view is chosen. A token of it is sent at each turn; finding something out
    alone takes turns of the run's usual size, and what they give back is sent again for half of the
    run. `scale`: our tokens in one of the provider's. `floor`: tokens of what is important, that
    are there whatever they save.
    """
    turns = max(of.turns, 1.0)
    saving = FIND_TURNS * of.work / turns + FIND_TOKENS * turns / 2
    sizes = (int(size * scale) for size in (CRITICALS, MOST, LEAST, floor, DECISIONS))
    return Worth(round(saving, 1), round(turns, 2), dict(of.chances), *sizes)


def number(view: int | str) -> int | None:
    """Return a view's budget in tokens, as it was asked for; None for `auto`."""
    if view == "auto":
        return None
    try:
        size = int(view)
    except ValueError:
        size = -1
    if size < 0:
        raise InvalidQuery(
            f"view_budget {view!r} is neither auto nor a number of tokens", view_budget=view
        )
    return size


def check(tools: str, view: int | str) -> None:
    """Raise InvalidQuery where one of these options cannot be meant."""
    check_mode(tools)
    number(view)


def offers(mode: str, coordinates: bool, unfit: int) -> bool:
    """Return whether the memory's tools are offered: always to who coordinates others, and to the
    rest where entries that concern the task are not in the view; unless somebody decided it.
    """
    return mode == "always" or (mode == "auto" and (coordinates or unfit > 0))


def reason(view: View, tokens: int, size: int | None, of: Expected, by: Worth) -> str:
    """Return in words what is in a view and by what it was chosen. `size`: the tokens that were
    asked for.
    """
    source = (
        _counted(of.runs, "earlier run") if of.runs else "no history yet: the stated expectation"
    )
    task = f"a run takes {of.work:,.0f} tokens in {_counted(round(of.turns), 'turn')} ({source})"
    reasons = _parts(view, by) if size is None else []
    size_text = f"{tokens:,} tokens" if size is None else f"{size:,} tokens as asked for"
    counts = (
        f"{size_text}: {', '.join(reasons)}"
        if reasons
        else size_text
        if size is not None or view.text
        else "nothing to show"
    )
    omitted = f"; {_left(view, by)}" if size is None and view.left_out else ""
    return f"{counts}{omitted}; {task}"


def _parts(view: View, by: Worth) -> list[str]:
    """Return how many entries of each kind there are, and what they are expected to save."""
    kinds = [entry.why for entry in view.included]
    reasons = []
    for kind in (CRITICAL, *KINDS):
        if count := kinds.count(kind):
            saves = f" (p {by.chances.get(kind, 0.0):.2g})" if kind != CRITICAL else ""
            reasons.append(f"{count} {_NAMES[kind]}{saves}")
    if any(kind != CRITICAL for kind in kinds):
        reasons[-1] += f", one that is used saves {by.saving:,.0f}"
    return reasons


def _left(view: View, by: Worth) -> str:
    count = len(view.left_out)
    less = f"would cost more than {'it is' if count == 1 else 'they are'} expected to save"
    if view.unfit:
        return f"{count:,} left out, of which {view.unfit:,} concern the task and have no room"
    return (
        f"{count:,} {'other' if count == 1 else 'others'} left out: {less} (p"
        f" {by.chances[STATUS]:.2g} to {by.chances[IMPORTANT]:.2g}, {by.price:g} turns)"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# -- What a run leaves for the next ----------------------------------------------------------------


def past(lines: Sequence[Line], capsules: int | None = None) -> Past:
    """Return a run as history, from its ledger."""
    billed = by_label(lines)
    coordination = sum(billed.get(label, 0) for label in COORDINATION if label not in PLANNED)
    work = overhead(lines).work + billed.get("guide", 0)  # which no plan changes
    return Past(work, len(lines), coordination, capsules)


def uses(
    shown: Iterable[tuple[str, str]], task: str, turns: Iterable[Turn]
) -> dict[str, list[int]]:
    """Return, kind by kind, how many of the entries that a prompt showed were used, of those of
    which it can be told. `shown` are pairs of kind and text. An entry was used where the agent
    wrote a name, figure or address that it has and the task has not; one that has none tells
    nothing.
    """
    texts = written(turns)
    counts: dict[str, list[int]] = {}
    for kind, text in shown:
        names = own_names(text, task)
        if names and kind != CRITICAL:
            count = counts.setdefault(kind, [0, 0])
            count[0] += any(name in texts for name in names)
            count[1] += 1
    return counts


def written(turns: Iterable[Turn]) -> str:
    """Return all that an agent wrote in its turns, to others or into the arguments of its calls."""
    texts = (
        (
            turn.text,
            *(json.dumps(call.arguments, ensure_ascii=False, default=str) for call in turn.calls),
        )
        for turn in turns
    )
    return "\n".join(chain.from_iterable(texts))


def own_names(text: str, besides: str) -> set[str]:
    """Return the names, figures and addresses that one text has and another has not."""
    return {name for name in specifics(text) - specifics(besides) if name not in besides}
