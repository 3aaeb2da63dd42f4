"""Tasks and results: what a run is asked, and what it gives back. Values."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files.ledger import Overhead
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.namespace import is_namespace
from synapse.system.checks import fields_fit

MAX_REPLY = 8_192  # tokens of one reply, where a task does not say it
PLAYED = "played"  # it went to its end, and nobody worked
MODES = ("auto", "always", "never")  # when the memory's tools are offered
GIVEN = "given"  # how a shared tool's result came without a call
STATUSES = ("done", "blocked", "failed", "timeout", "stopped", "refused", PLAYED)


class Task(NamedTuple):
    """One piece of work for one agent. What is left at None comes from the agent's file, then from
    the supervisor.

    `view_budget` is the tokens that memory may take in the prompt, or auto. That, `max_tokens`,
    `max_usd`, `max_reply`, `memory_tools` and `tools` bind all that it spawns, too. `max_reply` is
    the tokens of one reply at most: each call reserves so many. `tools` says by name what tools
    share, as synapse.yaml does. `role` stands in for the agent's own, in the prompt and in
    what it is offered. `timeout` is in seconds. `folder` is where a client's process works; else
    where this one does. `intent` names the work: a second task of the same intent is the same work,
    whatever its text says; without one, the project, the agent and the text decide. With `once` it
    is done once: where the same work, with the same engine, model, tools, limits and program, is
    under way or was just done, that is its result. `team` says what the team is at whose first run
    this is, so that whoever goes on with its runs goes on with the team.
    """

    text: str
    agent: str
    project: str = "general"
    view_budget: int | str = "auto"
    max_tokens: int | None = None
    max_usd: float | None = None
    max_turns: int | None = None
    timeout: float | None = None
    engine: str | None = None
    model: str | None = None
    role: str | None = None
    memory_tools: str | None = None
    intent: str | None = None
    folder: str | None = None
    once: bool = False
    tools: Mapping[str, Any] = {}
    team: Mapping[str, Any] = {}
    max_reply: int | None = None


def check(task: Task) -> Task:
    """Return the task. Raise InvalidEntry where no run can begin with it: its project must name a
    namespace for its status, and a limit is a number that is not negative.
    """
    fields_fit(task, "task")
    if not task.text.strip():
        raise InvalidEntry("the task is empty: say what is to be done")
    if not is_namespace(f"status/{task.project}"):
        raise InvalidEntry(
            f"project {task.project!r} is not valid: a-z, 0-9, '_' and '-', such as"
            f" brain-suite, and '/' between its parts",
            project=task.project,
        )
    for name in ("max_tokens", "max_usd", "max_turns", "timeout"):
        bound = getattr(task, name)
        if bound is not None and not (isinstance(bound, int | float) and 0 <= bound < inf):
            raise InvalidEntry(
                f"{name} is {bound!r}; it is a number that is not negative, or none", limit=name
            )
    if task.max_reply is not None and task.max_reply < 1:
        raise InvalidEntry(
            f"max_reply is {task.max_reply!r}; a reply has a token at least", limit="max_reply"
        )
    check_mode(task.memory_tools)
    if task.view_budget != "auto" and not str(task.view_budget).isdecimal():
        raise InvalidEntry(
            f"view_budget {task.view_budget!r} is neither auto nor a number of tokens",
            view_budget=task.view_budget,
        )
    return task


def check_mode(tools: str | None) -> None:
    """Refuse what says nothing of when the memory's tools are offered."""
    if tools not in (None, *MODES):
        raise InvalidQuery(f"memory_tools {tools!r} is not one of {', '.join(MODES)}", tools=tools)


class Outcome(NamedTuple):
    """How a run ended, before anybody is told. `blocker` is the entry that says so, where there is
    one already: the agent's own, or that of a run below it; `below` names such runs. `operational`:
    the operator alone can do something about it (a key, a limit, an option, a provider), so the
    run's record says so and no entry does."""

    status: str
    text: str
    why: str = ""
    blocker: str | None = None
    debt: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    operational: bool = False


