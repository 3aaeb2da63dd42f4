"""What is the operator's alone, over HTTP: questions and answers, the nightly runs, the proof of
the journal.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from synapse import consolidate
from synapse.consolidate.metrics import measure_json
from synapse.consolidate.undo import undo_json
from synapse.formats.codec import entry_json
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Operator
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Flag, Once
from synapse.wire.forms import entries_json, fields

router = APIRouter(tags=["operator"], responses=responses(404, 409))


class Word(Body):
    """What the operator says, to a team, an agent or all; `re` is the question that it answers."""

    to: str
    body: str
    priority: str = "critical"
    re: str | None = None


class Undo(Body):
    """The number of an act, the date of a nightly run, or `last`."""

    what: str
    plan: Flag = False


@router.get("/questions", response_model=shapes.Entries)
def questions(request: Request, memory: Operator) -> Response:
    """Return what is addressed to the operator and not done yet, oldest first."""
    return conditional(request, {"entries": entries_json(memory.questions())})


@router.post("/tell", status_code=201, response_model=shapes.Entry)
def tell(word: Word, memory: Operator) -> Response:
    """Say something in the operator's own name; a question is answered, and done."""
    entry = memory.tell(word.to, word.body, priority=word.priority, re=word.re)
    return made(entry_json(entry), 201, f"/v1/entries/{entry.id}")


@router.get("/nights", response_model=shapes.NightlyRuns)
def nightly_runs(request: Request, memory: Operator) -> Response:
    """Return the figures of the nightly runs, oldest first."""
    history = consolidate.run_history(memory)
    form = {
        "nights": [measure_json(run) for run in history.runs],
        "warnings": [*history.worries, *history.remarks],
    }
    return conditional(request, form)


@router.post("/nights/undo", response_model=shapes.Undone)
def undo(wanted: Undo, memory: Operator, once: Once = None) -> Response:
    """Take back an act or a nightly run; with `plan`, say what that would do."""
    done = consolidate.undo(memory, wanted.what, once=once, plan=wanted.plan)
    return made(fields(undo_json(done)))


@router.get("/verify", response_model=shapes.Verified)
def verify(request: Request, memory: Operator, head: str | None = None) -> Response:
    """Prove the journal's chain and every file against it."""
    return conditional(request, fields(memory.verify(head)))
