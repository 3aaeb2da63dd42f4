"""Entries over HTTP: append, read, get, and why one is not shown."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from synapse.agent_memory import AgentMemory
from synapse.errors import Forbidden
from synapse.formats.codec import entry_json
from synapse.model.entry import PRIORITIES, SCOPES
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Flag, Id, Limit, Many, Once, Texts, Time, moment
from synapse.wire.forms import entries_with_fates, fields, page_wire

router = APIRouter(tags=["entries"])
_LINKS = {
    "get": {"operationId": "get_entry", "parameters": {"id": "$response.body#/id"}},
    "fate": {"operationId": "get_fate", "parameters": {"id": "$response.body#/id"}},
    "resolve": {"operationId": "resolve_entry", "parameters": {"id": "$response.body#/id"}},
}


# What the library takes, for the document; it is the library that refuses the rest.
Place = Annotated[
    str,
    Field(
        examples=["api/endpoints"],
        json_schema_extra={"pattern": "^[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*$"},
    ),
]
Priority = Annotated[str, Field(json_schema_extra={"enum": list(PRIORITIES)})]
Scope = Annotated[str, Field(json_schema_extra={"enum": list(SCOPES)})]


class NewEntry(Body):
    """What an agent writes. `from` may be left out: it is the token's agent."""

    body: str
    namespace: Place
    priority: Priority = "info"
    ttl: str | None = None
    tags: Texts = ()
    to: str | list[str] = "all"
    topic: str | None = None
    supersedes: str | list[str] | None = None
    related: Texts = ()
    scope: Scope = "public"
    pii: Flag = False
    derived_from: Texts = ()
    evidence: str | None = None
    when: str | list[str] | None = None
    author: str | None = Field(default=None, alias="from")


@router.post(
    "/entries",
    status_code=201,
    operation_id="append_entry",
    response_model=shapes.Entry,
    responses={201: {"links": _LINKS}, **responses(404, 409)},
)
def append(draft: NewEntry, memory: Writer, once: Once = None) -> Response:
    """Write an entry; it is durable when this is answered."""
    values = draft.model_dump(exclude={"author"})
    if draft.author not in (None, memory.id):
        raise Forbidden(
            f"this token is {memory.id}'s, and cannot write as {draft.author}",
            agent=memory.id,
            action="write",
        )
    entry = memory.append(values.pop("body"), values.pop("namespace"), **values, once=once)
    return made(entry_json(entry), 201, f"/v1/entries/{entry.id}")


@router.get("/entries", response_model=shapes.Page, responses=responses(404))
def read(
    request: Request,
    memory: Reader,
    id: Annotated[
        list[str] | None, Query(max_length=1_000, description="these alone, with their fates")
    ] = None,
    since: Time = None,
    priority: Many = None,
    namespace: Many = None,
    author: str | None = None,
    tag: str | None = None,
    limit: Limit = None,
    archived: bool = False,
    unread: bool = False,
    budget: Annotated[int | None, Query(ge=1, le=10_000_000)] = None,
) -> Response:
    """Return the live entries that this agent may see, newest first; with `unread` those that it
    was not shown, the most urgent first. Reading writes nothing: `POST /v1/shown` notes what
    reached the reader.
    """
    if id:
        return conditional(request, _named(memory, id))
    page = memory.read(
        since=moment(since),
        priority=priority,
        namespace=namespace,
        author=author,
        tag=tag,
        limit=limit,
        archived=archived,
        unread=unread,
        budget=budget,
    )
    return conditional(request, page_wire(page))


def _named(memory: AgentMemory, ids: list[str]) -> dict[str, Any]:
    """Return entries by their ids, whatever became of them."""
    entries = [memory.get(id) for id in ids]
    fates = [memory.fate(entry.id) for entry in entries]
    with memory.store.snapshot(late=True) as snap:
        cursor = snap.cursor
    counts = {"cursor": cursor, "matched": len(entries), "visible": len(entries)}
    return {"entries": entries_with_fates(entries, fates), **counts}


@router.get(
    "/entries/{id}", operation_id="get_entry", response_model=shapes.Entry, responses=responses(404)
)
def get(id: Id, request: Request, memory: Reader) -> Response:
    """Return one entry, whatever became of it."""
    return conditional(request, entry_json(memory.get(id)))


@router.get(
    "/entries/{id}/fate",
    operation_id="get_fate",
    response_model=shapes.FateOf,
    responses=responses(404),
)
def fate(id: Id, request: Request, memory: Reader) -> Response:
    """Return why an entry is not shown now; null where it is."""
    return conditional(request, {"fate": fields(memory.fate(id))})
