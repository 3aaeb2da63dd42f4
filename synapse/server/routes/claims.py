"""Leases of work over HTTP: take one, give it back."""

from __future__ import annotations

from fastapi import APIRouter, Response

from synapse.server import shapes
from synapse.server.answers import made
from synapse.server.callers import Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Once, Whole
from synapse.wire.forms import fields

router = APIRouter(tags=["claims"], responses=responses(404, 409))


class Work(Body):
    work: str


class Lease(Work):
    minutes: Whole = 30
    note: str | None = None


@router.post("/claims", response_model=shapes.Claim)
def claim(lease: Lease, memory: Writer, once: Once = None) -> Response:
    """Lease a piece of work, or extend one's own lease. 409 says who holds it."""
    claimed = memory.claim(lease.work, minutes=lease.minutes, note=lease.note, once=once)
    return made(fields(claimed))


@router.post("/claims/release", response_model=shapes.Claim)
def release(given: Work, memory: Writer, once: Once = None) -> Response:
    """Give a piece of work back before its time."""
    return made(fields(memory.release(given.work, once=once)))
