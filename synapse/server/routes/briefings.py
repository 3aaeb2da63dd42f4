"""What an agent should know, over HTTP: its briefing, now or as of a time, what is unread, and what
reached it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field, StrictInt

from synapse.acts import memory as acts
from synapse.agent_memory import AgentMemory
from synapse.server import shapes
from synapse.server.answers import MARKDOWN, conditional, made, tagged
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.acts import Own, call, router_of
from synapse.server.routes.parameters import Body, Once, moment
from synapse.wire.forms import view_json

Budget = Annotated[int | None, Query(ge=1, le=10_000_000)]
Names = Annotated[list[str], Field(max_length=10_000)]
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {MARKDOWN: {"schema": {"type": "string"}}}}
}


class Shown(Body):
    """What an agent was shown: entries of a page of `visible`, as of a cursor."""

    ids: Names
    visible: Annotated[StrictInt, Field(ge=0, le=2**53)]
    cursor: Annotated[StrictInt, Field(ge=0, le=2**53)]
    how: Literal["read", "briefing"] = "read"


def _briefing(request: Request, memory: AgentMemory, values: dict[str, Any]) -> Response:
    """Answer with the text alone to who accepts `text/markdown`."""
    view = call(acts.briefing, memory, values)
    accepted = request.headers.get("accept", "")
    if MARKDOWN in accepted and "application/json" not in accepted:
        return tagged(request, view.markdown().encode(), MARKDOWN)
    return conditional(request, acts.briefing.answer.form(view), apart="at")


def _unread(request: Request, memory: AgentMemory, values: dict[str, Any]) -> Response:
    return conditional(request, {"agent": memory.id, "unread": memory.unread()})


router = router_of(
    acts.READING,
    own={acts.briefing: Own(answer=_briefing, responses=_TEXT), acts.unread: Own(answer=_unread)},
)


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


@router.post("/shown", response_model=shapes.Ids, responses=responses(404, 409))
def shown(page: Shown, memory: Writer, once: Once = None) -> Response:
    """Note that a page reached the agent: its entries are no longer unread."""
    ids = [memory.access.entry(id).id for id in page.ids]
    memory.access.writing_agent()
    memory.writer.shown(ids, page.visible, page.cursor, page.how, once)
    return made({"ids": ids})


def _time(text: str | None) -> str | int | None:
    when = moment(text)
    assert when is None or isinstance(when, str | int)
    return when
