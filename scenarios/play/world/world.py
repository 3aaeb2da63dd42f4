"""The world of a run: what is true in it, what finding it out takes, and whether work was done
right.

It is the only judge. Agents reach it by three tools, the same in every arm; it never looks at what
an agent claims, only at the values that it used. Values are drawn for each seed; nobody can know
one who was not told.

`investigate` is declared as one whose results may be shared, in every arm; whether anybody shares
them is the arm's. `decide` is not: what it gives depends on who asks, and a decision is an act, no
look-up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from orchestrator.tools.functions import Partial, ToolFailed, UserTool, tool_of
from scenarios.data.schema import Job, Scenario
from scenarios.play.world.truth import QUOTES, Truth, drawn, filler, said, steps_of, upper

LATENCY = 2.0  # seconds that a tool of the world takes
UNFINISHED = "Not found yet."

# What a model is told of the tools, in every arm alike: enough to do a task with nothing else.
ABOUT = {
    "work": "Do the next step of your task, named after `Task:`. Once for each of its"
    " `Steps`. `using`, where steps take what it needs: `subject = value; subject ="
    " value`",
    "investigate": (
        "Find out by yourself one thing that your task needs, by its subject, bit by"
        " bit: call it again until it gives the value"
    ),
    "submit": "Hand your task in once its steps are done. `using`: all that it needs, `subject"
    " = value; subject = value`. Then end",
    "decide": (
        "Decide what is yours to decide, by its subject, when others wait for it. What it"
        " gives is for them"
    ),
}


class Dig(NamedTuple):
    """Somebody who finds a fact out by themselves."""

    run: str
    agent: str
    began: int
    known: bool
    concurrent: bool
    stale: bool
    turns: int = 0
    tokens: int = 0
    ended: int | None = None


class Witness(NamedTuple):
    """What the world asks of whoever keeps the record: the time, whose run it is, what the memory
    holds, a line.
    """

    now: Callable[[], int]  # virtual milliseconds
    agent_of: Callable[[str], tuple[str, str]]  # run -> agent, task
    # agent, version: it stands in a live entry that the agent may see
    readable: Callable[[str, str], bool]
    note: Callable[..., Any]
    count: Callable[[str], int]


class World:
    """The environment of one run."""

    def __init__(self, scenario: Scenario, seed: int, truth: Truth, witness: Witness) -> None:
        self.scenario = scenario
        self.seed = seed
        self.truth = truth
        self.witness = witness
        self.jobs = {job.id: job for job in scenario.jobs}
        self.digs: dict[tuple[str, str], Dig] = {}
        self.verdicts: dict[str, tuple[bool, str, str]] = {}  # task -> right, why, run
        self._attempts: dict[tuple[str, str, str], int] = {}  # agent, task and fact
        self.worked: dict[str, int] = {}  # task -> steps that were done
        self._steps = steps_of(scenario, seed)
        self._otherwise: dict[str, str] = {}  # fact -> what somebody else decides
        self._random = Random(f"{scenario.id} {seed} world")

    def tools(self) -> list[UserTool]:
        """Return the tools of every agent in every arm."""

        async def work(task: str, using: str = "", *, idempotency_key: str) -> str:
            return await self._work(task, using, run_of(idempotency_key))

        async def investigate(subject: str, *, idempotency_key: str) -> Any:
            return await self._investigate(subject, run_of(idempotency_key))

        async def submit(task: str, using: str = "", *, idempotency_key: str) -> str:
            return await self._submit(task, using, run_of(idempotency_key))

        async def decide(subject: str, *, idempotency_key: str) -> str:
            return await self._decide(subject, run_of(idempotency_key))

        tools = [
            tool_of(work, description=ABOUT["work"], idempotent=True),
            tool_of(investigate, description=ABOUT["investigate"], idempotent=True, shares=True),
            tool_of(submit, description=ABOUT["submit"], idempotent=True),
        ]
        if any(fact.decided_by for fact in self.scenario.facts):
            tools.append(tool_of(decide, description=ABOUT["decide"], idempotent=True))
        return tools

    async def _work(self, task: str, using: str, run: str) -> str:
        job, refused = self.jobs.get(task), ""
        if job is not None and job.acts:
            wrong = self._judge(job, using, run)
            refused = "".join(f"\nRefused: {self.truth.facts[fact].subject}." for fact in wrong)
        self.worked[task] = self.worked.get(task, 0) + 1
        size = drawn(self.scenario.sizes.observation, self._random)
        await asyncio.sleep(LATENCY)
        return filler(size) + refused

    async def _investigate(self, subject: str, run: str) -> Any:
        fact = self.truth.named(subject)
        if fact is None:
            return f"Nothing is to be found about {subject}."
        if supervisor := self.truth.facts[fact].decided_by:
            await asyncio.sleep(LATENCY)
            return f"Only {supervisor} can decide on {subject}."
        cost, dig = self.truth.facts[fact].cost, self._dig(fact, run)
        padding = filler(round(cost.tokens / max(cost.turns, 1)))
        dig = dig._replace(turns=dig.turns + 1, tokens=dig.tokens + self.witness.count(padding))
        self.digs[run, fact] = dig
        await asyncio.sleep(LATENCY)
        if dig.turns < cost.turns:
            return Partial(f"{padding}\n{UNFINISHED}")
        self.digs[run, fact] = dig = dig._replace(ended=self.witness.now())
        fails, wrong = self._errs(fact, run)
        if fails:
            raise ToolFailed(f"{subject} could not be found out this time.")
        self.witness.note(
            "discovery",
            run=run,
            agent=dig.agent,
            fact=fact,
            began=dig.began,
            tokens=dig.tokens,
            turns=dig.turns,
            known=dig.known,
            concurrent=dig.concurrent,
            stale=dig.stale,
        )
        return f"{padding}\n{self.truth.state(fact, value=self.truth.lie(fact) if wrong else None)}"

    def _errs(self, fact: str, run: str) -> tuple[bool, bool]:
        """Return whether an agent's attempt fails, and whether what comes of it is wrong; the same
        in every arm for an agent's first attempt, its second and so on.
        """
        chance = float(self.scenario.params["err"])
        if not chance:
            return False, False
        agent, task = self.witness.agent_of(run)
        attempt = self._attempts[agent, task, fact] = self._attempts.get((agent, task, fact), 0) + 1
        lot = Random(f"{self.scenario.id} {self.seed} err {agent} {task} {fact} {attempt}").random()
        return lot < chance / 2, chance / 2 <= lot < chance

    async def _decide(self, subject: str, run: str) -> str:
        fact, (agent, _) = self.truth.named(subject), self.witness.agent_of(run)
        await asyncio.sleep(LATENCY)
        decision = None if fact is None else self.truth.facts[fact]
        if decision is None or agent not in (decision.decided_by, decision.also_by):
            return f"{upper(subject)} is not yours to decide."
        if agent == decision.decided_by:
            return self.truth.state(decision.id)
        otherwise = self._otherwise.get(decision.id) or self._otherwise.setdefault(
            decision.id, self.truth.lie(decision.id)
        )
        return self.truth.state(decision.id, value=otherwise)

    def _dig(self, fact: str, run: str) -> Dig:
        """Return this run's own attempt, begun now unless it was before."""
        dig = self.digs.get((run, fact))
        if dig is not None and dig.ended is None:
            return dig
        agent, _ = self.witness.agent_of(run)
        version = self.truth.version(fact)
        readable = self.witness.readable(agent, version)
        is_duplicate = any(name == fact and run_id != run for run_id, name in self.digs)
        older = [f"{fact}@{n}" for n in range(len(self.truth.values[fact]) - 1)]
        stale = not readable and any(self.witness.readable(agent, older_dig) for older_dig in older)
        return Dig(run, agent, self.witness.now(), readable, is_duplicate and not readable, stale)

    async def _submit(self, task: str, using: str, run: str) -> str:
        job = self.jobs.get(task)
        if job is None:
            return f"There is no task {task}."
        problems = [f"{fact} is {why}" for fact, why in self._judge(job, using, run).items()]
        if steps_left := self._steps[task] - self.worked.get(task, 0):
            problems += [f"{steps_left} of its {self._steps[task]} steps are left"] * (
                steps_left > 0
            )
        await asyncio.sleep(LATENCY)
        agent, mine = self.witness.agent_of(run)
        if mine != task:
            problems = [f"it is not the task of {agent}"]
        self.verdicts[task] = (not problems, "; ".join(problems) or "right", run)
        product = f" {self.truth.state(job.makes)}" if job.makes and not problems else ""
        return f"Handed in.{product}"

    def _judge(self, job: Job, using: str, run: str) -> dict[str, str]:
        """Return the facts whose value of now was not used, and what is wrong; a line in the ledger
        for each fact.
        """
        agent, _ = self.witness.agent_of(run)
        used = using_of(using)
        wrong = dict[str, str]()
        for need in job.needs:
            fact, now = self.truth.facts[need], self.truth.now(need)
            value = used.get(said(fact.subject))
            value = (
                value
                if value is None or value in self.truth.versions
                else value.removesuffix(fact.unit).strip()
            )
            version = self.truth.versions.get(value, f"{need}@?") if value else None
            stale = value in self.truth.values[need][:-1]
            self.witness.note(
                "action",
                run=run,
                agent=agent,
                task=job.id,
                fact=need,
                used=version,
                ok=value == now,
                stale=stale,
                asserted=value is not None,
                hop=job.hop,
            )
            if value != now:
                wrong[need] = "outdated" if stale else "wrong" if value else "missing"
        return wrong


def using_of(text: str) -> dict[str, str]:
    """Return what a call says it uses, `subject = value; subject = value`, or a line for each."""
    pairs = (clause.partition("=") for clause in re.split(r"[;\n]", text) if "=" in clause)
    return {said(name.strip(QUOTES)): value.strip(QUOTES) for name, _, value in pairs}


def run_of(key: str | None) -> str:
    """Return the run that a call belongs to; its key is `run/turn/call`."""
    return (key or "").split("/", 1)[0]


def unfinished(result: object) -> bool:
    """Return whether a tool has to be called again until it has a result."""
    return str(getattr(result, "text", result)).endswith(UNFINISHED)


# -- What agents are asked -------------------------------------------------------------
