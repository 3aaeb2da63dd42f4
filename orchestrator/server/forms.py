"""The forms of the answers about runs, as the OpenAPI document describes them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from synapse.server.routes.parameters import Body


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


class Account(BaseModel):
    """What the tokens of a run were for. `memory_cost` is an estimate: its share of the dollars."""

    tokens: dict[str, int]
    memory: int
    memory_cost: float | None
    again: int
    cached: int
    counting: str
    shared: dict[str, int]
    spared: int


class Reading(BaseModel):
    """Whom a result reached, how, in which run and when."""

    who: str
    how: str
    run: str | None
    at: int | None


class Detail(BaseModel):
    """A run with its steps, its receipt, its result, its children and who read its result."""

    run: Run
    steps: list[Step]
    receipt: Receipt | None
    account: Account
    result: str
    children: list[Run]
    readings: list[Reading]
    damaged: str


class Sum(BaseModel):
    """What a group of runs took."""

    name: str
    runs: int
    done: int
    blocked: int
    failed: int
    running: int
    blockers: int | None
    tokens: int
    cost: float | None
    overhead: float | None
    spared: int
    estimated: bool


class Sums(BaseModel):
    """The sums of the groups, and of all runs."""

    by: str
    groups: list[Sum]
    all: Sum


class Debts(BaseModel):
    """Results that cost turns and that nobody read, with what they cost together."""

    debts: list[Run]
    tokens: int
    cost: float | None


class Wake(BaseModel):
    """A critical entry on its way to an agent: microseconds from its receipt to each state."""

    entry: str
    agent: str
    state: str
    run: str | None
    offered: int | None
    rendered: int | None
    acked: int | None
    body: str


class Wakes(BaseModel):
    """The wakes of the newest entries first."""

    wakes: list[Wake]


class Standing(BaseModel):
    """What was spent of a scope's limits; a limit that is null is none."""

    scope: str
    limits: dict[str, float | None]
    spent: dict[str, float]
    reserved: dict[str, float]
    runs: int
    live: int


class Limited(BaseModel):
    """Spend beside its limits, and the limits of each run and of each tree."""

    day: Standing
    workspace: Standing
    departments: list[Standing]
    run: dict[str, float | None]
    tree: dict[str, float | None]


class Waiting(BaseModel):
    """Something that only a person can move: who asks for what since when, what its tree took so
    far, and `line`, the command that moves it. `age` is in seconds, `cost` in dollars.
    """

    kind: str
    who: str
    text: str
    at: str
    age: int
    line: str
    run: str
    entry: str
    tokens: int
    cost: float | None


class Inbox(BaseModel):
    """What waits for a person, the longest first."""

    waiting: list[Waiting]


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
