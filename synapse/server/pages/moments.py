"""The memory as of a moment: what an agent was shown then, and what came later."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.errors import InvalidQuery
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.server.callers import Reader, gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
LATER = 50


@router.get("/as-of")
def as_of(request: Request, memory: Reader, at: str = "", agent: str = "") -> Response:
    """Show what an agent would have been told at a moment: the reader, or for the operator any."""
    is_operator = known(request).operator
    names = sorted(memory.store.agents()) if is_operator else [memory.id]
    chosen = agent if is_operator and agent else names[0] if names else OPERATOR
    now, error, view, later = memory.store.clock(), "", None, []
    with memory.store.snapshot(look=True) as snap:
        first = memory.store.log.at(1).at if snap.cursor else now
    if at and names:
        mine = gate_of(request).memory.as_agent(chosen) if is_operator else memory
        try:
            view = mine.briefing(as_of=at, commands=False, quick=True)
            later = mine.later(at)
        except InvalidQuery as refused:
            error = str(refused)
    return frame_of(request).answer(
        request,
        "moment.html",
        at=at,
        moment=view.at if view else now,
        first=first // 1_000_000,
        now=now // 1_000_000 + 1,
        names=names,
        chosen=chosen,
        view=view,
        later=later[::-1][:LATER],
        total=len(later),
        error=error,
        presets=_presets(first, now),
    )


def _presets(first: int, now: int) -> list[tuple[str, str]]:
    """Return moments that people ask for, as far back as there is anything."""
    spans = {"an hour ago": 3_600, "yesterday": 86_400, "a week ago": 604_800}
    spans["30 days ago"] = 2_592_000
    moments = [(label, now - seconds * 1_000_000) for label, seconds in spans.items()]
    return [(label, clock.seconds(at)) for label, at in moments if at > first]
