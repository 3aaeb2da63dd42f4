"""The forms of the answers about runs, as the OpenAPI document describes them. Those of values that
are answered as they are follow from the values' own fields.
"""

from __future__ import annotations

import typing
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from orchestrator.reports.details import Account, Reading
from orchestrator.reports.wakes import Wake
from orchestrator.waiting.inbox import Item
from synapse.server.routes.parameters import Body


def shape(kind: Any) -> Any:
    """Return a type as JSON has it: named tuples, at any depth, are objects."""
    if hasattr(kind, "_fields"):
        return _object(kind)
    kinds = [shape(inner) for inner in typing.get_args(kind) if inner is not Ellipsis]
    origin = typing.get_origin(kind)
    if origin is UnionType:
        return reduce(or_, kinds)
    if origin is tuple:
        return list[kinds[0]]  # type: ignore[valid-type]
    return origin[tuple(kinds)] if origin else kind


@cache
def _object(kind: Any) -> Any:
    return form(kind.__name__, kind.__doc__, **typing.get_type_hints(kind))


def form(name: str, doc: str, /, **fields: Any) -> Any:
    """Return the form of a JSON object."""
    made: Any = {field: (shape(kind), ...) for field, kind in fields.items()}
    return create_model(name, __doc__=doc, __module__=__name__, **made)


class Run(BaseModel):
    """A run: its records laid over one another, and its own figures as of now, without what lies
    below it. `cost` is in dollars.
    """

    model_config = ConfigDict(extra="allow")

    run: str
    agent: str
    project: str | None = None
    task: str | None = None
    parent: str | None = None
    root: str
    state: str
    at: int
    turns: int
    tokens: int
    estimated: bool
    cost: float | None
    seconds: float
    waits: str | None = None


class Runs(BaseModel):
    """Runs, newest first; `matched` is how many there are without a limit."""

    runs: list[Run]
    matched: int


class Total(BaseModel):
    """What a run took with all below it."""

    runs: int
    turns: int
    tokens: int
    estimated: bool
    cost: float | None
    seconds: float


class Node(Run):
    """A run with those that it spawned."""

    total: Total
    children: list[Node]


class Trees(BaseModel):
    """Trees of runs, oldest first."""

    trees: list[Node]


class Step(BaseModel):
    """A line of a run's steps; its other fields depend on its kind."""

    model_config = ConfigDict(extra="allow")

    n: int
    epoch: int
    kind: str


class Included(BaseModel):
    """An entry in a prompt."""

    id: str
    tokens: int
    form: str
    kind: str


class LeftOut(BaseModel):
    """Entries that are not in a prompt, and why."""

    why: str
    total: int
    ids: list[str]


class Receipt(BaseModel):
    """What a prompt was made of: what went in at how many tokens, what stayed out, and why."""

    model_config = ConfigDict(extra="allow")

    run: str
    agent: str
    at: int
    cursor: int
    counting: str
    budget: int
    why: str
    tokens: dict[str, int]
    included: list[Included]
    left_out: list[LeftOut]


class Debts(BaseModel):
    """Results that cost turns and that nobody read, with what they cost together."""

    debts: list[Run]
    tokens: int
    cost: float | None


class AnswerTo(Body):
    """The answer to a run that waits, a blocker or a question, by its name."""

    to: str
    text: str


class Answered(BaseModel):
    """What became of an answer: the entry that is done, those that tell it, and the run that goes
    on with its tree, empty where none waited; `line` goes on with it where no process does.
    """

    entry: str
    entries: list[str]
    run: str
    line: str


class Stop(Body):
    """Why a run is to end."""

    reason: str = "stopped by the operator"


class Stopped(BaseModel):
    """A run that was asked to end. `orphaned`: its process is gone, and `orchestrator resume`
    writes its end.
    """

    stopped: str
    reason: str
    orphaned: bool


Detail = form(
    "Detail",
    "A run with its steps, its receipt, its result, its children and who read its result.",
    run=Run,
    steps=list[Step],
    receipt=Receipt | None,
    account=form("Account", Account.__doc__ or "", **typing.get_type_hints(Account), spared=int),
    result=str,
    children=list[Run],
    readings=list[Reading],
    damaged=str,
    trimmed=str,
)
Waiting = form(
    "Waiting",
    "Something that only a person can move. `age` is in seconds, `cost` in dollars, and `line` the"
    " command that moves it.",
    **{**typing.get_type_hints(Item), "at": str, "age": int},
)
Inbox = form(
    "Inbox",
    "What waits for a person, the longest first.",
    waiting=list[Waiting],  # type: ignore[valid-type]
)
Wakes = form("Wakes", "The wakes of the newest entries first.", wakes=list[Wake])
