"""Agents and departments: who there is, what each may, how its authority moved and why, and what a
department knows.
"""

from __future__ import annotations

from fastapi import Request, Response

from synapse.agent_memory import AgentMemory
from synapse.consolidate.reviews import accounts
from synapse.errors import NotFound
from synapse.history.sentences import page_of_acts
from synapse.model.agents import Agent
from synapse.server.callers import Operator, Reader, gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages
from synapse.server.pages.timeline import by_day

router = pages()
ACTS, NEWEST = 20, 10


@router.get("/agents")
def agents(request: Request, memory: Reader) -> Response:
    """Show the agents, those of most authority first."""
    workspace = gate_of(request).memory
    last_seen = workspace.last_seen()
    if memory.agent is not None:  # of others an agent is told how to address them
        last_seen = {id: at for id, at in last_seen.items() if id == memory.id}
    moved = {}  # by how much reviews moved each authority, the operator's to know
    if known(request).operator:
        moved = {id: memory.store.agents.shift(id) for id in memory.store.agents.all()}
    return frame_of(request).answer(
        request,
        "agents.html",
        agents=sorted(workspace.agents(), key=lambda agent: (-agent.rank, agent.id)),
        seen=last_seen,
        moved=moved,
    )


@router.get("/agents/{id}")
def one(request: Request, id: str, memory: Reader) -> Response:
    """Show one agent: its rights where the reader may know them, and what it did."""
    workspace = gate_of(request).memory
    agent = next((agent for agent in workspace.agents() if agent.id == id), None)
    if agent is None:
        raise NotFound(f"there is no agent {id}", id=id)
    own = memory.agent is None or memory.id == id
    acts = page_of_acts(memory, ACTS, agent=id)
    return frame_of(request).answer(
        request,
        "agent.html",
        agent=agent,
        own=own,
        seen=workspace.last_seen().get(id) if own else None,
        days=by_day(acts[::-1]),
        older=acts.next,
        newest=memory.read(author=id, limit=NEWEST),
    )


@router.get("/agents/{id}/reputation")
def reputation(request: Request, id: str, memory: Operator) -> Response:
    """Show how an agent's authority moved, and why: a part, for it looks at all that agents did."""
    return frame_of(request).answer(
        request,
        "reputation.html",
        account=accounts(memory, id)[0],
        mode=memory.store.settings.reputation,
    )


@router.get("/departments")
def departments(request: Request, memory: Reader) -> Response:
    """Show the departments and who is in them."""
    return frame_of(request).answer(request, "departments.html", departments=_departments(memory))


@router.get("/departments/{name}")
def department(request: Request, name: str, memory: Reader) -> Response:
    """Show what all agents of a department may see, as far as the reader may."""
    members = _departments(memory).get(name)
    if members is None:
        raise NotFound(f"no agent is of the department {name}", id=name)
    return frame_of(request).answer(
        request,
        "department.html",
        name=name,
        members=members,
        view=memory.briefing(department=name, commands=False, quick=True),
        newest=memory.read(namespace=f"groups/{name}/*", limit=NEWEST),
    )


def _departments(memory: AgentMemory) -> dict[str, list[Agent]]:
    departments: dict[str, list[Agent]] = {}
    for agent in sorted(memory.store.agents.all().values()):
        if agent.department:
            departments.setdefault(agent.department, []).append(agent)
    return dict(sorted(departments.items()))
