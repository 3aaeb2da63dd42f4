"""The arms: ways in which agents may learn from each other, each a context policy of the shipped
supervisor.

What differs between arms is what a prompt shows, which tools of the memory are offered, who is told
what between turns, and whether tool results are shared; nothing else. `shipped` is the product as
it is. Ablations are the product with one thing changed. Rivals are what a team would do without it,
each in its best form: where two ways of playing one are possible, the cheaper one is played. Tools
of the rivals bear the names of the memory's, so that their tokens are billed alike; none of the
product's own software works for them but the log that keeps what was written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from random import Random
from typing import Any, NamedTuple

from orchestrator.prompts.opening import Context, Policy, by_default
from orchestrator.prompts.selection import Plan
from orchestrator.runs.task import Task
from orchestrator.tools.functions import ToolFailed, UserTool, tool_of
from scenarios.data.schema import Scenario
from scenarios.play.cast import read_task
from scenarios.play.statements import statements
from scenarios.play.world import Truth, filler, run_of, said, unfinished
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import SECOND, Entry
from synapse.model.records import Record, entry_of
from synapse.view.block import whole
from synapse.view.view import Included, View

KINDS = PRODUCT, ABLATION, RIVAL, CONTROL = ("product", "ablation", "rival", "control")
NOTES = 8  # notes that a search of the other store gives back at most
LEASE = 300  # seconds until a lock is anybody's again
WAITS = 600.0  # seconds that a call waits for another's at most
# What a lock is not about: the same subject is the same lock, however the claim is worded.
_ABOUT_WORK = frozenset(
    "find out finding look looking into up work working on the a of for".split()
)


class Ground(NamedTuple):
    """What an arm stands on: the run's scenario, its memory and truth, a count of tokens, a line
    for the ledger, and whose a run is: its agent and task.
    """

    scenario: Scenario
    seed: int
    memory: Memory
    truth: Truth
    count: Callable[[str], int]
    note: Callable[..., Any]
    agent_of: Callable[[str], tuple[str, str]]


class Setting(NamedTuple):
    """An arm made for one run. `hears`: by what priorities agents are woken; None for what the
    scenario says. `tells_all`: everything new is told to everybody between turns. `wraps`: what
    becomes of the world's tools.
    """

    context: Policy
    memory_tools: str = "never"
    hears: tuple[str, ...] | None = ()
    tools: tuple[UserTool, ...] = ()
    tells_all: bool = False
    wraps: Callable[[UserTool], UserTool] = lambda tool: tool


class Arm(NamedTuple):
    """`what` it is in a line; `make` makes it for a run; `missing` says what it needs and does not
    find. Its `kind`: the `product` as it ships; a `rival`, another way of sharing what is known; a
    `control`, which shares nothing or knows everything; or an `ablation`, the product with a part
    changed.
    """

    name: str
    kind: str
    what: str
    make: Callable[[Ground], Setting]
    missing: Callable[[], str | None] = lambda: None


def nothing(seat: AgentMemory) -> View:
    """A view that shows nothing, as of now."""
    with seat.store.snapshot() as snap:
        return View("", 0, (), (), False, cursor=snap.cursor, at=seat.store.clock())


def given(
    seat: AgentMemory, ground: Ground, text: str, entries: Sequence[Entry] = ()
) -> View:
    """A view that says this."""
    included = tuple(Included(entry.id, 0, "whole") for entry in entries)
    return nothing(seat)._replace(
        text=text, tokens=ground.count(text) if text else 0, included=included
    )


# -- The product, and what becomes of it where one thing is changed --------------------


def _shipped(ground: Ground) -> Setting:
    return Setting(by_default, "auto", None)


def _without(**changed: Any) -> Callable[[Ground], Setting]:
    """Return what ships, with these fields of its context changed."""

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        return by_default(agent, task, seat, plan)._replace(**changed)

    return lambda ground: Setting(context, "auto", None)


def _view(ground: Ground) -> Setting:
    return Setting(by_default, "never", None)


def _capsule(ground: Ground) -> Setting:
    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        return Context(memory_tools.offered(task.role or agent.role), nothing(seat))

    return Setting(context, "always", None)


def _view_capsule(ground: Ground) -> Setting:
    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        return by_default(agent, task, seat, plan)._replace(
            tools=memory_tools.offered(task.role or agent.role)
        )

    return Setting(context, "always", None)


# -- What it is compared with ----------------------------------------------------------


def _alone(
    seat: AgentMemory, tools: Sequence[memory_tools.Tool] = (), view: View | None = None
) -> Context:
    """Return a context in which nothing is the supervisor's doing: no news, no look before a
    call.
    """
    return Context(
        tools, nothing(seat) if view is None else view, news=False, acts=False
    )


def _isolated(ground: Ground) -> Setting:
    return Setting(lambda agent, task, seat, plan: _alone(seat))


def _placebo(ground: Ground) -> Setting:
    """Return a setting that shows as many tokens as a view, about nothing."""

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        view = seat.briefing(max(plan.view, 200))
        if not view.included:
            return _alone(seat)
        line, size = f"  > {filler(40)}\n", ground.count(f"  > {filler(40)}\n")
        return _alone(
            seat,
            view=given(
                seat, ground, "".join([line] * max(round(view.tokens / size), 1))
            ),
        )

    return Setting(context)


def _oracle(ground: Ground) -> Setting:
    """Exactly what the task needs, as it is now, and the news of it."""

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        needs = [ground.truth.named(subject) for subject in read_task(task.text).needs]
        text = "".join(
            f"- {ground.truth.state(need)}\n" for need in needs if need is not None
        )
        return _alone(seat, view=given(seat, ground, text))._replace(news=True)

    return Setting(context, hears=None)


# -- Rivals: who tells whom ------------------------------------------------------------


def _broadcast(ground: Ground) -> Setting:
    """Everything that is there, whole, and everything that comes: all at once, between two turns.
    Whoever found something out can tell everybody, and who is blocked can say so. What is there for
    information only interrupts nobody, and of it agents that begin are shown the results alone: so
    it costs least.
    """

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        records = _records(ground)
        entries = [
            entry
            for entry in _live(ground)
            if entry.author != agent.id and not _is_chatter(records[entry.id])
        ]
        blocks = [whole(entry).text for entry in entries]
        view = given(seat, ground, "", entries)._replace(text="".join(blocks))
        view = view._replace(
            tokens=sum(map(ground.count, blocks))
        )  # counts of blocks add up
        return _alone(seat, (_tool("append"), _tool("report_blocker")), view)

    return Setting(context, "always", tells_all=True)


def _manager(ground: Ground) -> Setting:
    return _managed(ground, 0.0)


def _manager_lossy(ground: Ground) -> Setting:
    return _managed(ground, float(ground.scenario.params["relay_loss"]))


def _managed(ground: Ground, loss: float) -> Setting:
    """Somebody has read everything and tells each agent what its task names. Every time a fact is
    passed on it may be dropped or changed.
    """
    read = set[str]()

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        entries = _live(ground)
        random = Random(
            f"{ground.scenario.id} {ground.seed} relay {agent.id} {task.text[:80]}"
        )
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
        return _alone(seat, view=given(seat, ground, text))

    return Setting(context)


def _relayed(
    ground: Ground,
    entries: Sequence[Entry],
    needs: Sequence[str],
    random: Random,
    loss: float,
) -> tuple[str, list[str], list[str], list[str]]:
    """A brief of what a task names: its text, and the versions that were kept, lost and changed on
    the way.
    """
    facts = [fact for fact in ground.scenario.facts if fact.subject in needs]
    believed = sorted(
        entries, key=lambda entry: entry.authority
    )  # of equals the newest; the last one counts
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


def _handoff(ground: Ground) -> Setting:
    """A lead hands to each agent that begins all results that there are, what each says before its
    blank line. It has read each of them once when it came; what it writes, it writes each time.
    """
    sizes: dict[str, int] = {}

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        results = [
            (entry.id, f"- {entry.author}: {entry.body.partition(_BLANK)[0]}\n")
            for entry in _results(ground)
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
                kept=ground.truth.told_in(text),
                lost=[],
                changed=[],
            )
        return _alone(seat, view=given(seat, ground, text))

    return Setting(context)


# -- Rivals: a place to look -----------------------------------------------------------


def _file_tail(ground: Ground) -> Setting:
    """One file of notes: read whole at the start, later only what others have added since one last
    looked; and a lock for each subject.
    """
    looked: dict[tuple[str, str], int] = {}  # by agent and task

    def lines(since: int, reader: str | None = None) -> str:
        return "".join(
            f"- {entry.author}: {entry.body}\n"
            for entry in _ever(ground)[since:]
            if entry.author != reader
        )

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        looked[agent.id, read_task(task.text).name] = len(_ever(ground))
        return _alone(seat, (_tool("append"),), given(seat, ground, lines(0)))

    async def memory_search(query: str = "", *, idempotency_key: str) -> str:
        agent, task = ground.agent_of(run_of(idempotency_key))
        new = lines(looked.get((agent, task), 0), agent)
        looked[agent, task] = len(_ever(ground))
        return new or "Nothing new."

    tail = tool_of(
        memory_search,
        description="Read what others have added to the file of notes since you last looked",
    )
    return Setting(context, "always", tools=(tail, _lock(ground)))


def _native_store(ground: Ground) -> Setting:
    """LangGraph's store in memory: put and search in namespaces, without priorities, news or
    replacement; and a lock for each subject. The search is the store's own, which without an
    embedder gives back all there is, then by the words that agree.
    """
    from langgraph.store.memory import InMemoryStore

    store: Any = InMemoryStore()
    stored = 0

    async def memory_search(query: str) -> str:
        nonlocal stored
        entries = _ever(ground)
        for entry in entries[stored:]:
            store.put(tuple(entry.namespace.split("/")), entry.id, {"text": entry.body})
        stored = len(entries)
        terms = query.lower().split()
        texts = [str(item.value["text"]) for item in store.search((), limit=10_000)]
        texts.sort(key=lambda text: -sum(term in text.lower() for term in terms))
        return "".join(f"- {text}\n" for text in texts[:NOTES]) or "Nothing."

    def context(agent: Agent, task: Task, seat: AgentMemory, plan: Plan) -> Context:
        return _alone(seat, (_tool("append"),))

    search = tool_of(memory_search, description="Search the store")
    return Setting(context, "always", tools=(search, _lock(ground)))


def _langgraph() -> str | None:
    with contextlib.suppress(ModuleNotFoundError):
        if find_spec("langgraph.store.memory"):
            return None
    return "langgraph is not installed"


class _Held(NamedTuple):
    """A lock that a run has, until this microsecond."""

    run: str
    until: int


def _lock(ground: Ground) -> UserTool:
    """A lock file for each subject, so that nobody finds out what another is finding out. It is
    about the subject's words, whatever else a claim says, and lasts for a time.
    """
    holders: dict[frozenset[str], _Held] = {}

    async def claim(work: str, *, idempotency_key: str) -> str:
        run, now = run_of(idempotency_key), ground.memory.store.clock()
        subject = frozenset(said(work).split()) - _ABOUT_WORK
        lock = holders.get(subject)
        if lock is not None and lock.run != run and lock.until > now:
            return f"{ground.agent_of(lock.run)[0]} is at it."
        holders[subject] = _Held(run, now + LEASE * SECOND)
        return "It is yours until you are done."

    return tool_of(claim, description="Lock a piece of work before you take it up")


# -- A rival: what tools gave ----------------------------------------------------------


def _tool_cache(ground: Ground) -> Setting:
    """Give the result of `investigate` to the next agent that makes the same call, instead of the
    call; a call that another has begun is waited for. Who calls it once more has it carried out,
    and renews what is kept.
    """
    return Setting(lambda agent, task, seat, plan: _alone(seat), wraps=_Cache().wrap)


class _Cache:
    """Results of one tool by its arguments, and the calls that are under way."""

    def __init__(self) -> None:
        self.results: dict[str, object] = {}
        self._under_way: dict[
            str, tuple[str, asyncio.Event]
        ] = {}  # by whom, and until when
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
                return self.results[key_of_call]
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


# -- What all of them read -------------------------------------------------------------

_BLANK = "\n\n"


def _tool(name: str) -> memory_tools.Tool:
    return next(tool for tool in memory_tools.TOOLS if tool.name == name)


def _records(ground: Ground) -> dict[str, Record]:
    """Return the records of all entries that were ever written, by their ids, the oldest first."""
    records = [
        record for record in ground.memory.store.log.since(0) if record.kind == "entry"
    ]
    return {entry_of(record).id: record for record in records}


def _results(ground: Ground) -> list[Entry]:
    """Return what runs left at their ends, the oldest first."""
    return [
        entry_of(record) for record in _records(ground).values() if _is_result(record)
    ]


def _is_result(record: Record) -> bool:
    """Return whether a run left this at its end: the supervisor writes that under the run's own
    key.
    """
    return (record.once or "").count("/") == 1


def _is_chatter(record: Record) -> bool:
    """Return whether an agent noted this for information only."""
    return (record.once or "").count("/") > 1 and entry_of(record).priority == "info"


def _ever(ground: Ground) -> list[Entry]:
    """Every entry that was ever written, the oldest first: a file forgets nothing."""
    return [
        entry_of(record)
        for record in ground.memory.store.log.since(0)
        if record.kind == "entry"
    ]


def _live(ground: Ground) -> list[Entry]:
    """Every live entry, the oldest first."""
    return list(ground.memory.as_agent(OPERATOR).read())[::-1]


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("isolated", CONTROL, "the task alone", _isolated),
        Arm("placebo", CONTROL, "as many tokens as a view, about nothing", _placebo),
        Arm("broadcast", RIVAL, "everything, to everybody, between turns", _broadcast),
        Arm(
            "manager",
            RIVAL,
            "a manager reads everything, loses nothing and briefs each agent",
            _manager,
        ),
        Arm(
            "manager_lossy",
            RIVAL,
            "the same, one that loses some of it",
            _manager_lossy,
        ),
        Arm(
            "handoff",
            RIVAL,
            "a lead hands all results on to each agent that begins",
            _handoff,
        ),
        Arm(
            "file_tail",
            RIVAL,
            "a file of notes, of which only what is new is read, and locks",
            _file_tail,
        ),
        Arm(
            "native_store",
            RIVAL,
            "LangGraph's store: put and search, and locks",
            _native_store,
            _langgraph,
        ),
        Arm(
            "tool_cache",
            RIVAL,
            "a cache of what tools gave, for all agents",
            _tool_cache,
        ),
        Arm("view", ABLATION, "what ships, without tools of the memory", _view),
        Arm(
            "capsule",
            ABLATION,
            "what ships, without the view at the start, always with tools",
            _capsule,
        ),
        Arm("view_capsule", ABLATION, "what ships, always with tools", _view_capsule),
        Arm(
            "no_news",
            ABLATION,
            "what ships, without news between turns",
            _without(news=False),
        ),
        Arm(
            "no_acts",
            ABLATION,
            "what ships, without the look before a call",
            _without(acts=False),
        ),
        Arm(
            "start_only",
            ABLATION,
            "the view at the start alone",
            _without(news=False, acts=False, tools=()),
        ),
        Arm(
            "shipped",
            PRODUCT,
            "what ships: the start, the news, the look before a call",
            _shipped,
        ),
        Arm("oracle", CONTROL, "exactly what is needed", _oracle),
        Arm("off", ABLATION, "a memory that is never consolidated", _shipped),
        Arm("weekly", ABLATION, "a memory that is consolidated every week", _shipped),
        Arm("nightly", PRODUCT, "a memory that is consolidated every night", _shipped),
    )
}
