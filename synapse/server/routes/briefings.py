"""What an agent should know, over HTTP: its briefing, now or as of a time, what is unread, and what
reached it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StrictInt

from synapse.server import shapes
from synapse.server.answers import MARKDOWN, conditional, made, tagged
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Many, Once, Time, moment
from synapse.wire.forms import entries_json, view_json

router = APIRouter(tags=["briefing"])
Budget = Annotated[int | None, Query(ge=1, le=10_000_000)]
Cursor = Annotated[int | None, Query(ge=0, le=2**53)]
Names = Annotated[list[str], Field(max_length=10_000)]
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {MARKDOWN: {"schema": {"type": "string"}}}}
}


class Delivered(Body):
    ids: Names


class Shown(Delivered):
    """What an agent was shown: entries of a page of `visible`, as of a cursor."""

    visible: Annotated[StrictInt, Field(ge=0, le=2**53)]
    cursor: Annotated[StrictInt, Field(ge=0, le=2**53)]
    how: Literal["read", "briefing"] = "read"


@router.get("/briefing", response_model=shapes.View, responses={**_TEXT, **responses(404)})
def briefing(
    request: Request,
    memory: Reader,
    budget: Budget = None,
    department: str | None = None,
    as_of: Time = None,
    encoding: str = "o200k_base",
    until: Cursor = None,
    only: str | None = None,
    commands: bool = True,
    about: str = "",
    moments: bool = True,
    without: Many = None,
    quick: bool = False,
) -> Response:
    """Return what the agent should know now, within a number of tokens; its text alone to who
    accepts `text/markdown`.
    """
    view = memory.briefing(
        budget,
        department=department,
        as_of=_time(as_of),
        encoding=encoding,
        until=until,
        only=only,
        commands=commands,
        about=about,
        moments=moments,
        without=without or (),
        quick=quick,
    )
    if _wants_text(request):
        return tagged(request, view.markdown().encode(), MARKDOWN)
    return conditional(request, view_json(view, None), apart="at")


@router.get("/as-of", response_model=shapes.ViewAsOf, responses=responses(404))
def as_of(
    request: Request,
    memory: Reader,
    time: Annotated[str, Query(max_length=200)],
    department: str | None = None,
    budget: Budget = None,
) -> Response:
    """Return the briefing as it was at a time, and what has come since."""
    at = _time(time)
    assert at is not None
    view = memory.briefing(budget, department=department, as_of=at)
    return conditional(request, view_json(view, memory.later(at, department)), apart="at")


@router.get("/later", response_model=shapes.Entries, responses=responses(404))
def later(
    request: Request,
    memory: Reader,
    as_of: Annotated[str, Query(max_length=200)],
    department: str | None = None,
) -> Response:
    """Return what has come since a time that this agent would be shown now."""
    at = _time(as_of)
    assert at is not None
    return conditional(request, {"entries": entries_json(memory.later(at, department))})


@router.get("/unread", response_model=shapes.Unread)
def unread(request: Request, memory: Reader) -> Response:
    """Return how many live entries of others this agent has not been shown."""
    return conditional(request, {"agent": memory.id, "unread": memory.unread()})


@router.post("/shown", response_model=shapes.Ids, responses=responses(404, 409))
def shown(page: Shown, memory: Writer, once: Once = None) -> Response:
    """Note that a page reached the agent: its entries are no longer unread."""
    ids = [memory.access.entry(id).id for id in page.ids]
    memory.access.writing_agent()
    memory.writer.shown(ids, page.visible, page.cursor, page.how, once)
    return made({"ids": ids})


@router.post("/acks", response_model=shapes.Ids, responses=responses(404, 409))
def ack(delivered: Delivered, memory: Writer, once: Once = None) -> Response:
    """Say that entries which were delivered to this agent have reached it."""
    return made({"ids": memory.ack(delivered.ids, once=once)})


def _time(text: str | None) -> str | int | None:
    when = moment(text)
    assert when is None or isinstance(when, str | int)
    return when


def _wants_text(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return MARKDOWN in accepted and "application/json" not in accepted
