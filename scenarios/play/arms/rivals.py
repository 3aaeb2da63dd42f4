"""The rivals of what ships: broadcast, managers, a shared file, another store, a cache of tools."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from random import Random
from typing import Any, NamedTuple

from orchestrator.prompts.opening import Context
from orchestrator.prompts.selection import Plan
from orchestrator.runs.task import Task
from orchestrator.tools.functions import ToolFailed, UserTool, tool_of
from scenarios.play.agents.statements import statements
from scenarios.play.arms.arm import (
    ABOUT_WORK,
    Ground,
    Setting,
    alone,
    ever,
    given,
    is_chatter,
    live,
    records_by_id,
    run_results,
    tool,
)
from scenarios.play.world.task_text import read_task
from scenarios.play.world.truth import said
from scenarios.play.world.world import run_of, unfinished
from synapse.agent_memory import AgentMemory
from synapse.model.agents import Agent
from synapse.model.entry import SECOND, Entry
from synapse.view.block import whole

NOTES = 8  # notes that a search of the other store gives back at most


LEASE = 300  # seconds until a lock is anybody's again


WAITS = 600.0  # seconds that a call waits for another's at most


def broadcast(ground: Ground) -> Setting:
    """Show every agent everything, whole and at once: what is there, and what comes between two
    turns. Whoever found something out can tell everybody, and who is blocked can say so. What is
    there for information only interrupts nobody, and of it agents that begin are shown the results
    alone: so it costs least.
    """

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        records = records_by_id(ground)
        entries = [
            entry
            for entry in live(ground)
            if entry.author != agent.id and not is_chatter(records[entry.id])
        ]
        blocks = [whole(entry).text for entry in entries]
        view = given(agent_memory, ground, "", entries)._replace(text="".join(blocks))
        # counts of blocks add up
        view = view._replace(tokens=sum(map(ground.count, blocks)))
        return alone(agent_memory, (tool("append"), tool("report_blocker")), view)

    return Setting(context, "always", tells_all=True)


def manager(ground: Ground) -> Setting:
    return _managed(ground, 0.0)


def manager_lossy(ground: Ground) -> Setting:
    return _managed(ground, float(ground.scenario.params["relay_loss"]))


def _managed(ground: Ground, loss: float) -> Setting:
    """Show each agent what its task names, passed on by somebody who has read everything. Every
    time a fact is passed on it may be dropped or changed.
    """
    read = set[str]()

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        entries = live(ground)
        random = Random(f"{ground.scenario.id} {ground.seed} relay {agent.id} {task.text[:80]}")
        text, relayed, lost, changed = _relayed(
            ground, entries, read_task(task.text).needs, random, loss
        )
        sizes = {entry.id: ground.count(whole(entry).text) for entry in entries}
        ground.note(
            "relay",
            agent=agent.id,
            read=sum(sizes.values()),
            wrote=ground.count(text) if text else 0,
            cached=sum(size for id, size in sizes.items() if id in read),
            kept=relayed,
            lost=lost,
            changed=changed,
        )
        read.update(sizes)
        return alone(agent_memory, view=given(agent_memory, ground, text))

    return Setting(context)


def _relayed(
    ground: Ground, entries: Sequence[Entry], needs: Sequence[str], random: Random, loss: float
) -> tuple[str, list[str], list[str], list[str]]:
    """Return a brief of what a task names: its text, and the versions that were kept, lost and
    changed on the way.
    """
    facts = [fact for fact in ground.scenario.facts if fact.subject in needs]
    # of equals the newest; the last one counts
    believed = sorted(entries, key=lambda entry: entry.authority)
    newest = {
        fact.id: statement[-1][2]
        for entry in believed
        for fact in facts
        if (statement := statements(entry.body, fact.subject))
    }
    lines, result, lost, changed = [], list[str](), list[str](), list[str]()
    for fact, value in newest.items():
        version = ground.truth.versions.get(value, f"{fact}@?")
        chance = random.random()
        if chance < loss / 2:
            lost.append(version)
            continue
        if chance < loss:
            changed.append(version)
            value = "".join(random.sample(value, len(value)))
        else:
            result.append(version)
        lines.append(f"- {ground.truth.state(fact, value=value)}\n")
    return "".join(lines), result, lost, changed


def handoff(ground: Ground) -> Setting:
    """Show each agent that begins all results, handed on by a lead: what each says before its blank
    line. The lead has read each of them once when it came; what it writes, it writes each time.
    """
    sizes: dict[str, int] = {}

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        results = [
            (entry.id, f"- {entry.author}: {entry.body.partition(_BLANK)[0]}\n")
            for entry in run_results(ground)
        ]
        text, cached = "".join(line for _, line in results), sum(sizes.values())
        sizes.update({id: ground.count(line) for id, line in results})
        if text:
            ground.note(
                "relay",
                agent=agent.id,
                read=sum(sizes.values()),
                wrote=ground.count(text),
                cached=cached,
                kept=ground.truth.facts_in(text),
                lost=[],
                changed=[],
            )
        return alone(agent_memory, view=given(agent_memory, ground, text))

    return Setting(context)


def file_tail(ground: Ground) -> Setting:
    """Show every agent one file of notes: whole at the start, later what others have added since it
    last looked; with a lock for each subject.
    """
    looked: dict[tuple[str, str], int] = {}  # by agent and task

    def lines(since: int, reader: str | None = None) -> str:
        return "".join(
            f"- {entry.author}: {entry.body}\n"
            for entry in ever(ground)[since:]
            if entry.author != reader
        )

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        looked[agent.id, read_task(task.text).name] = len(ever(ground))
        return alone(agent_memory, (tool("append"),), given(agent_memory, ground, lines(0)))

    async def memory_search(query: str = "", *, idempotency_key: str) -> str:
        agent, task = ground.agent_of(run_of(idempotency_key))
        new = lines(looked.get((agent, task), 0), agent)
        looked[agent, task] = len(ever(ground))
        return new or "Nothing new."

    tail = tool_of(
        memory_search,
        description="Read what others have added to the file of notes since you last looked",
    )
    return Setting(context, "always", tools=(tail, _lock(ground)))


def native_store(ground: Ground) -> Setting:
    """LangGraph's store in memory: put and search in namespaces, without priorities, news or
    replacement; and a lock for each subject. The search is the store's own, which without an
    embedder gives back all there is, then by the words that agree.
    """
    from langgraph.store.memory import InMemoryStore

    store: Any = InMemoryStore()
    stored = 0

    async def memory_search(query: str) -> str:
        nonlocal stored
        entries = ever(ground)
        for entry in entries[stored:]:
            store.put(tuple(entry.namespace.split("/")), entry.id, {"text": entry.body})
        stored = len(entries)
        terms = query.lower().split()
        texts = [str(item.value["text"]) for item in store.search((), limit=10_000)]
        texts.sort(key=lambda text: -sum(term in text.lower() for term in terms))
        return "".join(f"- {text}\n" for text in texts[:NOTES]) or "Nothing."

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        return alone(agent_memory, (tool("append"),))

    search = tool_of(memory_search, description="Search the store")
    return Setting(context, "always", tools=(search, _lock(ground)))


def langgraph() -> str | None:
    with contextlib.suppress(ModuleNotFoundError):
        if find_spec("langgraph.store.memory"):
            return None
    return "langgraph is not installed"


class _Held(NamedTuple):
    """A lock that a run has, until this microsecond."""

    run: str
    until: int


def _lock(ground: Ground) -> UserTool:
    """Return a tool that locks a subject, so that nobody finds out what another is finding out. A
    lock is about the words of the subject, whatever else a claim says, and lasts for a time.
    """
    holders: dict[frozenset[str], _Held] = {}

    async def claim(work: str, *, idempotency_key: str) -> str:
        run, now = run_of(idempotency_key), ground.memory.store.clock()
        subject = frozenset(said(work).split()) - ABOUT_WORK
        lock = holders.get(subject)
        if lock is not None and lock.run != run and lock.until > now:
            return f"{ground.agent_of(lock.run)[0]} is at it."
        holders[subject] = _Held(run, now + LEASE * SECOND)
        return "It is yours until you are done."

    return tool_of(claim, description="Lock a piece of work before you take it up")


def tool_cache(ground: Ground) -> Setting:
    """Give the result of `investigate` to the next agent that makes the same call, instead of the
    call; a call that another has begun is waited for. Who calls it once more has it carried out,
    and renews what is kept.
    """
    return Setting(lambda agent, task, agent_memory, plan: alone(agent_memory), wraps=_Cache().wrap)


def cache_short(ground: Ground) -> Setting:
    """Do the same, and pass on no more than the last line of a result, which has what was found."""
    return tool_cache(ground)._replace(wraps=_Cache(_last_line).wrap)


def grep_start(ground: Ground) -> Setting:
    """Show each agent that begins the lines of live notes that a grep for the words of its needs
    finds; then pass on the last lines of results. No rights, no ranks, no news, no tool.
    """

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        needs = [_words(need) for need in read_task(task.text).needs]
        lines = [
            f"- {entry.author}: {line}\n"
            for entry in live(ground)
            for line in entry.body.splitlines()
            if any(need <= _words(line) for need in needs)
        ]
        text = "".join(dict.fromkeys(lines))
        return alone(agent_memory, view=given(agent_memory, ground, text))

    return cache_short(ground)._replace(context=context)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W_]+", said(text)))


def _last_line(result: object) -> object:
    return result.rpartition("\n")[2] if isinstance(result, str) else result


class _Cache:
    """Results of one tool by its arguments, as they are passed on, and the calls that are under
    way.
    """

    def __init__(self, passed: Callable[[object], object] = lambda result: result) -> None:
        self.passed = passed
        self.results: dict[str, object] = {}
        # by whom, and until when
        self._under_way: dict[str, tuple[str, asyncio.Event]] = {}
        self._given: set[tuple[str, str]] = set()

    def wrap(self, tool: UserTool) -> UserTool:
        if tool.tool.name != "investigate":
            return tool

        async def run(arguments: Mapping[str, Any], key: str | None) -> object:
            return await self._result(tool, arguments, key)

        return tool._replace(run=run, seconds=2 * WAITS)

    async def _result(
        self, tool: UserTool, arguments: Mapping[str, Any], key: str | None
    ) -> object:
        key_of_call, run = said(str(arguments.get("subject", ""))), run_of(key)
        if (run, key_of_call) not in self._given:
            first, ended = self._under_way.get(key_of_call, (run, None))
            if first != run and ended is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), WAITS)
            if (
                key_of_call in self.results
                and self._under_way.get(key_of_call, (run, None))[0] == run
            ):
                self._given.add((run, key_of_call))
                return self.passed(self.results[key_of_call])
        if key_of_call not in self._under_way or self._under_way[key_of_call][0] != run:
            self._under_way[key_of_call] = run, asyncio.Event()
        try:
            result = await tool.run(arguments, key)
        except ToolFailed:
            self._end(key_of_call, run)
            raise
        if not unfinished(result):
            self.results[key_of_call] = result
            self._given.add((run, key_of_call))
            self._end(key_of_call, run)
        return result

    def _end(self, about: str, run: str) -> None:
        holder, ended = self._under_way.get(about, ("", None))
        if holder == run and ended is not None:
            del self._under_way[about]
            ended.set()


_BLANK = "\n\n"
