"""Knowledge over HTTP: facts, atoms, the links between atoms, where something came from, recall."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from synapse.formats.codec import entry_json
from synapse.knowledge import memory as known
from synapse.knowledge import recall as recalls
from synapse.knowledge.provenance import DEPTH
from synapse.knowledge.provenance import why as trail
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Id, Number, Once, Texts
from synapse.wire.forms import entries_json, fields

router = APIRouter(tags=["knowledge"], responses=responses(404, 409))


class Fact(Body):
    """A fact to keep, for oneself, a group or everybody."""

    fact: str
    scope: str = "agent"
    categories: Texts = ()
    importance: Number = 1.0
    confidence: Number = 1.0
    ttl: str | None = None
    cites: Texts = ()
    supersedes: Texts = ()
    source: str = "agent"
    to: str | list[str] = "all"


class Atom(Body):
    """Who does what, with which outcome and consequences."""

    subject: str
    action: str
    outcome: str
    consequences: str = ""
    scope: str = "agent"
    confidence: Number = 1.0
    cites: Texts = ()
    source: str = "agent"
    to: str | list[str] = "all"


class NewLink(Body):
    cause: str
    effect: str
    type: str = "causes"
    strength: Number = 0.5


class Reason(Body):
    reason: str | None = None


@router.post("/facts", status_code=201, response_model=shapes.Entry)
def remember(fact: Fact, memory: Writer, once: Once = None) -> Response:
    """Keep a fact. It is trusted no more than the least of what it cites."""
    values = fact.model_dump()
    entry = known.remember(memory, values.pop("fact"), **values, once=once)
    return made(entry_json(entry), 201, f"/v1/entries/{entry.id}")


@router.post("/atoms", status_code=201, response_model=shapes.Entry)
def atom(parts: Atom, memory: Writer, once: Once = None) -> Response:
    """Keep a unit of cause and effect."""
    entry = known.atom(memory, **parts.model_dump(), once=once)
    return made(entry_json(entry), 201, f"/v1/entries/{entry.id}")


@router.post("/links", response_model=shapes.Link)
def link(said: NewLink, memory: Writer) -> Response:
    """Say what one atom does to another; what was said of the pair before no longer counts."""
    return made(fields(known.link(memory, **said.model_dump())))


@router.get("/atoms/{id}/links", response_model=shapes.Links)
def links(id: Id, request: Request, memory: Reader) -> Response:
    """Return the links from and to an atom, if the agent may see both ends."""
    return conditional(request, {"links": fields(known.links_of(memory, id))})


@router.post("/knowledge/{id}/forget", response_model=shapes.Entry)
def forget(id: Id, memory: Writer, said: Reason | None = None, once: Once = None) -> Response:
    """Take a fact or an atom out of everything that is shown. It stays in the log."""
    entry = known.forget(memory, id, said.reason if said else None, once=once)
    return made(entry_json(entry))


@router.get("/why/{id}", response_model=shapes.Step)
def why(
    id: Id, request: Request, memory: Reader, depth: Annotated[int, Query(ge=1, le=DEPTH)] = DEPTH
) -> Response:
    """Return where an item or a run came from, as far as the agent may see it."""
    return conditional(request, fields(trail(memory, id, depth)))


@router.get("/recall", response_model=shapes.Capsule, responses=responses(502))
def recall(
    request: Request,
    memory: Reader,
    q: str,
    scope: str = "all",
    top_k: Annotated[int, Query(ge=1, le=1_000)] = recalls.TOP,
    max_capsule_bytes: int = recalls.BYTES,
) -> Response:
    """Return the facts, entries and messages that answer best, as text within a limit of bytes."""
    capsule = recalls.search(memory, q, scope, top_k, max_capsule_bytes)
    form = {
        "text": capsule.text,
        "shown": entries_json(capsule.shown),
        "found": capsule.found,
        "version": capsule.version,
    }
    return conditional(request, form)
