"""What a scenario is: `brain-suite/v1`. Values, pure; `reading` makes them from files.

A scenario says who takes part, what has to become known, who does what, and what is expected of the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Any, NamedTuple

SCHEMA = "brain-suite/v1"
LEVELS = ("L0", "L1", "L2")
PLAYS = ("cto", "lead", "worker")
OPERATORS = ("==", ">=", "<=", ">", "<")
VALUES = ("hex", "int")

# What any scenario may set, and its grid vary: how agents read, use tools and think. See cast.
PARAMETERS: Mapping[str, Any] = {
    "p_read": 1.0,  # chance that what stands in a prompt is taken in
    "tool_use": 1.0,  # chance that a tool of the memory is used where it helps
    "beside": 1.0,  # chance that an agent writes its notes beside its next call, where the tool asks for that
    "claims": True,  # whether agents reserve work before they take it up, where they can
    "window": 128_000,  # tokens an agent attends to; what is in the middle of a longer prompt is read half the time
    "slip": 0.0,  # chance that an agent says something wrongly when it says it again
    "relay_loss": 0.12,  # chance that a manager drops or changes a fact that it passes on
    "bell_lost": 1.0,  # chance that nobody is rung when news was written; at 1, supervisors look every second, no more
    "told_twice": 0.0,  # chance that news is delivered to an agent once more, after it was told
    "price": 1.0,  # what finding something out oneself costs, times the scenario's own figure
}
# What isolated agents take no heed of: how the memory is read, used, relayed and told of.
OF_MEMORY = frozenset(("p_read", "tool_use", "beside", "claims", "relay_loss", "bell_lost", "told_twice"))


class Size(NamedTuple):
    """How large something is: a lognormal by its median and its ninth decile; equal ones are a fixed size."""

    p50: float
    p90: float


class Cost(NamedTuple):
    """What finding a fact out oneself takes: calls of a tool, and tokens that they give back in all."""

    turns: int = 3
    tokens: int = 4_500


class Fact(NamedTuple):
    """Something that has a value, drawn anew for each seed so that nobody can guess it.

    `subject` is what tasks, searches and statements call it. `known` names the agent whose entry held it before the
    run began. Found by an agent that can write, it goes to `namespace` with `priority`; `topic` makes two entries of
    it rivals. One that is `decided_by` an agent cannot be found out by anybody; where it is `also_by` another, that one
    decides it too, and otherwise: two answers that contradict each other.
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
    """Needs that are drawn for each seed: so many, each with the chance `overlap` of the facts that all draw from
    (`common`), else of those that nobody else gets (`own`)."""

    number: int
    common: str
    own: str
    overlap: float


class Job(NamedTuple):
    """A task. `given` names the task whose agent gives it out, as its own text says; without, the scenario does.

    `after` and `at` (seconds) say when; `needs` names facts, `draws` others by lot; `acts`: they are used at every
    step, not only in the end. `makes` is a fact that comes of it. `hop` is its place in a chain; `passes`: its result
    says again what it was told.
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
    """Something that happens from outside at a time (seconds): `by` writes the fact's next value; or, where it is
    `wrong`, a value that is not true, in one of the ways that the harness knows. `at` 0 is before anybody begins."""

    at: float
    write: str
    by: str
    supersedes: bool = False
    priority: str | None = None
    wrong: str | None = None
    place: str | None = None


class Background(NamedTuple):
    """Entries that are there before the run begins and are about other things."""

    entries: int = 0
    namespaces: tuple[str, ...] = ("projects/notes",)
    by: tuple[str, ...] = ()
    days: float = 1.0
    tokens: Size = Size(60, 90)
    priority: str = "info"


class Gate(NamedTuple):
    """What a figure has to be: `metric op value`, in the gated arm or the one that is named, `metric[arm]`."""

    metric: str
    arm: str | None
    op: str
    value: float

    @property
    def text(self) -> str:
        where = f"[{self.arm}]" if self.arm else ""
        return f"{self.metric}{where} {self.op} {self.value:g}"


class Sizes(NamedTuple):
    """How large the pieces of a conversation are, in tokens, and how long an agent thinks, in seconds."""

    observation: Size = Size(834, 1_456)
    output: Size = Size(236, 601)
    thinks: Size = Size(8, 25)


class Scenario(NamedTuple):
    """A scenario with all of its parameters put in. `headline` says why it is judged with these and no others; `full`,
    how many runs there are where all are asked for."""

    id: str
    title: str
    shows: str
    headline: str
    seed: int
    runs: int
    full: int
    project: str
    start: str
    levels: tuple[str, ...]
    arms: tuple[str, ...]
    gated: str
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

    def fact(self, id: str) -> Fact:
        return next(fact for fact in self.facts if fact.id == id)

    def job(self, id: str) -> Job:
        return next(job for job in self.jobs if job.id == id)

    def given_by(self, id: str) -> list[Job]:
        """The tasks that the agent of this one gives out."""
        return [job for job in self.jobs if job.given == id]


KINDS = ("team", "memory", "crash")


def drawn_needs(scenario: Scenario, seed: int) -> Scenario:
    """The scenario under a seed: every task with the needs that it draws."""
    ids, taken, jobs = [fact.id for fact in scenario.facts], 0, []
    for job in scenario.jobs:
        if job.draws is not None:
            random, draws = Random(f"{scenario.id} {seed} needs {job.id}"), job.draws
            shared = sum(random.random() < draws.overlap for _ in range(draws.number))
            own = matching(draws.own, ids)[taken : taken + draws.number - shared]
            taken += draws.number - shared
            lot = random.sample(matching(draws.common, ids), shared)
            job = job._replace(needs=(*job.needs, *lot, *own))
        jobs.append(job)
    return scenario._replace(jobs=tuple(jobs))


def matching(glob: str, ids: Iterable[str]) -> list[str]:
    """The ids that a glob means."""
    return [id for id in ids if fnmatchcase(id, glob)]
