"""The arms: ways in which agents may learn from each other, each a context policy of the shipped supervisor.

What differs between arms is what a prompt shows, which tools of the memory are offered, and who is woken; nothing
else. `view`, `capsule`, `view_capsule` and `shipped` are the product as it is; the others are what it is compared
with. Tools of the baselines bear the names of the memory's, so that their tokens are billed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from random import Random
from typing import Any, NamedTuple

from orchestrator.budget import Plan
from orchestrator.opening import Context, Policy, by_default
from orchestrator.task import Task
from orchestrator.tools import UserTool, tool_of
from scenarios.cast import read_task
from scenarios.schema import Scenario
from scenarios.statements import statements
from scenarios.world import Truth, filler
from synapse import tools as memory_tools
from synapse.block import whole
from synapse.core import Memory
from synapse.entry import Entry
from synapse.records import entry_of
from synapse.seat import Seat
from synapse.view import Included, View
from synapse.workspace import OPERATOR, Agent

PRIORITIES = ("critical", "important", "info")
_APPEND = next(tool for tool in memory_tools.TOOLS if tool.name == "append")
NOTES = 8  # notes that a search of the other store gives back at most


class Ground(NamedTuple):
    """What an arm stands on: the run's scenario, its memory and truth, a count of tokens, and a line for the ledger."""

    scenario: Scenario
    seed: int
    memory: Memory
    truth: Truth
    count: Callable[[str], int]
    note: Callable[..., Any]


class Setting(NamedTuple):
    """An arm made for one run. `hears`: by what priorities agents are woken; None for what the scenario says."""

    context: Policy
    memory_tools: str = "never"
    hears: tuple[str, ...] | None = ()
    tools: tuple[UserTool, ...] = ()


KINDS = ("product", "rival", "control", "ablation")  # in the order in which a report shows them


class Arm(NamedTuple):
    """`what` it is in a line; `made` for a run; `missing` says what it needs and does not find. Its
    `kind`: the `product` as it ships; a `rival`, another way of sharing what is known; a `control`,
    which shares nothing or knows everything; or an `ablation`, the product with a part changed."""

    name: str
    what: str
    made: Callable[[Ground], Setting]
    missing: Callable[[], str | None] = lambda: None
    kind: str = "ablation"


def nothing(seat: Seat) -> View:
    """A view that shows nothing, as of now."""
    index = seat.store.index
    index.catch_up()
    return View("", 0, (), (), False, cursor=index.horizon, at=seat.store.clock())


def given(seat: Seat, ground: Ground, text: str, entries: Sequence[Entry] = ()) -> View:
    """A view that says this."""
    shown = tuple(Included(entry.id, 0, "whole") for entry in entries)
    return nothing(seat)._replace(text=text, tokens=ground.count(text) if text else 0, included=shown)


# -- The product -------------------------------------------------------------------------------------------------------


def _view(ground: Ground) -> Setting:
    return Setting(by_default, "never", None)


def _capsule(ground: Ground) -> Setting:
    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        return Context(memory_tools.offered(task.role or agent.role), nothing(seat))

    return Setting(context, "always", None)


def _view_capsule(ground: Ground) -> Setting:
    return Setting(by_default, "always", None)


def _shipped(ground: Ground) -> Setting:
    return Setting(by_default, "auto", None)


# -- What it is compared with ------------------------------------------------------------------------------------------


def _isolated(ground: Ground) -> Setting:
    return Setting(lambda agent, task, seat, plan: Context((), nothing(seat)))


def _placebo(ground: Ground) -> Setting:
    """As many tokens as the view would have, about nothing."""

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        view = seat.briefing(max(plan.view, 200), only="critical" if plan.only_critical else None)
        if not view.included:
            return Context((), nothing(seat))
        line, size = f"  > {filler(40)}\n", ground.count(f"  > {filler(40)}\n")
        return Context((), given(seat, ground, "".join([line] * max(round(view.tokens / size), 1))))

    return Setting(context)


def _broadcast(ground: Ground) -> Setting:
    """Everything that is there, whole, and everything that comes, as it comes."""

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        entries = [entry for entry in _live(ground) if entry.author != agent.id]
        blocks = [whole(entry).text for entry in entries]
        view = given(seat, ground, "", entries)._replace(text="".join(blocks))
        return Context((), view._replace(tokens=sum(map(ground.count, blocks))))  # counts of blocks add up

    return Setting(context, hears=PRIORITIES)


