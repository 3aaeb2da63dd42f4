"""Entries over HTTP: who writes is the token's agent, and a page may be of named entries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from synapse.acts import memory as acts
from synapse.agent_memory import AgentMemory
from synapse.errors import Forbidden
from synapse.model.entry import PRIORITIES, SCOPES
from synapse.server.answers import conditional
from synapse.server.routes.acts import Own, respond, router_of
from synapse.wire.forms import entries_with_fates

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
Ids = Annotated[
    list[str] | None, Query(max_length=1_000, description="these alone, with their fates")
]


def _append(request: Request, memory: AgentMemory, values: dict[str, Any]) -> Response:
    author = values.pop("author")
    if author not in (None, memory.id):
        raise Forbidden(
            f"this token is {memory.id}'s, and cannot write as {author}",
            agent=memory.id,
            action="write",
        )
    return respond(acts.append, request, memory, values)


def _read(request: Request, memory: AgentMemory, values: dict[str, Any]) -> Response:
    ids = values.pop("id")
    if ids:
        return conditional(request, _named(memory, ids))
    return respond(acts.read, request, memory, values)


def _named(memory: AgentMemory, ids: list[str]) -> dict[str, Any]:
    """Return entries by their ids, whatever became of them."""
    entries = [memory.get(id) for id in ids]
    fates = [memory.fate(entry.id) for entry in entries]
    with memory.store.snapshot(late=True) as snap:
        cursor = snap.cursor
    counts = {"cursor": cursor, "matched": len(entries), "visible": len(entries)}
    return {"entries": entries_with_fates(entries, fates), **counts}


_NEW = {
    "namespace": (Place, ...),
    "priority": (Priority, "info"),
    "scope": (Scope, "public"),
    "author": (str | None, Field(default=None, alias="from")),
}
router = router_of(
    acts.WRITING,
    404,
    own={acts.append: Own(_NEW, _append), acts.read: Own({"id": (Ids, None)}, _read)},
)
