"""The pulse of an open page: how far the log is, so that a page without a stream of events sees
that something is new.
"""

from __future__ import annotations

from fastapi import Response
from starlette.responses import JSONResponse

from synapse.server.callers import Reader
from synapse.server.pages.route import pages

router = pages()


@router.get("/pulse")
def pulse(memory: Reader) -> Response:
    """Tell the place in the log, and the newest critical entry that the reader may see."""
    page = memory.read(priority="critical", limit=1)
    newest = {"id": page[0].id, "body": page[0].body[:300]} if page.entries else None
    return JSONResponse({"cursor": page.cursor, "critical": newest})
