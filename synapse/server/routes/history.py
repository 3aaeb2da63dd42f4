"""What happened, over HTTP: the log as sentences, and what is asked of times."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from synapse.acts.act import LARGEST, PAGE
from synapse.history.sentences import act_json, page_of_acts
from synapse.server import shapes
from synapse.server.answers import conditional
from synapse.server.callers import Reader
from synapse.server.routes.acts import router_of
from synapse.server.routes.parameters import Time, moment

router = router_of("history", 404)
Most = Annotated[int, Query(ge=0, le=LARGEST)]


@router.get("/log", response_model=shapes.Acts)
def log(
    request: Request,
    memory: Reader,
    since: Time = None,
    limit: Most = 50,
    before: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Return the newest acts that the agent may know of, oldest first; limit 0 is a whole page."""
    acts = page_of_acts(memory, min(limit or PAGE, PAGE), before, since=moment(since))
    return conditional(request, {"acts": [act_json(act) for act in acts], "next": acts.next})
