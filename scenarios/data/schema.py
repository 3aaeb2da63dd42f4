"""What a scenario is: `brain-suite/v1`. Values, pure; `reading` makes them from files.

A scenario says who takes part, what has to become known, who does what, and what is expected of the
figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import product
from random import Random
from typing import Any, NamedTuple

SCHEMA = "brain-suite/v1"
PLAYS = ("cto", "lead", "worker")
OPERATORS = ("==", ">=", "<=", ">", "<")
VALUES = ("hex", "int")
SHIPPED, NIGHTLY = "shipped", "nightly"  # the arms that gates are about


class Parameter(NamedTuple):
    """What any scenario may set, and its grid vary. `source` says where the value that `degraded`
    agents have comes from: a paper, a recording, or an assumption."""

    value: Any
    what: str
    degraded: Any = None
    source: str = "assumption"


IDEAL, DEGRADED = AGENTS = ("ideal", "degraded")
_GUESS = "assumption: no model was measured; `brain-suite calibrate` measures one"
PARAMETERS: Mapping[str, Parameter] = {
    "agents": Parameter(IDEAL, "ideal, or degraded: every parameter below that says so, together"),
    "p_read": Parameter(1.0,
    "chance that what is shown unasked, or given by a search, is taken in", 0.9, _GUESS),
    "tool_use": Parameter(1.0, "chance that a tool of the memory is used where it helps", 0.6,
    _GUESS),
    "beside": Parameter(1.0,
    "chance that a note is written beside the next call, where the tool asks", 0.0, _GUESS),
    "claims": Parameter(True, "whether agents reserve work before they take it up, where they can"),
    "claims_otherwise": Parameter(0.0, "chance that a claim is worded another way", 0.5, _GUESS),
    "bare_queries": Parameter(0.0, "chance that a search leaves out the number or identifier",
    1.0, _GUESS),
    "chatter": Parameter(0.0,
    "chance a turn of a note of 40 words on progress, where one can be written", 0.3, _GUESS),
    "wrong_notes": Parameter(0.0, "chance that a finding is written down with a wrong value",
    0.05, _GUESS),
    "heeds": Parameter(1.0,
    "chance that what a lower authority says, or in dispute, is looked up first", 0.9, _GUESS),
    "err": Parameter(0.0,
    "chance that what an agent finds out by itself fails, or is wrong: half each"),
    "window": Parameter(128_000,
    "tokens attended to; the middle of a longer prompt is read half the time",
                        source="the context of the models that are counted as"),
    "slip": Parameter(0.0, "chance that something is said wrongly when it is said again"),
    "relay_loss": Parameter(0.12,
    "chance that a lossy manager drops or changes a fact that it passes on"),
    "bell_lost": Parameter(1.0,
    "chance that no notification comes of news; at 1, supervisors look every second"),
    "told_twice": Parameter(0.0, "chance that news is delivered once more, after it was told"),
    "price": Parameter(1.0,
    "what finding something out oneself costs, times the scenario's own figure"),
}  # fmt: skip
# What isolated agents take no heed of: how the memory is read, used, relayed and told of. Wrong
# notes are not of it: the same words go wrong in what an agent says at its end.
OF_MEMORY = frozenset(
    ("p_read", "tool_use", "beside", "claims", "claims_otherwise", "bare_queries", "chatter",
    "heeds", "relay_loss",
     "bell_lost", "told_twice")
)  # fmt: skip


def agents_as(kind: str) -> dict[str, Any]:
    """Return the parameters of agents of this kind, ideal or degraded."""
    return {
        name: one.degraded if kind == DEGRADED and one.degraded is not None else one.value
        for name, one in PARAMETERS.items()
    } | {"agents": kind}


class Size(NamedTuple):
    """How large something is: a lognormal by its median and its ninth decile; equal ones are a
    fixed size.
    """

    p50: float
    p90: float


class Cost(NamedTuple):
    """What finding a fact out oneself takes: calls of a tool, and tokens that they give back in
    all.
    """

    turns: int = 3
    tokens: int = 4_500


class Fact(NamedTuple):
    """Something that has a value, drawn anew for each seed so that nobody can guess it.

    `subject` is what tasks, searches and statements call it. `known` names the agent whose entry
    held it before the run began. Found by an agent that can write, it goes to `namespace` with
    `priority`; `topic` makes two entries of it rivals. One that is `decided_by` an agent cannot be
    found out by anybody; where it is `also_by` another, that one decides it too, and otherwise: two
    answers that contradict each other.
    """

    id: str
    subject: str
    value: str = "hex"
    low: int = 0
    high: int = 0
    unit: str = ""
    namespace: str = "projects/notes"
    priority: str = "important"
    topic: str | None = None
    known: str | None = None
    decided_by: str | None = None
    also_by: str | None = None
    cost: Cost = Cost()


class Member(NamedTuple):
    """An agent that takes part. `plays` says by which policy."""

    id: str
    role: str = "engineer"
    plays: str = "worker"
    authority: int | None = None
    department: str | None = None
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    notify: tuple[str, ...] = ("critical",)


class Draw(NamedTuple):
    """Needs that are drawn for each seed: so many, each with the chance `overlap` of the facts that
    all draw from (`common`), else of those that nobody else gets (`own`).
    """

    number: int
    common: str
    own: str
    overlap: float


class Job(NamedTuple):
    """A task. `given` names the task whose agent gives it out, as its own text says; without, the
    scenario does.

    `after` and `at` (seconds) say when; `needs` names facts, `draws` others by lot; `acts`: they
    are used at every step, not only in the end. `makes` is a fact that comes of it. `hop` is its
    place in a chain; `passes`: its result says again what it was told.
    """

    id: str
    agent: str
    text: str
    given: str | None = None
    after: tuple[str, ...] = ()
    at: float = 0.0
    needs: tuple[str, ...] = ()
    draws: Draw | None = None
    acts: bool = False
    steps: Size = Size(0, 0)
    makes: str | None = None
    hop: int | None = None
    passes: bool = False
    role: str | None = None


class Happening(NamedTuple):
    """Something that happens from outside at a time (seconds): `by` writes the fact's next value;
    or, where it is `wrong`, a value that is not true, in one of the ways that the harness knows;
    or what it `says` of the fact's `{subject}`, which is no value of it. `at` 0 is before anybody
    begins.
    """

    at: float
    write: str
    by: str
    supersedes: bool = False
    priority: str | None = None
    wrong: str | None = None
    place: str | None = None
    says: str | None = None


class Background(NamedTuple):
    """Entries that are there before the run begins and are about other things."""

    entries: int = 0
    namespaces: tuple[str, ...] = ("projects/notes",)
    by: tuple[str, ...] = ()
    days: float = 1.0
    tokens: Size = Size(60, 90)
    priority: str = "info"


class Gate(NamedTuple):
    """What a figure of what ships has to be: `metric op value`, with the scenario's own parameters
    or in the cell of its grid that is named: `metric[agents=ideal] op value`.
    """

    metric: str
    cell: str
    op: str
    value: float

    @property
    def text(self) -> str:
        cell = f"[{self.cell}]" if self.cell else ""
        return f"{self.metric}{cell} {self.op} {self.value:g}"


class Sizes(NamedTuple):
    """How large the pieces of a conversation are, in tokens, and how long an agent thinks, in
    seconds.
    """

    observation: Size = Size(834, 1_456)
    output: Size = Size(236, 601)
    thinks: Size = Size(8, 25)


class Scenario(NamedTuple):
    """A scenario with all of its parameters put in. `headline` says why it is judged with these and
    no others; `full`, how many runs there are where all are asked for.
    """

    id: str
    title: str
    shows: str
    headline: str
    seed: int
    runs: int
    full: int
    project: str
    start: str
    arms: tuple[str, ...]
    kind: str
    facts: tuple[Fact, ...]
    agents: tuple[Member, ...]
    jobs: tuple[Job, ...]
    happenings: tuple[Happening, ...]
    background: Background
    sizes: Sizes
    gates: tuple[Gate, ...]
    grid: tuple[Mapping[str, Any], ...]
    params: Mapping[str, Any]
    cell: Mapping[str, Any]
    digest: str

    @property
    def gated(self) -> str:
        """Return the arm that is judged: what ships. For a memory alone, the nights that it ships
        with.
        """
        return NIGHTLY if self.kind == "memory" else SHIPPED

    def fact(self, id: str) -> Fact:
        return next(fact for fact in self.facts if fact.id == id)

    def job(self, id: str) -> Job:
        return next(job for job in self.jobs if job.id == id)

    def given_by(self, id: str) -> list[Job]:
        """Return the tasks that the agent of this one gives out."""
        return [job for job in self.jobs if job.given == id]


KINDS = ("team", "memory", "crash")


def drawn_needs(scenario: Scenario, seed: int) -> Scenario:
    """Return the scenario under a seed: every task with the needs that it draws."""
    ids, used, jobs = [fact.id for fact in scenario.facts], 0, []
    for job in scenario.jobs:
        if job.draws is not None:
            random, draws = Random(f"{scenario.id} {seed} needs {job.id}"), job.draws
            shared = sum(random.random() < draws.overlap for _ in range(draws.number))
            own = matching(draws.own, ids)[used : used + draws.number - shared]
            used += draws.number - shared
            lot = random.sample(matching(draws.common, ids), shared)
            job = job._replace(needs=(*job.needs, *lot, *own))
        jobs.append(job)
    return scenario._replace(jobs=tuple(jobs))


def matching(glob: str, ids: Iterable[str]) -> list[str]:
    """Return the ids that a glob means."""
    return [id for id in ids if fnmatchcase(id, glob)]


def cells(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the cells of its grid, in which something differs from the scenario's own parameters;
    each once.
    """
    result: list[dict[str, Any]] = []
    for axis in scenario.grid:
        levels = (v if isinstance(v, list) else [v] for v in axis.values())
        for values in product(*levels):
            cell = {
                name: value
                for name, value in zip(axis, values, strict=True)
                if scenario.params[name] != value
            }
            if cell and cell not in result:
                result.append(cell)
    return result
