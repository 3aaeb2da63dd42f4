"""The routes of A2A: the card, which anybody may read, and JSON-RPC, with a token as everywhere.

Loads the SDK with the first request; says what to install where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request, Response

from synapse.errors import NotFound
from synapse.server.callers import known
from synapse.system import extras

if TYPE_CHECKING:
    from synapse.server.a2a.agent import Agent

PATH = "/a2a"
CARD = "/.well-known/agent-card.json"
router = APIRouter(include_in_schema=False)  # JSON-RPC has a description of its own: the card


@router.get(CARD)
async def card(request: Request) -> Response:
    """Describe the agent, under the address by which it was asked."""
    agent = await agent_of(request.app)
    return agent.card(f"{str(request.base_url).rstrip('/')}{PATH}")


@router.post(PATH)
async def call(request: Request) -> Response:
    """Answer a call of JSON-RPC, by one event or many."""
    known(request)  # a token that is not good is an answer of HTTP, not one of JSON-RPC
    agent = await agent_of(request.app)
    return await agent.answer(request)


async def agent_of(app: FastAPI) -> Agent:
    """Return the agent of an application, made with the first request."""
    if app.state.a2a is None:
        made = await to_thread.run_sync(_loaded)
        if app.state.a2a is None:  # another request was faster
            app.state.a2a = made(app.state.gate, app.state.hub, app.state.serving.push)
    agent: Agent = app.state.a2a
    return agent


async def close(app: FastAPI) -> None:
    """End the tasks that run."""
    if app.state.a2a is not None:
        await app.state.a2a.close()


def _loaded() -> type[Agent]:
    try:
        from synapse.server.a2a.agent import Agent
    except ModuleNotFoundError as error:
        raise NotFound(extras.missing(error, "A2A", "a2a") or str(error)) from None
    return Agent
