"""What is decided about entries over HTTP: done, believed, approved or turned away, filed away.

Only `resolve` takes a key: the other rulings are refused the second time.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import Field

from synapse.access.review import BROUGHT_BACK, FILED
from synapse.formats.codec import entry_json
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes import parameters
from synapse.server.routes.parameters import Id, Once
from synapse.wire.forms import entries_json

router = APIRouter(tags=["rulings"], responses=responses(404, 409))
Names = Annotated[list[str], Field(max_length=1_000)]


class Note(parameters.Body):
    note: str | None = None


class Reason(parameters.Body):
    reason: str | None = None


class Nothing(parameters.Body):
    """An empty object, or no body."""


class Filing(parameters.Body):
    ids: Names
    reason: str | None = None


@router.post("/entries/{id}/resolve", operation_id="resolve_entry", response_model=shapes.Entry)
def resolve(
    id: Id, memory: Writer, said: Annotated[Note | None, Body()] = None, once: Once = None
) -> Response:
    """Say that a blocker, or any entry, is done."""
    return made(entry_json(memory.resolve(id, said.note if said else None, once=once)))


@router.post("/entries/{id}/vouch", response_model=shapes.Entry)
def vouch(id: Id, memory: Writer, said: Annotated[Nothing | None, Body()] = None) -> Response:
    """Believe an unverified entry: from now on it counts as its author's."""
    return made(entry_json(memory.vouch(id)))


@router.post("/entries/{id}/approve", response_model=shapes.Entry)
def approve(id: Id, memory: Writer, said: Annotated[Nothing | None, Body()] = None) -> Response:
    """Let a staged entry take effect."""
    return made(entry_json(memory.approve(id)))


@router.post("/entries/{id}/reject", response_model=shapes.Entry)
def reject(id: Id, memory: Writer, said: Annotated[Reason | None, Body()] = None) -> Response:
    """Turn a staged entry away. It is never shown; its record stays."""
    return made(entry_json(memory.reject(id, said.reason if said else None)))


@router.get("/staged", response_model=shapes.Entries)
def staged(request: Request, memory: Reader) -> Response:
    """Return what waits for review: the agent's own entries, and those it may rule on."""
    return conditional(request, {"entries": entries_json(memory.staged())})


@router.post("/archive", response_model=shapes.Entries)
def archive(filing: Filing, memory: Writer) -> Response:
    """File entries away: out of every page, still readable as archived ones."""
    filed = memory.archive(filing.ids, filing.reason or FILED)
    return made({"entries": entries_json(filed)})


@router.post("/restore", response_model=shapes.Entries)
def restore(filing: Filing, memory: Writer) -> Response:
    """Bring archived entries back to the place they had."""
    back = memory.restore(filing.ids, filing.reason or BROUGHT_BACK)
    return made({"entries": entries_json(back)})
