"""Agents over HTTP: who calls, and who there is to write to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from synapse.model.agents import OPERATOR, Agent
from synapse.server import shapes
from synapse.server.answers import conditional
from synapse.server.callers import Known, Reader
from synapse.wire.forms import agent_json

router = APIRouter(tags=["agents"])
# What an agent is told of others: what it takes to address them.
_ADDRESS = ("id", "role", "name", "department", "teams", "projects", "authority")


@router.get("/me", response_model=shapes.Me)
def me(request: Request, caller: Known, memory: Reader) -> Response:
    """Return who the token's agent is, and what it may do."""
    memory.store.refresh()
    declared = memory.agent
    with memory.store.snapshot(late=True) as snap:
        cursor = snap.cursor
    form = {
        "agent": caller.agent,
        "read_only": caller.read_only,
        "declared": None if declared is None else agent_json(declared),
        "cursor": cursor,
    }
    return conditional(request, form)


@router.get("/agents", response_model=shapes.Agents)
def agents(request: Request, memory: Reader) -> Response:
    """Return the agents: of others what it takes to address them, of itself everything."""
    memory.store.refresh()
    rows = sorted(memory.store.agents.all().values(), key=lambda agent: (-agent.rank, agent.id))
    return conditional(request, {"agents": [_form(agent, memory.id) for agent in rows]})


def _form(agent: Agent, reader: str) -> dict[str, Any]:
    form = agent_json(agent)
    if reader not in (OPERATOR, agent.id):
        form = {name: form[name] for name in _ADDRESS}
    return {**form, "names": sorted(agent.names)}
