"""Small tasks with known answers, done under the shipped supervisor, that show how an agent uses
memory.

A probe is one run of one agent in a memory of its own, a few turns long. It is judged by what the
engine was given and what it answered, and by nothing that the agent says of itself. Values are
drawn for each trial, so that nobody who was not told can know one.

A coding client takes no tools of ours. It does the probes that need none, in a folder of its own,
and is judged by the values in its last message: the prompt shows one, or the folder's file holds
it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import synapse
from orchestrator import Supervisor
from orchestrator.engines.protocol import Call, Request, Turn
from orchestrator.prompts.opening import Context
from orchestrator.prompts.selection import Plan
from orchestrator.runs.task import Task
from orchestrator.spend.limits import Limits
from orchestrator.testing.virtual import VirtualTime
from orchestrator.tools.functions import UserTool, tool_of
from scenarios.play.agents.live import Live
from scenarios.play.arms.arm import nothing
from scenarios.play.harness import MODEL, Counts
from scenarios.play.world.truth import filler, said
from scenarios.play.world.world import ABOUT, LATENCY, using_of
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.model.agents import Agent
from synapse.view.block import whole
from synapse.view.view import Included

AGENT, LEAD, JUNIOR = "eng-1", "lead", "helper"
PLACE, PROJECT, TASK = "projects/survey", "survey", "part-1"
SHOWN = 18  # entries of a view, of which one is needed
PLACES = ("start", "middle", "end")
LIMITS = Limits(depth=1, children=1, turns=12, seconds=86_400.0)
RECORDS = "records.txt"  # in the folder of a client: what it can look up
FIND, READ, SEEK, HEED = "find", "read", "seek", "heed"
_VALUE = re.compile(r"\b[a-f][0-9][0-9a-f]{5}\b")
_SUBJECTS = (
    "the retry limit of service {}",
    "the owner key of module {}",
    "the release label of package {}",
)


class Fact(NamedTuple):
    """A subject and its value."""

    subject: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.subject[:1].upper()}{self.subject[1:]} is {self.value}."


class Trial(NamedTuple):
    """One probe, to be done once: what is needed, and what memory holds of it (author and text).
    `shows`: the prompt shows it; `tools`: those of the memory are offered; `place`: where in the
    view the needed entry stands; `shell`: a client does it, in a folder, without tools of ours.
    """

    probe: str
    number: int
    needs: tuple[Fact, ...]
    entries: tuple[tuple[str, str], ...] = ()
    shows: bool = False
    tools: bool = False
    place: str = ""
    shell: bool = False


class Exchange(NamedTuple):
    """One turn: the text of the newest messages that the engine was given, and what it answered."""

    given: str
    turn: Turn

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.turn.calls


def trials(runs: int, shell: bool = False) -> Iterator[Trial]:
    """Yield the trials, the probes in turn, so that each has as many wherever the money ends. With
    `shell`, those that can be judged by a client's last message."""
    for number in range(runs):
        for make in (_read, _heed) if shell else (_read, _seek, _find, _heed):
            yield make(number)._replace(shell=shell)


