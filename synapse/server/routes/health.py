"""Whether the server is up, whether it can do its work, and its figures.

The first two are for everybody and tell nothing of what is kept. The figures count what no agent
may see, and are the operator's: a token of the operator that reads alone is enough.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from synapse.server import shapes
from synapse.server.answers import made
from synapse.server.callers import Operator, gate_of
from synapse.server.measures import TEXT, Measures
from synapse.server.problems import responses

router = APIRouter(tags=["health"])
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/healthz", response_model=shapes.Health)
async def healthz() -> Response:
    """Return that the server is up."""
    return made({"status": "up"})


@router.get("/readyz", response_model=shapes.Readiness)
def readyz(request: Request) -> Response:
    """Return that the journal can be read and the index has all of it; 503 where it is not so."""
    store = gate_of(request).memory.store
    store.refresh()
    with store.snapshot():
        pass
    return made({"status": "ready", "writable": not store.readonly})


@router.get("/metrics", response_class=Response, responses={**_TEXT, **responses(401, 403)})
def metrics(request: Request, memory: Operator) -> Response:
    """Return the figures for Prometheus."""
    measures = request.app.state.measures
    assert isinstance(measures, Measures)
    return Response(measures.text(memory, request.app.state.hub.streams), media_type=TEXT)
