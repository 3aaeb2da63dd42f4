"""The timeline: what was written, decided and delivered, by day, the newest first."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.errors import SynapseError
from synapse.history.sentences import Act, page_of_acts
from synapse.model import clock
from synapse.model.results import Rows
from synapse.server.callers import Reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
ACTS = 50


@router.get("/timeline")
def timeline(
    request: Request, memory: Reader, agent: str = "", since: str = "", before: str = ""
) -> Response:
    """Show the newest acts that the reader may know of, or those before one of them."""
    acts, error = Rows[Act](), ""
    try:
        acts = page_of_acts(memory, ACTS, before or None, agent=agent or None, since=since or None)
    except SynapseError as refused:
        error = str(refused)
    return frame_of(request).answer(
        request,
        "timeline.html",
        days=by_day(acts[::-1]),
        error=error,
        agent=agent,
        since=since,
        older=acts.next,
        agents=sorted(memory.store.agents.all()),
    )


def by_day(acts: list[Act]) -> list[tuple[str, list[Act]]]:
    """Return acts by the day on which they happened, in their order."""
    days: dict[str, list[Act]] = {}
    for act in acts:
        days.setdefault(clock.day(act.record.at), []).append(act)
    return list(days.items())
