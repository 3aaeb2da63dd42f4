"""Resources: views and entries under their addresses, as text, for one agent.

Knows no SDK.
"""

from __future__ import annotations

from typing import NamedTuple

from synapse.agent_memory import AgentMemory
from synapse.errors import Forbidden, NotFound
from synapse.model.agents import OPERATOR
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
    if (
        not uri.startswith(SCHEME)
        or kind not in (VIEW, ENTRY)
        or not name
        or len(uri) > LONGEST
    ):
        raise NotFound(
            f"there is no resource {uri[:LONGEST]!r}: it is synapse://view/AGENT or"
            f" synapse://entry/ID"
        )
    return Target(kind, name)


def demand(seat: AgentMemory, target: Target) -> None:
    """Refuse what this seat may not see: another agent's view, or an entry that is not there for
    it."""
    if target.kind == ENTRY:
        seat.get(target.name)
    elif seat.id not in (target.name, OPERATOR):
        raise Forbidden(
            f"{seat.id} may read its own view, synapse://view/{seat.id}, not that of {target.name}",
            agent=seat.id,
            action="read a view",
        )
    elif target.name != OPERATOR and seat.store.agent(target.name) is None:
        raise seat.store.unregistered(target.name)


def text_of(seat: AgentMemory, target: Target) -> str:
    """Return the text of a resource. Reading it marks nothing as shown: what a client does with
    it is not known."""
    demand(seat, target)
    if target.kind == ENTRY:
        return _entry(seat, target.name)
    whose = seat if target.name == seat.id else AgentMemory(seat.store, target.name)
    return whose.briefing(BRIEFING[-1], commands=False).markdown()


def _entry(seat: AgentMemory, id: str) -> str:
    entry, fate = seat.get(id), seat.fate(id)
    state = (
        f"(no longer shown: {fate.reason}{' by ' + fate.by if fate.by else ''})\n"
        if fate
        else ""
    )
    return state + block.whole(entry, False).text


def views(seat: AgentMemory) -> list[Target]:
    """Return the views that a seat may read: its own; the operator's and every agent's for the
    operator."""
    if seat.id != OPERATOR:
        return [Target(VIEW, seat.id)]
    return [Target(VIEW, id) for id in (OPERATOR, *sorted(seat.store.agents()))]
