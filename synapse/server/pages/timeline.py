"""The timeline: what was written, decided and delivered, by day, the newest first."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.errors import SynapseError
from synapse.history.sentences import Act, visible_acts
from synapse.model import clock
from synapse.server.callers import Reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
LEAST, MOST = 50, 1_600


@router.get("/timeline")
def timeline(
    request: Request, memory: Reader, agent: str = "", since: str = "", n: str = "50"
) -> Response:
    """Show the newest acts that the reader may know of."""
    many = int(n) if n.isascii() and n.isdigit() and len(n) < 6 else LEAST
    many = min(max(many, LEAST), MOST)
    acts: list[Act] = []
    error = ""
    store = memory.store
    try:
        store.refresh()
        acts = visible_acts(
            lambda size: store.acts(agent or None, None, since or None, size), memory, many + 1
        )[::-1]
    except SynapseError as refused:
        error = str(refused)
    return frame_of(request).answer(
        request,
        "timeline.html",
        days=by_day(acts[:many]),
        error=error,
        agent=agent,
        since=since,
        more=len(acts) > many and many < MOST,
        many=many,
        agents=sorted(store.agents.all()),
    )


def by_day(acts: list[Act]) -> list[tuple[str, list[Act]]]:
    """Return acts by the day on which they happened, in their order."""
    days: dict[str, list[Act]] = {}
    for act in acts:
        days.setdefault(clock.day(act.record.at), []).append(act)
    return list(days.items())
