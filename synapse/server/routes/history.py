"""What happened, over HTTP: the log as sentences, what is new, what an agent did, how a project
went.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from synapse.history import timeline as times
from synapse.history.sentences import act_json, visible_acts
from synapse.history.timeline import Moment
from synapse.server import shapes
from synapse.server.answers import conditional
from synapse.server.callers import Operator, Reader
from synapse.server.problems import responses
from synapse.server.routes.parameters import LARGEST, Id, Limit, Many, Time, moment
from synapse.wire.forms import fields, record_json

router = APIRouter(tags=["history"], responses=responses(404))
Most = Annotated[int, Query(ge=0, le=LARGEST)]


@router.get("/log", response_model=shapes.Acts)
def log(request: Request, memory: Reader, since: Time = None, limit: Most = 50) -> Response:
    """Return the newest acts that the agent may know of, oldest first; limit 0 is all."""
    memory.store.look()
    acts = visible_acts(
        lambda size: memory.store.acts(None, None, moment(since), size), memory, limit
    )
    return conditional(request, {"acts": [act_json(act) for act in acts]})


@router.get("/recent", response_model=shapes.Moments)
def recent(
    request: Request, memory: Reader, since: Time = "24h", kind: Many = None, limit: Limit = 50
) -> Response:
    """Return what was written lately, of all kinds or of some, newest first."""
    return _moments(request, times.recent(memory, moment(since), kind or (), limit))


@router.get("/agents/{id}/acts", response_model=shapes.Moments)
def acts(id: Id, request: Request, memory: Reader, since: Time = None, limit: Most = 0) -> Response:
    """Return what an agent wrote, decided and ran, as far as the reader may know of it."""
    return _moments(request, times.agent_acts(memory, id, moment(since), limit))


@router.get("/timeline/{project}", response_model=shapes.Moments)
def timeline(
    project: Id, request: Request, memory: Reader, since: Time = None, limit: Limit = None
) -> Response:
    """Return the plans, decisions, blockers and runs of a project, oldest first."""
    return _moments(request, times.timeline(memory, project, moment(since), limit))


@router.get("/audit", response_model=shapes.Audit)
def audit(
    request: Request,
    memory: Operator,
    agent: str | None = None,
    entry: str | None = None,
    since: Time = None,
    limit: Limit = None,
) -> Response:
    """Return who wrote, changed or was shown what, and why; newest first. The operator's."""
    records = memory.audit(agent=agent, entry=entry, since=moment(since), limit=limit or None)
    rows: list[dict[str, Any]] = [record_json(record) for record in records]
    return conditional(request, {"audit": rows})


def _moments(request: Request, moments: Sequence[Moment]) -> Response:
    return conditional(request, {"moments": fields(moments)})