def _oracle(ground: Ground) -> Setting:
    """Exactly what the task needs, as it is now, and the news of it."""

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        needs = [ground.truth.named(subject) for subject in read_task(task.text).needs]
        text = "".join(f"- {ground.truth.state(need)}\n" for need in needs if need is not None)
        return Context((), given(seat, ground, text))

    return Setting(context, hears=None)


def _manager(ground: Ground) -> Setting:
    """Somebody reads everything and briefs each agent. Every time a fact is passed on it may be dropped or changed."""
    loss = float(ground.scenario.params["relay_loss"])

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        entries = _live(ground)
        random = Random(f"{ground.scenario.id} {ground.seed} relay {agent.id} {task.text[:80]}")
        text, kept, lost, changed = _relayed(ground, entries, random, loss)
        read = sum(ground.count(whole(entry).text) for entry in entries)
        ground.note("relay", agent=agent.id, read=read, wrote=ground.count(text) if text else 0,
                    kept=kept, lost=lost, changed=changed)  # fmt: skip
        return Context((), given(seat, ground, text))

    return Setting(context)


def _relayed(
    ground: Ground, entries: Sequence[Entry], random: Random, loss: float
) -> tuple[str, list[str], list[str], list[str]]:
    """A brief from all entries: its text, and the versions that were kept, lost and changed on the way."""
    newest = {fact.id: found[-1][2] for entry in entries for fact in ground.scenario.facts
              if (found := statements(entry.body, fact.subject))}  # fmt: skip
    lines, kept, lost, changed = [], list[str](), list[str](), list[str]()
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
            kept.append(version)
        lines.append(f"- {ground.truth.state(fact, value=value)}\n")
    return "".join(lines), kept, lost, changed


def _shared_file(ground: Ground) -> Setting:
    """One file of notes: read whole at the start and whenever somebody likes, added to at its end."""

    def file() -> str:
        return "".join(f"- {entry.author}: {entry.body}\n" for entry in _ever(ground))

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        return Context([_APPEND], given(seat, ground, file()))

    async def memory_search(query: str) -> str:
        return file() or "No notes yet."

    return Setting(context, "always", tools=(tool_of(memory_search, description="Read the file of notes"),))


def _native_store(ground: Ground) -> Setting:
    """LangGraph's store in memory: put and search in namespaces, without priorities, news or replacement. The search
    is the store's own, which without an embedder gives back all there is, then by the words that agree."""
    from langgraph.store.memory import InMemoryStore  # type: ignore[import-not-found,unused-ignore]

    store: Any = InMemoryStore()

    async def memory_search(query: str) -> str:
        for entry in _ever(ground):
            store.put(tuple(entry.namespace.split("/")), entry.id, {"text": entry.body})
        words = [word for word in query.lower().split() if len(word) > 2]
        found = [str(item.value["text"]) for item in store.search((), limit=10_000)]
        found.sort(key=lambda text: -sum(word in text.lower() for word in words))
        return "".join(f"- {text}\n" for text in found[:NOTES]) or "Nothing."

    def context(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        return Context([_APPEND], nothing(seat))

    return Setting(context, "always", tools=(tool_of(memory_search, description="Search the store"),))


def _langgraph() -> str | None:
    return None if find_spec("langgraph") else "langgraph is not installed"


def _ever(ground: Ground) -> list[Entry]:
    """Every entry that was ever written, the oldest first: a file forgets nothing."""
    return [entry_of(record) for record in ground.memory.store.log.since(0) if record.kind == "entry"]


def _live(ground: Ground) -> list[Entry]:
    """Every live entry, the oldest first."""
    return list(ground.memory.as_agent(OPERATOR).read())[::-1]


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("isolated", "the task alone", _isolated, kind="control"),
        Arm("placebo", "as many tokens as the view, about nothing", _placebo, kind="control"),
        Arm("broadcast", "everything, to everybody, at once", _broadcast, kind="rival"),
        Arm("manager", "a manager reads everything and briefs each agent", _manager, kind="rival"),
        Arm("shared_file", "one file of notes that all read and add to", _shared_file, kind="rival"),
        Arm("native_store", "LangGraph's store: put and search", _native_store, _langgraph, "rival"),
        Arm("view", "the view in the prompt, no tools", _view),
        Arm("capsule", "the memory's tools, no view", _capsule),
        Arm("view_capsule", "the view and the tools, always", _view_capsule),
        Arm("shipped", "the view and the tools, where they pay: what ships", _shipped, kind="product"),
        Arm("oracle", "exactly what is needed", _oracle, kind="control"),
        Arm("off", "a memory that is never consolidated", _shipped),
        Arm("weekly", "a memory that is consolidated every week", _shipped),
        Arm("nightly", "a memory that is consolidated every night", _shipped),
    )
}
