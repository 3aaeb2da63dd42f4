"""Runs over HTTP: listed, in detail, as trees, summed up, beside their limits, and stopped.

For the operator alone, as the verbs of the shell are.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from orchestrator.reports.details import detail, receipt_json
from orchestrator.reports.limits import Limited, limited
from orchestrator.reports.rows import find_run, find_runs, run_rows
from orchestrator.reports.sums import Sums, sums
from orchestrator.reports.trees import trees
from orchestrator.reports.unread import SINCE, unread_runs
from orchestrator.reports.wakes import find_wakes
from orchestrator.server import forms
from orchestrator.server.source import REASON, Asked, stop
from orchestrator.waiting.answers import answer as answered
from orchestrator.waiting.inbox import inbox
from synapse.model.dates import since as parse_since
from synapse.server.answers import conditional, made
from synapse.server.callers import Operator
from synapse.server.problems import responses
from synapse.server.routes.parameters import Id, Once, Time, moment
from synapse.wire.forms import fields

router = APIRouter(tags=["runs"])
Limit = Annotated[int, Query(ge=0, le=10_000, description="0: all")]
Filter = Annotated[str | None, Query(max_length=200)]
By = Literal["department", "agent", "project", "role", "model", "day"]


@router.get("/runs", response_model=forms.Runs)
def runs(
    request: Request,
    asked: Asked,
    state: Literal["running", "ended"] | None = None,
    agent: Filter = None,
    project: Filter = None,
    root: Filter = None,
    parent: Filter = None,
    department: Filter = None,
    model: Filter = None,
    since: Time = None,
    limit: Limit = 50,
) -> Response:
    """Return the runs, newest first."""
    wanted = {
        "state": state,
        "agent": agent,
        "project": project,
        "root": root,
        "parent": parent,
        "department": department,
        "model": model,
        "since": parse_since(moment(since), asked.now()),
    }
    rows = run_rows(asked, find_runs(asked, **wanted, limit=limit or None))
    with asked.store.snapshot() as snap:
        matched = snap.count_runs(**wanted)
    form = {"runs": [row.json() for row in rows], "matched": matched}
    return conditional(request, form)


@router.get("/runs/{id}", response_model=forms.Detail, responses=responses(404, 409))
def run(request: Request, id: Id, asked: Asked) -> Response:
    """Return one run: by its name, or by the beginning of it."""
    fields = find_run(asked, id)
    values = {**detail(asked, fields).json(), "receipt": receipt_json(asked, fields)}
    return conditional(request, values)


@router.post(
    "/runs/{id}/stop", status_code=202, response_model=forms.Stopped, responses=responses(404, 409)
)
def end(
    id: Id, asked: Asked, memory: Operator, body: forms.Stop | None = None, once: Once = None
) -> Response:
    """Ask for the end of a run and of all that it spawned; asked for again, nothing is written."""
    reason = body.reason if body else REASON
    name, orphaned = stop(asked, id, reason, once)
    return made({"stopped": name, "reason": reason, "orphaned": orphaned}, 202)


@router.get("/waiting", response_model=forms.Inbox)
def waiting(request: Request, asked: Asked) -> Response:
    """Return what waits for a person, each with its age, its cost and the line that moves it."""
    now = asked.now()
    return conditional(request, {"waiting": [item.json(now) for item in inbox(asked)]})


@router.post("/answer", response_model=forms.Answered, responses=responses(404, 409))
def answer(said: forms.AnswerTo, asked: Asked, memory: Operator) -> Response:
    """Answer a run that waits, a blocker or a question; its tree goes on in the process that can
    drive it."""
    given = answered(memory, asked, said.to, said.text)
    line = f"orchestrator resume {given.run}" if given.run else ""
    return made({**fields(given._asdict()), "line": line})


@router.get("/tree", response_model=forms.Trees, responses=responses(404, 409))
def tree(request: Request, asked: Asked, run: Filter = None, limit: Limit = 10) -> Response:
    """Return who spawned whom, from one run on or the newest trees, each with its sum."""
    form = {"trees": [node.json() for node in trees(asked, run, limit)]}
    return conditional(request, form)


@router.get("/stats", response_model=forms.shape(Sums))
def stats(request: Request, asked: Asked, by: By = "department", since: Time = None) -> Response:
    """Return what the runs took, summed up; with `by=day` by the day that they began."""
    floor = parse_since(moment(since), asked.now()) or 0
    return conditional(request, fields(sums(asked, by, floor)))


@router.get("/debts", response_model=forms.Debts)
def debts(request: Request, asked: Asked, project: Filter = None, since: Time = SINCE) -> Response:
    """Return results that cost turns and that nobody read, of runs that ended since then."""
    floor = parse_since(moment(since), asked.now()) or 0
    rows = run_rows(asked, unread_runs(asked, floor, project))
    costs = [row.cost for row in rows if row.cost is not None]
    form = {
        "debts": [row.json() for row in rows],
        "tokens": sum(row.tokens for row in rows),
        "cost": sum(costs) if costs else None,
    }
    return conditional(request, form)


@router.get("/wakes", response_model=forms.Wakes)
def wakes(
    request: Request, asked: Asked, since: Time = "7d", agent: Filter = None, pending: bool = False
) -> Response:
    """Return how far critical entries got on their way into prompts, and to whom."""
    rows = [
        wake._asdict()
        for wake in find_wakes(asked, since or "7d")
        if agent in (None, wake.agent) and not (pending and wake.rendered is not None)
    ]
    return conditional(request, {"wakes": rows})


@router.get("/limits", response_model=forms.shape(Limited))
def limits(request: Request, asked: Asked) -> Response:
    """Return the spend of today, of the workspace and of the departments, beside their limits."""
    return conditional(request, fields(limited(asked)))
