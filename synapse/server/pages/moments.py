"""The memory as of a moment: what an agent was shown then, and what came later."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidQuery
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.dates import since
from synapse.server.callers import Reader, gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
LATER = 50


@router.get("/as-of")
def as_of(request: Request, memory: Reader, at: str = "", agent: str = "") -> Response:
    """Show the slider; what an agent would have been told then is a part of its own."""
    names, chosen = _agents(request, memory, agent)
    now, moment, error = memory.store.clock(), None, ""
    memory.store.refresh()
    with memory.store.snapshot() as snap:
        first = memory.store.log.at(1).at if snap.cursor else now
    try:
        moment = since(at or None, now)
    except InvalidQuery as refused:
        error = str(refused)
    return frame_of(request).answer(
        request,
        "moment.html",
        at=at,
        moment=now if moment is None else moment,
        first=first // 1_000_000,
        now=now // 1_000_000 + 1,
        names=names,
        chosen=chosen,
        shown=moment is not None,
        error=error,
        presets=_presets(first, now),
    )


@router.get("/as-of/view")
def view(request: Request, memory: Reader, at: str = "", agent: str = "") -> Response:
    """Show what an agent would have been told at a moment, the reader, or for the operator any: a
    part, for where the log alone can say it, that takes a while.
    """
    _, chosen = _agents(request, memory, agent)
    is_operator = known(request).operator
    mine = gate_of(request).memory.as_agent(chosen) if is_operator else memory
    shown = mine.briefing(as_of=at or "now", commands=False, quick=True)
    later = mine.read(since=shown.at + 1, limit=LATER)
    return frame_of(request).answer(
        request,
        "moment_view.html",
        chosen=chosen,
        view=shown,
        later=list(later),
        total=later.visible,
    )


def _agents(request: Request, memory: AgentMemory, agent: str) -> tuple[list[str], str]:
    """Return whose views there are for the reader, and which one is asked for."""
    is_operator = known(request).operator
    names = sorted(memory.store.agents.all()) if is_operator else [memory.id]
    return names, agent if is_operator and agent else names[0] if names else OPERATOR


def _presets(first: int, now: int) -> list[tuple[str, str]]:
    """Return moments that people ask for, as far back as there is anything."""
    spans = {"an hour ago": 3_600, "yesterday": 86_400, "a week ago": 604_800}
    spans["30 days ago"] = 2_592_000
    moments = [(label, now - seconds * 1_000_000) for label, seconds in spans.items()]
    return [(label, clock.seconds(at)) for label, at in moments if at > first]
