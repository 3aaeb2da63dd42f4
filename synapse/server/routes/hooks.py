"""Deliveries of other systems, as GitHub or CI, which are proven by a signature and not by a token.

Called by `application`, outside of the gate of tokens.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from synapse.server import shapes
from synapse.server.answers import made
from synapse.server.callers import gate_of
from synapse.server.problems import responses
from synapse.webhooks import inbound

router = APIRouter(tags=["hooks"])


@router.post(
    "/hooks/{name}",
    status_code=201,
    response_model=shapes.Delivered,
    responses=responses(400, 401, 403, 404, 409, 413),
)
async def deliver(name: str, request: Request) -> Response:
    """Take a delivery that a hook of `synapse.yaml` lets in; it becomes an entry, once."""
    memory, body = gate_of(request).memory, await request.body()
    entry = await run_in_threadpool(inbound.receive, memory, name, request.headers, body)
    return made({"id": entry.id}, 201)
