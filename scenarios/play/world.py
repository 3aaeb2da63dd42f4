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
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from orchestrator.tools.functions import Partial, ToolFailed, UserTool, tool_of
from scenarios.data.schema import Fact, Job, Scenario, Size

# What observations and replies are made of. No digit in it, so that it never holds a value.
_WORDS = (
    "the header was rendered again after the layout had settled and the margin of the"
    " second column was compared with the sketch while the console stayed quiet so the"
    " next check went on to the footer where three links point at pages that exist and"
    " one loads a font from the old path which is served from the cache until it is"
    " replaced then the form was sent with an empty field and the message under it was"
    " read aloud by the tool for screens as it should be and the picture on top was"
    " drawn at half its size without a visible loss on a slow connection afterwards the"
    " list of open points was gone through in order and nothing was found that others"
    " would have to know"
).split()
_FILLERS: dict[int, str] = {}  # by how many words
_STEP = 20  # sizes are rounded to so many words, so that few texts are counted
_HEX = "0123456789abcdef"
_QUOTES = " \t`'\"-*."  # what models put around a name or a value
_CANDIDATE = re.compile(r"(?<![\w-])[a-z]?[0-9][0-9a-z]*(?![\w-])")
_SPREAD = (
    1.2815515655446004  # how many deviations the ninth decile lies above the median
)
SHORT = 16_384  # characters of a text that is looked through once
LATENCY = 2.0  # seconds that a tool of the world takes
UNFINISHED = "Not found yet."

# What a model is told of the tools, in every arm alike: enough to do a task with nothing else.
ABOUT = {
    "work": "Do the next step of your task, named after `Task:`. Once for each of its"
    " `Steps`. `using`, where steps take what it needs: `subject = value; subject ="
    " value`",
    "investigate": "Find out by yourself one thing that your task needs, by its subject, bit by bit:"
    " call it again until it gives the value",
    "submit": "Hand your task in once its steps are done. `using`: all that it needs, `subject"
    " = value; subject = value`. Then end",
    "decide": (
        "Decide what is yours to decide, by its subject, when others wait for it. What it"
        " gives is for them"
    ),
}


class Leak(Exception):
    """A value stands where nobody should find it."""


def drawn(size: Size, random: Random) -> int:
    """A size by its distribution; never more than three times its ninth decile."""
    if size.p50 == size.p90:
        return round(size.p50)
    spread = math.log(size.p90 / size.p50) / _SPREAD
    return max(
        1, round(min(size.p50 * math.exp(spread * random.gauss(0, 1)), 3 * size.p90))
    )


def noise(tokens: int, random: Random) -> str:
    """A text of about so many tokens about nothing in particular, each time another."""
    chosen = random.choices(_WORDS, k=max(tokens - 2, 3))
    return f"{_upper(' '.join(chosen))}."


def filler(tokens: int) -> str:
    """A text of about so many tokens that says nothing."""
    return _filled(
        max(round(tokens / _STEP), 1) * _STEP if tokens >= _STEP / 2 else tokens
    )


def _filled(count: int) -> str:
    if count not in _FILLERS:
        repeats, remainder = divmod(count, len(_WORDS))
        text = " ".join([*(_WORDS * repeats), *_WORDS[:remainder]])
        _FILLERS[count] = text[:1].upper() + text[1:] + "." if text else ""
    return _FILLERS[count]


