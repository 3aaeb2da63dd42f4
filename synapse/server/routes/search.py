"""Search over HTTP, by words and by meaning, with the filters of the library."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StrictInt

from synapse.acts.act import LARGEST
from synapse.server import shapes
from synapse.server.answers import conditional
from synapse.server.callers import Reader
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Flag, Many, Time, moment
from synapse.wire.forms import hits_json

router = APIRouter(tags=["search"], responses=responses(502))
_Names = str | list[str] | None


class Question(Body):
    """A question with its filters, where it is too long for an address."""

    q: str
    limit: Annotated[StrictInt, Field(ge=1, le=LARGEST)] = 10
    namespace: _Names = None
    kind: _Names = None
    author: str | None = None
    priority: _Names = None
    tag: str | None = None
    since: str | None = None
    until: str | None = None
    when: str | None = None
    archived: Flag = False
    mode: str | None = None


@router.get("/search", response_model=shapes.Hits)
def search(
    request: Request,
    memory: Reader,
    q: str,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 10,
    namespace: Many = None,
    kind: Many = None,
    author: str | None = None,
    priority: Many = None,
    tag: str | None = None,
    since: Time = None,
    until: Time = None,
    when: str | None = None,
    archived: bool = False,
    mode: str | None = None,
) -> Response:
    """Return what answers the query best, among what this agent may see."""
    filters: dict[str, Any] = {
        "limit": limit,
        "namespace": namespace,
        "kind": kind,
        "author": author,
        "priority": priority,
        "tag": tag,
        "when": when,
        "archived": archived,
        "mode": mode,
    }
    hits = memory.search(q, since=moment(since), until=moment(until), **filters)
    return conditional(request, hits_json(hits))


@router.post("/search", response_model=shapes.Hits)
def search_long(question: Question, request: Request, memory: Reader) -> Response:
    """Return the same for a question in a body. Nothing is written."""
    filters = question.model_dump(exclude={"q", "since", "until"})
    since, until = moment(question.since), moment(question.until)
    hits = memory.search(question.q, since=since, until=until, **filters)
    return conditional(request, hits_json(hits))
