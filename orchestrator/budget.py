"""How much of a task's tokens may go into memory: the view's budget, and whether tools for it are offered. Pure.

A prompt is sent again at every turn, so a token of the view or of a tool's schema is paid as often as there are
turns. What it may cost is a share of the work that such tasks took before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orchestrator.ledger import COORDINATION, Line, by_label, overhead
from orchestrator.task import check_mode
from synapse.errors import InvalidQuery

SHARE = 0.05  # of the task's tokens, that coordination may cost
MARGIN = 0.8  # of that, what is planned: histories vary
MOST = 2_000  # tokens of a view
LEAST = 120  # with its frame; below that, a view holds what is critical and nothing else
CRITICALS = 240  # tokens that what is critical may take, whatever the task
CAPSULE = 680  # tokens of 2,048 bytes, that a call of a memory tool gives back at most
NEWEST = 20  # runs of the role that are looked at
STAND_IN = 3  # with fewer runs than this, the stated expectation stands in for those that are missing


class Past(NamedTuple):
    """One run of the role, from its ledger: the tokens of its work as billed, its turns, the billed tokens of what
    memory costs besides view, schemas and capsules, and how often a memory tool gave something back, where the
    run had such tools."""

    work: int
    turns: int
    other: int = 0
    capsules: int | None = None


class Expected(NamedTuple):
    """What a run of the role takes, on average; `runs` of its own stand behind it."""

    work: float
    turns: float
    other: float
    capsules: float
    runs: int = 0


class Plan(NamedTuple):
    """What is spent on memory in one run. `view` is the tokens of the view and its frame; `only_critical`: there is
    no room for more than that. `share` is what it is expected to cost of the work; `why` says it in words."""

    view: int
    only_critical: bool
    tools: bool
    share: float
    why: str


# What is expected of a role before it has a history: turns, and tokens that each adds to the conversation.
_STATED = {"cto": (20, 1_500), "project-lead": (20, 1_500), "engineer": (12, 1_500), "specialist": (8, 1_200)}
_START = 1_200  # tokens of system text and task


def stated(role: str) -> Expected:
    turns, growth = _STATED.get(role, _STATED["engineer"])
    work = turns * _START + growth * turns * (turns - 1) // 2 + growth * turns // 3
    return Expected(work, turns, 150.0, 1.0)


def expected(role: str, past: Sequence[Past]) -> Expected:
    """What the newest runs took.

    Plain means: the sum of what all runs cost is what has to stay below its share, so a long run may pay for a
    short one.
    """
    newest = [run for run in past if run.turns > 0][-NEWEST:]
    before = stated(role)
    work, turns, other, capsules = before[:4]
    runs = [*newest, *[Past(int(work), int(turns), int(other))] * max(STAND_IN - len(newest), 0)]
    told = [run.capsules for run in newest if run.capsules is not None]
    return Expected(
        sum(run.work for run in runs) / len(runs),
        sum(run.turns for run in runs) / len(runs),
        sum(run.other for run in runs) / len(runs),
        sum(told) / len(told) if told else capsules,
        len(newest),
    )


def plan(
    expected: Expected,
    schema: int = 0,
    *,
    fixed: int = 0,
    tools: str = "auto",
    view: int | str = "auto",
    spare: int = 0,
) -> Plan:
    """The budget of a run. `schema`: tokens of the memory tools' schemas; `fixed`: of other schemas that
    coordination needs; `spare`: what others of its tree have left of their share. A view given as a number is taken
    as it is.

    Tools are offered where the task itself pays for their schemas, at every turn, and for what they are expected to
    give back, and still has room for a view. What others left goes into the view, whose size is certain.
    """
    check(tools, view)
    bare, tooled = (_room(expected, fixed + schema * offered, offered) for offered in (False, True))
    offered = tools == "always" or (tools == "auto" and schema > 0 and tooled >= _wanted(view))
    room = (tooled if offered else bare) + spare / max(expected.turns, 1.0)
    if view != "auto":
        size, only_critical = _number(view), False
    else:
        size, only_critical = (CRITICALS, True) if room < LEAST else (min(int(room), MOST), False)
    cost = max(_cost(expected, size, fixed + schema * offered, offered) - spare, 0.0)
    share = cost / expected.work if expected.work else 0.0
    return Plan(size, only_critical, offered, share, _why(expected, view, size, only_critical, offered, share, spare))


def check(tools: str, view: int | str) -> None:
    """Raise InvalidQuery where one of these options cannot be meant."""
    check_mode(tools)
    if view != "auto":
        _number(view)


def spare(spent: Iterable[tuple[int, int]]) -> int:
    """What runs have left of the share of their work: (coordination, work) of each, in billed tokens. What is known
    needs no margin."""
    return max(int(sum(SHARE * work - coordination for coordination, work in spent)), 0)


def _room(expected: Expected, schema: int, offered: bool) -> float:
    """The tokens of a view with which the run would cost its planned share."""
    turns = max(expected.turns, 1.0)
    return (MARGIN * SHARE * expected.work - _cost(expected, 0, schema, offered)) / turns


def _cost(expected: Expected, view: int, schema: int, offered: bool) -> float:
    """Billed tokens of coordination. A capsule stays in the conversation: on average, for half of the turns."""
    turns = max(expected.turns, 1.0)
    capsules = expected.capsules * CAPSULE * turns / 2 if offered else 0.0
    return (view + schema) * turns + capsules + expected.other


def _wanted(view: int | str) -> int:
    """The view that has to fit beside the tools."""
    return LEAST if view == "auto" else min(_number(view), MOST)


def _number(view: int | str) -> int:
    try:
        size = int(view)
    except ValueError:
        size = -1
    if size < 0:
        raise InvalidQuery(f"view_budget {view!r} is neither auto nor a number of tokens", view_budget=view)
    return size


def _why(
    expected: Expected, view: int | str, size: int, only_critical: bool, offered: bool, share: float, spare: int
) -> str:
    source = _counted(expected.runs, "earlier run") if expected.runs else "no history yet: the stated expectation"
    task = f"{expected.work:,.0f} tokens of work in {_counted(round(expected.turns), 'turn')} ({source})"
    if view != "auto":
        told = f"{size:,} tokens as asked for"
    elif only_critical:
        told = "only what is critical: the task is too short to pay for more"
    else:
        told = f"{size:,} tokens{', the most there is' if size == MOST else ''}"
    tools = "tools offered" if offered else "no memory tools"
    left = f", beyond the {spare:,} tokens that others of its tree left" if spare else ""
    return f"{told}, {tools}; about {share:.1%} of {task}{left}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def past(lines: Sequence[Line], capsules: int | None = None) -> Past:
    """A run as history, from its ledger."""
    billed = by_label(lines)
    planned = ("guide", "view", "tool_schema", "capsule")
    other = sum(billed.get(label, 0) for label in COORDINATION if label not in planned)
    work = overhead(lines).work + billed.get("guide", 0)  # which no plan changes
    return Past(work, len(lines), other, capsules)