class Truth:
    """The values of facts: what each is now, what it was, and how it is said."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._name = f"{scenario.id} {seed}"
        self.facts = {fact.id: fact for fact in scenario.facts}
        self._by_subject = {said(fact.subject): fact.id for fact in scenario.facts}
        self.values: dict[str, list[str]] = {}
        self.versions: dict[str, str] = {}  # value -> fact@version
        self._taken: set[str] = set()
        for fact in scenario.facts:
            self.change(fact.id)

    def change(self, id: str) -> str:
        """Give a fact its next value."""
        fact, before = self.facts[id], self.values.setdefault(id, [])
        random = Random(f"{self._name} {id} {len(before)}")
        value = _value(fact, random)
        while value in self._taken:
            value = _value(fact, random)
        self._taken.add(value)
        self.versions[value] = f"{id}@{len(before)}"
        before.append(value)
        return value

    def lie(self, id: str) -> str:
        """A value that a fact never has."""
        random = Random(f"{self._name} {id} lie")
        value = _value(self.facts[id], random)
        while value in self._taken:
            value = _value(self.facts[id], random)
        self._taken.add(value)
        self.versions[value] = f"{id}@!"
        return value

    def now(self, id: str) -> str:
        return self.values[id][-1]

    def version(self, id: str) -> str:
        """The version of a fact that is true now."""
        return f"{id}@{len(self.values[id]) - 1}"

    def named(self, subject: str) -> str | None:
        """The fact of this subject."""
        return self._by_subject.get(said(subject))

    def state(self, id: str, variant: int = 0, value: str | None = None) -> str:
        """A sentence that says what the value is."""
        fact = self.facts[id]
        unit = f" {fact.unit}" if fact.unit else ""
        stated = value or self.now(id)
        forms = (
            f"{_upper(fact.subject)} is {stated}{unit}.",
            f"Use {stated}{unit} for {fact.subject}.",
            f"{_upper(fact.subject)}: {stated}{unit}.",
        )
        return forms[variant % len(forms)]

    def told_in(self, text: str) -> list[str]:
        """The versions whose values stand in a text, in their order, each once."""
        return list(
            dict.fromkeys(
                self.versions[candidate]
                for candidate in _candidates(text)
                if candidate in self.versions
            )
        )

    def lint(self, texts: Iterable[str]) -> None:
        """Leak, if a value stands in one of these texts, where no value belongs."""
        for text in texts:
            if stated := self.told_in(text):
                raise Leak(f"{', '.join(stated)} can be read in {text[:80]!r}")


def _candidates(text: str) -> tuple[str, ...]:
    """Return words that may be values: every value has a digit as its first or second character."""
    if len(text) <= SHORT:
        return _short_candidates(text)
    return tuple(
        chain.from_iterable(map(_short_candidates, text.splitlines()))
    )  # many long texts share their lines


@lru_cache(8_192)
def _short_candidates(text: str) -> tuple[str, ...]:
    return tuple(_CANDIDATE.findall(text))


def said(subject: str) -> str:
    """Return a subject as it is compared: however it is spaced, and with or without its article."""
    return " ".join(subject.lower().split()).removeprefix("the ")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _value(fact: Fact, random: Random) -> str:
    if fact.value == "int":
        return str(random.randint(fact.low, fact.high))
    first = random.choice("abcdef") + str(random.randint(0, 9))
    return first + "".join(random.choice(_HEX) for _ in range(5))


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
    readable: Callable[
        [str, str], bool
    ]  # agent, version: it stands in a live entry that the agent may see
    note: Callable[..., Any]
    count: Callable[[str], int]


class World:
    """The environment of one run."""

    def __init__(
        self, scenario: Scenario, seed: int, truth: Truth, witness: Witness
    ) -> None:
        self.scenario, self.seed, self.truth, self.witness = (
            scenario,
            seed,
            truth,
            witness,
        )
        self.jobs = {job.id: job for job in scenario.jobs}
        self.digs: dict[tuple[str, str], Dig] = {}
        self.verdicts: dict[str, tuple[bool, str, str]] = {}  # task -> right, why, run
        self._attempts: dict[tuple[str, str, str], int] = {}  # agent, task and fact
        self.worked: dict[str, int] = {}  # task -> steps that were done
        self._steps = steps_of(scenario, seed)
        self._otherwise: dict[str, str] = {}  # fact -> what somebody else decides
        self._random = Random(f"{scenario.id} {seed} world")

    def tools(self) -> list[UserTool]:
        """The tools of every agent in every arm."""

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
            tool_of(
                investigate,
                description=ABOUT["investigate"],
                idempotent=True,
                shares=True,
            ),
            tool_of(submit, description=ABOUT["submit"], idempotent=True),
        ]
        if any(fact.decided_by for fact in self.scenario.facts):
            tools.append(tool_of(decide, description=ABOUT["decide"], idempotent=True))
        return tools

    async def _work(self, task: str, using: str, run: str) -> str:
        job, refused = self.jobs.get(task), ""
        if job is not None and job.acts:
            wrong = self._judge(job, using, run)
            refused = "".join(
                f"\nRefused: {self.truth.facts[fact].subject}." for fact in wrong
            )
        self.worked[task] = self.worked.get(task, 0) + 1
        size = drawn(self.scenario.sizes.observation, self._random)
        await asyncio.sleep(LATENCY)
        return filler(size) + refused

    async def _investigate(self, subject: str, run: str) -> Any:
        fact = self.truth.named(subject)
        if fact is None:
            return f"Nothing is to be found about {subject}."
        if boss := self.truth.facts[fact].decided_by:
            await asyncio.sleep(LATENCY)
            return f"Only {boss} can decide on {subject}."
        cost, dig = self.truth.facts[fact].cost, self._dig(fact, run)
        padding = filler(round(cost.tokens / max(cost.turns, 1)))
        dig = dig._replace(
            turns=dig.turns + 1, tokens=dig.tokens + self.witness.count(padding)
        )
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
        attempt = self._attempts[agent, task, fact] = (
            self._attempts.get((agent, task, fact), 0) + 1
        )
        lot = Random(
            f"{self.scenario.id} {self.seed} err {agent} {task} {fact} {attempt}"
        ).random()
        return lot < chance / 2, chance / 2 <= lot < chance

    async def _decide(self, subject: str, run: str) -> str:
        fact, (agent, _) = self.truth.named(subject), self.witness.agent_of(run)
        await asyncio.sleep(LATENCY)
        decision = None if fact is None else self.truth.facts[fact]
        if decision is None or agent not in (decision.decided_by, decision.also_by):
            return f"{_upper(subject)} is not yours to decide."
        if agent == decision.decided_by:
            return self.truth.state(decision.id)
        otherwise = self._otherwise.get(decision.id) or self._otherwise.setdefault(
            decision.id, self.truth.lie(decision.id)
        )
        return self.truth.state(decision.id, value=otherwise)

    def _dig(self, fact: str, run: str) -> Dig:
        """This run's own attempt; begun now, unless it was before."""
        dig = self.digs.get((run, fact))
        if dig is not None and dig.ended is None:
            return dig
        agent, _ = self.witness.agent_of(run)
        version = self.truth.version(fact)
        readable = self.witness.readable(agent, version)
        is_duplicate = any(name == fact and run_id != run for run_id, name in self.digs)
        older = [f"{fact}@{n}" for n in range(len(self.truth.values[fact]) - 1)]
        stale = not readable and any(
            self.witness.readable(agent, older_dig) for older_dig in older
        )
        return Dig(
            run,
            agent,
            self.witness.now(),
            readable,
            is_duplicate and not readable,
            stale,
        )

    async def _submit(self, task: str, using: str, run: str) -> str:
        job = self.jobs.get(task)
        if job is None:
            return f"There is no task {task}."
        problems = [
            f"{fact} is {why}" for fact, why in self._judge(job, using, run).items()
        ]
        if steps_left := self._steps[task] - self.worked.get(task, 0):
            problems += [f"{steps_left} of its {self._steps[task]} steps are left"] * (
                steps_left > 0
            )
        await asyncio.sleep(LATENCY)
        agent, mine = self.witness.agent_of(run)
        if mine != task:
            problems = [f"it is not the task of {agent}"]
        self.verdicts[task] = (not problems, "; ".join(problems) or "right", run)
        product = (
            f" {self.truth.state(job.makes)}" if job.makes and not problems else ""
        )
        return f"Handed in.{product}"

    def _judge(self, job: Job, using: str, run: str) -> dict[str, str]:
        """The facts whose value of now was not used, and what is wrong; a line in the ledger for
        each fact.
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
                else _bare(value, fact.unit)
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
    pairs = (
        clause.partition("=") for clause in re.split(r"[;\n]", text) if "=" in clause
    )
    return {said(name.strip(_QUOTES)): value.strip(_QUOTES) for name, _, value in pairs}


def _bare(value: str, unit: str) -> str:
    """Return a value without the unit that a model may have written behind it."""
    return value.removesuffix(unit).strip()


def run_of(key: str | None) -> str:
    """Return the run that a call belongs to; its key is `run/turn/call`."""
    return (key or "").split("/", 1)[0]


def unfinished(result: object) -> bool:
    """Return whether a tool has to be called again until it has a result."""
    return str(getattr(result, "text", result)).endswith(UNFINISHED)


# -- What agents are asked -------------------------------------------------------------


def brief(scenario: Scenario, job: Job, steps: Mapping[str, int], truth: Truth) -> str:
    """The text of a task, with those of all that its agent gives out, stage by stage. It names what
    is needed and never a value.
    """
    lines = [job.text, f"Task: {job.id}"]
    if job.needs:
        lines.append(
            f"Needs: {'; '.join(truth.facts[need].subject for need in job.needs)}"
        )
        places = {
            truth.facts[need].namespace: truth.facts[need].priority
            for need in job.needs
        }
        lines.append(
            f"Findings go to:"
            f" {', '.join(f'{name} ({priority})' for name, priority in places.items())}"
        )
    if steps.get(job.id):
        lines.append(
            f"Steps: {steps[job.id]}{', with what it needs at every step' if job.acts else ''}"
        )
    if job.passes:
        lines.append("Pass on: what it needed, word for word, in the last message")
    if scenario.given_by(job.id):
        lines.append(
            "Give out the tasks of a stage word for word, each to the agent in its"
            " brackets, and wait for"
        )
        lines.append("all of them before the next stage.")
    for number, stage in enumerate(stages(scenario.given_by(job.id)), 1):
        lines.append(f"Stage {number}:")
        for each in stage:
            first, *rest = brief(scenario, each, steps, truth).split("\n")
            lines += [f"- [{each.agent}] {first}", *(f"  {line}" for line in rest)]
    return "\n".join(lines)


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """The tasks in the order in which they can be done: each stage needs only those before it."""
    from scenarios.data.schema import matching

    remaining, done = list(jobs), set[str]()
    result: list[list[Job]] = []
    while remaining:
        ids = [job.id for job in remaining]
        free = [
            job
            for job in remaining
            if not any(matching(glob, ids) for glob in job.after)
        ]
        result.append(free or remaining)
        done |= {job.id for job in result[-1]}
        remaining = [job for job in remaining if job.id not in done]
    return result


def steps_of(scenario: Scenario, seed: int) -> dict[str, int]:
    """Return the number of steps of each task under this seed, the same in every arm."""
    return {
        job.id: drawn(job.steps, Random(f"{scenario.id} {seed} steps {job.id}"))
        for job in scenario.jobs
    }


def texts(scenario: Scenario, steps: Mapping[str, int], truth: Truth) -> list[str]:
    """Everything that an agent may read without being told: no value may stand in it."""
    facts = [f"{fact.subject} {fact.namespace} {fact.unit}" for fact in scenario.facts]
    briefs = [brief(scenario, job, steps, truth) for job in scenario.jobs]
    return [scenario.title, filler(2 * len(_WORDS)), *facts, *briefs]
