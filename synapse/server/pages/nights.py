"""Nights: what maintenance merged and filed away, with its figures, and taking acts back."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from synapse.consolidate.nightly import room_remarks, run_figures
from synapse.consolidate.undo import undo
from synapse.errors import Forbidden
from synapse.history.sentences import Act, visible_acts
from synapse.model import clock
from synapse.model.agents import CONSOLIDATOR
from synapse.server.callers import Operator, Reader, gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import back, form, pages

router = pages()
ACTS = 300


@router.get("/nights")
def nightly_runs(request: Request, memory: Operator) -> Response:
    """Show the figures of every night, the newest first."""
    history = run_figures(memory)
    return frame_of(request).answer(
        request, "nights.html", history=history, runs=history.runs[::-1]
    )


@router.get("/nights/remarks")
def remarks(request: Request, memory: Operator) -> Response:
    """Show remarks on the room that entries take: a part, for it looks at all of them."""
    found = room_remarks(memory)
    return frame_of(request).answer(request, "remarks.html", remarks=found[:10])


@router.get("/nights/{seq}")
def nightly_run(request: Request, seq: int, memory: Operator) -> Response:
    """Show what one night did: the acts between the one before and its end."""
    runs = run_figures(memory).runs
    position = next((n for n, run in enumerate(runs) if run.at == seq), None)
    if position is None:
        return nightly_runs(request, memory)
    run, since = runs[position], runs[position - 1].at if position else 0
    store = memory.store
    acts = visible_acts(
        lambda size: store.acts(CONSOLIDATOR, None, clock.iso(since), size),
        memory.as_agent("operator"),
        0,
    )
    mine = [act for act in acts if since < act.record.at <= run.at]
    return frame_of(request).answer(
        request, "night.html", run=run, acts=mine[:ACTS], total=len(mine)
    )


@router.get("/undo/{what}")
def plan(request: Request, what: str, memory: Reader) -> Response:
    """Show what taking an act back would change."""
    workspace = gate_of(request).memory
    planned = undo(workspace, what, by=memory.id, plan=True)
    return frame_of(request).answer(
        request,
        "undo.html",
        what=what,
        planned=planned,
        acts=[Act(record) for record in planned.acts],
    )


@router.post("/undo/{what}")
def take_back(
    request: Request, what: str, memory: Reader, fields: Annotated[dict[str, str], Depends(form)]
) -> Response:
    """Take an act back."""
    if known(request).read_only:
        raise Forbidden("this login may read alone", agent=memory.id, action="undo")
    undo(gate_of(request).memory, what, by=memory.id)
    return back(fields, "/timeline", "undone")
