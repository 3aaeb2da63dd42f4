"""Blockers over HTTP: which are open, and report one. `POST /v1/entries/{id}/resolve` ends one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from synapse.errors import InvalidEntry
from synapse.formats.codec import entry_json
from synapse.model.namespace import is_component
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Limit, Once
from synapse.tools import blocker_of
from synapse.wire.forms import page_wire

router = APIRouter(tags=["blockers"])
PLACE = "blockers"


class Blocker(Body):
    """What is missing, and in which project."""

    text: str
    project: str


@router.get("/blockers", response_model=shapes.Page)
def blockers(
    request: Request, memory: Reader, project: str | None = None, limit: Limit = None
) -> Response:
    """Return the open blockers that this agent may see, newest first."""
    glob = f"{PLACE}/*" if project is None else f"{_place(project)}/*"
    return conditional(request, page_wire(memory.read(namespace=glob, limit=limit)))


@router.post(
    "/blockers", status_code=201, response_model=shapes.Entry, responses=responses(404, 409)
)
def report(blocker: Blocker, memory: Writer, once: Once = None) -> Response:
    """Report a blocker: a critical entry below `blockers/`."""
    text = blocker_of(blocker.text) or blocker.text
    entry = memory.append(
        f"Blocked: {text}", _place(blocker.project), priority="critical", once=once
    )
    return made(entry_json(entry), 201, f"/v1/entries/{entry.id}")


def _place(project: str) -> str:
    if not is_component(project):
        raise InvalidEntry(
            f"project {project!r} is not valid: lower-case letters, digits, - and _",
            project=project,
        )
    return f"{PLACE}/{project}"