class Tree(NamedTuple):
    """What a run and all below it took: so many runs, their usage, and their cost in dollars, None
    where none of them has a price. A task's `max_tokens` and `max_usd` bind this.
    """

    runs: int = 0
    usage: Usage = Usage()
    cost: float | None = None

    def __add__(self, other: object) -> Tree:
        """Return both together."""
        if not isinstance(other, Tree):
            return NotImplemented
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        cost = sum(costs) if costs else None
        return Tree(self.runs + other.runs, self.usage + other.usage, cost)


class Result(NamedTuple):
    """What came of a task. `usage`, `cost` and `overhead` are the run's own, `tree` is what it and
    all below it took. `spared`: the calls of tools that were not made, for their results were
    there; `spared_tokens`: those that the calls gave who made them, less those that were given
    instead. `repeated` is empty, or says that it is an earlier result: which run did this work
    already, how long ago, and how it is done again. `run` is empty where a limit did not let it
    begin. `played`: a scripted engine without a script of yours stood in for whoever should have
    worked. `waiting`: it is blocked, and goes on from its steps once somebody has answered.
    """

    status: str
    text: str
    run: str
    usage: Usage = Usage()
    cost: float | None = None
    overhead: Overhead = Overhead(0, 0, 0, 0, 0, 0)
    summary: str = ""
    why: str = ""
    entry: str | None = None
    debt: tuple[str, ...] = ()
    repeated: str = ""
    warnings: tuple[str, ...] = ()
    tree: Tree = Tree()
    spared: int = 0
    played: bool = False
    waiting: bool = False
    spared_tokens: int = 0

    @property
    def done(self) -> bool:
        """Return whether the work is done."""
        return self.status == "done"

    def fields(self) -> dict[str, object]:
        """Return the result as values that JSON knows."""
        return self._asdict() | {
            "usage": self.usage._asdict(),
            "tree": {**self.tree._asdict(), "usage": self.tree.usage._asdict()},
            "overhead": {
                **self.overhead._asdict(),
                "billed": self.overhead.billed,
                "unique": self.overhead.unique,
            },
        }


def result_of(run: str, fields: Mapping[str, object], text: str) -> Result:
    """Return the result of a run that has ended, from its record, which knows nothing of its
    tree."""
    usage, overhead = fields.get("usage"), fields.get("overhead")
    shares = fields.get("shares")
    debt = fields.get("debt")
    cost = fields.get("cost")
    warnings = fields.get("warnings")
    return Result(
        status=str(fields.get("status", "failed")),
        text=text,
        run=run,
        usage=Usage(**usage) if isinstance(usage, dict) else Usage(),
        cost=float(cost) if isinstance(cost, int | float) else None,
        overhead=Overhead(*overhead)
        if isinstance(overhead, list | tuple)
        else Overhead(0, 0, 0, 0, 0, 0),
        summary=str(fields.get("summary", "")),
        why=str(fields.get("why", "")),
        entry=str(fields["entry"]) if fields.get("entry") else None,
        debt=tuple(str(id) for id in debt) if isinstance(debt, list | tuple) else (),
        warnings=tuple(str(warning) for warning in warnings)
        if isinstance(warnings, list | tuple)
        else (),
        waiting=fields.get("state") == "waiting",
        spared=int(shares.get(GIVEN, 0)) if isinstance(shares, dict) else 0,
        played=fields.get("played") is True,
        spared_tokens=int(str(fields.get("spared_tokens") or 0)),
    )


class Report(NamedTuple):
    """The outcome of a brief: the lead's last word, every run, `why` it is not done, and what all
    of it took. It is `played` where nobody worked at any of it.
    """

    status: str
    text: str
    runs: tuple[Result, ...]
    plan: str | None = None
    why: str = ""
    tree: Tree = Tree()

    @property
    def done(self) -> bool:
        return self.status == "done"

    @property
    def played(self) -> bool:
        """Return whether nobody worked at any of it."""
        return self.status == PLAYED

    @property
    def waiting(self) -> bool:
        """Return whether it goes on once somebody has answered."""
        return any(result.waiting for result in self.runs)

    def result(self, root: str) -> Result:
        """Return it as what came of the team's first run."""
        return Result(self.status, self.text, root, why=self.why, waiting=self.waiting)
