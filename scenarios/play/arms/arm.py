"""What an arm is: how agents learn from each other, as a context of the shipped supervisor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from orchestrator.prompts.opening import Context, Policy
from orchestrator.tools.functions import UserTool
from scenarios.data.schema import Scenario
from scenarios.play.world.truth import Truth
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.records import Record, entry_of
from synapse.view.view import Included, View

KINDS = PRODUCT, ABLATION, RIVAL, CONTROL = ("product", "ablation", "rival", "control")


# What a lock is not about: the same subject is the same lock, however the claim is worded.
ABOUT_WORK = frozenset("find out finding look looking into up work working on the a of for".split())


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


def nothing(agent_memory: AgentMemory) -> View:
    """Return a view that shows nothing, as of now."""
    with agent_memory.store.snapshot() as snap:
        return View("", 0, (), (), False, cursor=snap.cursor, at=agent_memory.store.clock())


def given(
    agent_memory: AgentMemory, ground: Ground, text: str, entries: Sequence[Entry] = ()
) -> View:
    """Return a view that says this."""
    included = tuple(Included(entry.id, 0, "whole") for entry in entries)
    return nothing(agent_memory)._replace(
        text=text, tokens=ground.count(text) if text else 0, included=included
    )


def alone(
    agent_memory: AgentMemory, tools: Sequence[memory_tools.Tool] = (), view: View | None = None
) -> Context:
    """Return a context in which nothing is the supervisor's doing: no news, no look before a
    call.
    """
    return Context(tools, nothing(agent_memory) if view is None else view, news=False, acts=False)


def tool(name: str) -> memory_tools.Tool:
    return next(tool for tool in memory_tools.TOOLS if tool.name == name)


def records_by_id(ground: Ground) -> dict[str, Record]:
    """Return the records of all entries that were ever written, by their ids, the oldest first."""
    records = [record for record in ground.memory.store.log.since(0) if record.kind == "entry"]
    return {entry_of(record).id: record for record in records}


def run_results(ground: Ground) -> list[Entry]:
    """Return what runs left at their ends, the oldest first."""
    return [
        entry_of(record)
        for record in records_by_id(ground).values()
        # what a run left at its end: the supervisor writes that under the run's own key
        if (record.once or "").count("/") == 1
    ]


def is_chatter(record: Record) -> bool:
    """Return whether an agent noted this for information only."""
    return (record.once or "").count("/") > 1 and entry_of(record).priority == "info"


def ever(ground: Ground) -> list[Entry]:
    """Return every entry that was ever written, the oldest first: a file forgets nothing."""
    return [
        entry_of(record) for record in ground.memory.store.log.since(0) if record.kind == "entry"
    ]


def live(ground: Ground) -> list[Entry]:
    """Return every live entry, the oldest first."""
    return list(ground.memory.as_agent(OPERATOR).read())[::-1]
