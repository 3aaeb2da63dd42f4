"""The review queue: what waits for somebody to approve or reject it."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.agent_memory import AgentMemory
from synapse.authority import may_rule
from synapse.errors import Forbidden
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.server.callers import Reader, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
MOST = 100


@router.get("/review")
def review(request: Request, memory: Reader) -> Response:
    """Show what waits for review: the reader's own, and what it may rule on."""
    waiting = memory.staged()
    ends = {entry.id: memory.store.waits_until(entry) for entry in waiting[:MOST]}
    return frame_of(request).answer(
        request,
        "review.html",
        waiting=waiting[:MOST],
        total=len(waiting),
        ends=ends,
        rulers=_rulers(memory, waiting[:MOST]) if known(request).operator else {},
    )


def _rulers(memory: AgentMemory, waiting: list[Entry]) -> dict[str, list[str]]:
    """Return in whose names each entry can be ruled on, those of most authority first."""
    agents = sorted(
        memory.store.agents().values(), key=lambda agent: (-agent.rank, agent.id)
    )
    return {
        entry.id: [agent.id for agent in agents if _may(memory, agent, entry)]
        for entry in waiting
    }


def _may(memory: AgentMemory, agent: Agent, entry: Entry) -> bool:
    try:
        may_rule(memory.store.standing(agent), entry, memory.store.settings, "approve")
    except Forbidden:
        return False
    return True
