"""Resources: views and entries under their addresses, as text, for one agent.

Knows no SDK.
"""

from __future__ import annotations

from typing import NamedTuple

from synapse.agent_memory import AgentMemory
from synapse.errors import Forbidden, NotFound
from synapse.model.agents import OPERATOR
from synapse.system.quoting import inline
from synapse.tools import BRIEFING
from synapse.view import block

VIEW, ENTRY = "view", "entry"
SCHEME = "synapse://"
TEXT = "text/markdown"
LONGEST = 256


class Target(NamedTuple):
    """What an address means: the view of an agent, or an entry."""

    kind: str
    name: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.kind}/{self.name}"


def target_of(uri: str) -> Target:
    """Return what an address means; NotFound where it is none of ours."""
    kind, _, name = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or kind not in (VIEW, ENTRY) or not name or len(uri) > LONGEST:
        raise NotFound(
            f"there is no resource {uri[:LONGEST]!r}: it is synapse://view/AGENT or"
            f" synapse://entry/ID"
        )
    return Target(kind, name)


def demand(agent_memory: AgentMemory, target: Target) -> None:
    """Refuse what this agent memory may not see: another agent's view, or an entry that is not
    there for it.
    """
    if target.kind == ENTRY:
        agent_memory.get(target.name)
    elif agent_memory.id not in (target.name, OPERATOR):
        raise Forbidden(
            f"{agent_memory.id} may read its own view, synapse://view/{agent_memory.id},"
            f" not that of {target.name}",
            agent=agent_memory.id,
            action="read a view",
        )
    elif target.name != OPERATOR and agent_memory.store.agents.get(target.name) is None:
        raise agent_memory.store.agents.unregistered(target.name)


def text_of(agent_memory: AgentMemory, target: Target) -> str:
    """Return the text of a resource. Reading it marks nothing as shown: what a client does with
    it is not known."""
    demand(agent_memory, target)
    if target.kind == ENTRY:
        return _entry(agent_memory, target.name)
    whose = (
        agent_memory
        if target.name == agent_memory.id
        else AgentMemory(agent_memory.store, target.name)
    )
    return whose.briefing(BRIEFING[-1], commands=False).markdown()


def _entry(agent_memory: AgentMemory, id: str) -> str:
    entry, fate = agent_memory.get(id), agent_memory.fate(id)
    state = (
        f"(no longer shown: {inline(fate.reason)}{' by ' + fate.by if fate.by else ''})\n"
        if fate
        else ""
    )
    return state + block.whole(entry, False).text


def views(agent_memory: AgentMemory) -> list[Target]:
    """Return the views that an agent memory may read: its own; the operator's and every agent's for
    the operator.
    """
    if agent_memory.id != OPERATOR:
        return [Target(VIEW, agent_memory.id)]
    return [Target(VIEW, id) for id in (OPERATOR, *sorted(agent_memory.store.agents.all()))]