def _read(number: int) -> Trial:
    """Return a trial in which the needed fact stands in the prompt, among others."""
    facts = _facts(READ, number, SHOWN)
    at = number % len(PLACES)
    target = facts[(0, SHOWN // 2, SHOWN - 1)[at]]
    entries = tuple((LEAD, fact.text) for fact in facts)
    return Trial(READ, number, (target,), entries, shows=True, place=PLACES[at])


def _seek(number: int) -> Trial:
    """Return a trial in which the needed fact stands in memory, and a search would find it."""
    facts = _facts(SEEK, number, SHOWN)
    return Trial(SEEK, number, (facts[0],), tuple((LEAD, fact.text) for fact in facts), tools=True)


def _find(number: int) -> Trial:
    """Return a trial whose facts nobody knows yet, with more to be done after one is found out."""
    facts = _facts(FIND, number, 2)
    return Trial(FIND, number, tuple(facts), tools=True)


def _heed(number: int) -> Trial:
    """Return a trial in which only somebody of lower authority states the fact, and wrongly."""
    one, pair = _facts(HEED, number, 2)
    claimed = Fact(one.subject, pair.value)
    return Trial(HEED, number, (one,), ((JUNIOR, claimed.text),), shows=True)


def _facts(probe: str, number: int, count: int) -> list[Fact]:
    random = Random(f"{probe} {number}")
    numbers = random.sample(range(11, 98), count)
    form = _SUBJECTS[number % len(_SUBJECTS)]
    return [Fact(form.format(number_of), _nonce(random)) for number_of in numbers]


def _nonce(random: Random) -> str:
    first = random.choice("abcdef") + str(random.randint(0, 9))
    return first + "".join(random.choice("0123456789abcdef") for _ in range(5))


# -- Doing one -------------------------------------------------------------------------


class Tap:
    """Between the supervisor and a model: every turn is kept."""

    name = "scripted"
    interrupt = "now"

    def __init__(self, live: Live) -> None:
        self._live, self.takes_tools = live, live.takes_tools
        self.exchanges: list[Exchange] = []
        self._read = 0

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        text = "\n".join(message.text for message in request.messages[self._read :])
        self._read = len(request.messages)
        turn = await self._live.step(request, interrupt)
        self.exchanges.append(Exchange(text, turn))
        return turn

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


def play(trial: Trial, live: Live, count: Counts) -> list[Exchange]:
    """Return the turns of one trial."""
    time, tap = VirtualTime(), Tap(live)
    with _ground(trial, time) as (memory, folder):
        memory.register(Agent(LEAD, role="project-lead"))
        memory.register(Agent(JUNIOR, role="specialist", write=("projects/*",)))
        memory.register(
            Agent(AGENT, role="engineer", read=("projects/*",), write=("projects/*", "status/*"))
        )
        for author, text in trial.entries:
            memory.as_agent(author).append(text, PLACE, priority="important", ttl="never")
            time.elapsed += 60
        supervisor = Supervisor(
            memory,
            engine=tap,
            model=MODEL,
            memory_tools="always" if trial.tools else "never",
            limits=LIMITS,
            tools=() if trial.shell else _tools(trial),
            context=_context(trial, count),
            seed=trial.number,
            inline=True,
        )
        with supervisor:
            supervisor.run_store.costs.counters[MODEL] = count.counter
            time.run(supervisor.spawn(Task(brief(trial), AGENT, PROJECT, folder=folder)))
    return tap.exchanges


@contextmanager
def _ground(trial: Trial, time: VirtualTime) -> Iterator[tuple[Memory, str | None]]:
    """Yield the memory of a trial and the folder that a client works in. A client's memory is on
    disk, so that the commands of its shell reach this one and no other.
    """
    if not trial.shell:
        with synapse.open("memory:", clock=time) as memory:
            yield memory, None
        return
    with (
        TemporaryDirectory(prefix="probe-") as place,
        synapse.init(os.path.join(place, "memory"), clock=time) as memory,
    ):
        folder = os.path.join(place, PROJECT)
        os.mkdir(folder)
        with open(os.path.join(folder, RECORDS), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _records(trial))
        yield memory, folder


def _records(trial: Trial) -> list[str]:
    """Return what the folder of a client records of what is needed: nothing where the prompt shows
    it.
    """
    if trial.probe == READ:
        return [f"Nothing is recorded about {fact.subject}." for fact in trial.needs]
    return [fact.text for fact in trial.needs]


def brief(trial: Trial) -> str:
    """Return the task's text, in the form that every scenario's has."""
    needs = "; ".join(fact.subject for fact in trial.needs)
    steps = ["Steps: 2"] if trial.probe == FIND else []
    if trial.shell:
        answer = "Answer with one line for each need: NEED = VALUE, or NEED = unknown."
        steps = [f"What was recorded lies in the file {RECORDS} of this folder.", answer]
    lines = ["Bring your part of the survey up to date.", f"Task: {TASK}", f"Needs: {needs}"]
    return "\n".join([*lines, f"Findings go to: {PLACE} (important)", *steps])


def _context(trial: Trial, count: Counts) -> Callable[[Agent, Task, AgentMemory, Plan], Context]:
    """Return the policy of a trial: the view that it shows, whole, and the tools of the memory or
    none.
    """

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        view = nothing(agent_memory)
        if trial.shows:
            entries = list(agent_memory.read())[::-1]
            text = "".join(whole(entry).text for entry in entries)
            included = tuple(Included(entry.id, 0, "whole") for entry in entries)
            view = view._replace(text=text, tokens=count(text), included=included)
        return Context(memory_tools.offered("engineer") if trial.tools else (), view)

    return context


def _tools(trial: Trial) -> list[UserTool]:
    """Return the world of a trial: the tools that every scenario has, over its few facts."""
    calls: dict[str, int] = {}
    facts = {said(fact.subject): fact for fact in trial.needs}

    async def work(task: str, using: str = "") -> str:
        await asyncio.sleep(LATENCY)
        return filler(120)

    async def investigate(subject: str) -> str:
        await asyncio.sleep(LATENCY)
        fact = facts.get(said(subject))
        if fact is None:
            return f"Nothing is to be found about {subject}."
        calls[fact.subject] = calls.get(fact.subject, 0) + 1
        return f"{filler(120)}\n{fact.text if calls[fact.subject] % 2 == 0 else 'Not found yet.'}"

    async def submit(task: str, using: str = "") -> str:
        return "Handed in."

    return [
        tool_of(function, description=ABOUT[function.__name__], idempotent=True)
        for function in (work, investigate, submit)
    ]


# -- What was done ---------------------------------------------------------------------


def calls_of(exchanges: Sequence[Exchange], name: str) -> list[Call]:
    """Return the calls of a tool, in their order."""
    return [call for exchange in exchanges for call in exchange.calls if call.name == name]


def text_of(call: Call, argument: str) -> str:
    """Return an argument of a call as text; models may leave it out."""
    return str(call.arguments.get(argument) or "")


def used(exchanges: Sequence[Exchange], fact: Fact) -> str | None:
    """Return the value that was handed in for a fact, or said in the last message; None where none
    was.
    """
    for call in calls_of(exchanges, "submit"):
        values = using_of(text_of(call, "using"))
        if value := values.get(said(fact.subject)):
            return value
    last = exchanges[-1].turn.text if exchanges else ""
    values_said = _VALUE.findall(last)
    return values_said[0] if values_said else None


def answered(exchanges: Sequence[Exchange], fact: Fact) -> str | None:
    """Return the value that the last message of a client gives for a fact: that of its line `NEED =
    VALUE`, else the only one in it. A message that repeats all that was shown gives none.
    """
    last = exchanges[-1].turn.text if exchanges else ""
    if stated := _stated(last, fact):
        return stated[0]
    values_said = set(_VALUE.findall(last))
    return values_said.pop() if len(values_said) == 1 else None


def _stated(text: str, fact: Fact) -> list[str]:
    """Return the values of the last line `NEED = VALUE` of a text."""
    lines = [line.partition("=") for line in text.splitlines()]
    values = [
        _VALUE.findall(value) for need, _, value in lines if said(fact.subject) in need.lower()
    ]
    return values[-1] if values else []


def looked_up(exchanges: Sequence[Exchange], name: str) -> int | None:
    """Return the number of the first call of a tool, over all turns; None where it was never
    called.
    """
    calls = [call.name for exchange in exchanges for call in exchange.calls]
    return calls.index(name) if name in calls else None


def values_in(text: str) -> list[str]:
    """Return what in a text has the form of a value."""
    return _VALUE.findall(text)
