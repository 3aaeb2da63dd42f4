"""The extension of the server: routes and pages of runs, added to its application. Loaded by the
entry point `orchestrator` of the group `synapse.server`.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from orchestrator.server import pages, routes
from synapse.server.callers import Authenticated
from synapse.server.problems import responses


def extend(app: FastAPI) -> None:
    """Add the routes under /v1, the pages, their links and the cards of the overview."""
    api = APIRouter(prefix="/v1", dependencies=[Authenticated], responses=responses(401))
    api.include_router(routes.router)
    app.include_router(api)
    pages.install(app)
