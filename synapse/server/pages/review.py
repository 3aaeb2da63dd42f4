"""The review queue: what waits for somebody to approve or reject it."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.access.staging import waits_until
from synapse.server.callers import Reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
MOST = 100


@router.get("/review")
def review(request: Request, memory: Reader) -> Response:
    """Show what waits for review: the reader's own, and what it may rule on."""
    waiting = memory.staged()
    ends = {entry.id: waits_until(memory.store, entry) for entry in waiting[:MOST]}
    return frame_of(request).answer(
        request, "review.html", waiting=waiting[:MOST], total=len(waiting), ends=ends
    )
