"""The pages of the memory, put together: which there are, and where the navigation has them."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from synapse.errors import NotFound
from synapse.server.pages import (
    agents,
    entries,
    login,
    moments,
    nights,
    overview,
    pulse,
    review,
    story,
    threads,
    timeline,
)
from synapse.server.pages.frame import Frame, Link, add_links, frame_of
from synapse.server.pages.route import problem_page, with_headers
from synapse.system.quoting import clean

MOST = 200  # characters of an address that a page repeats
LINKS = (
    Link("/", "Overview", "o", 0, ""),
    Link("/timeline", "Timeline", "t", 10),
    Link("/entries", "Entries", "e", 20),
    Link("/review", "Review", "v", 30),
    Link("/threads", "Threads", "m", 40),
    Link("/as-of", "As of a moment", "p", 50),
    Link("/agents", "Agents", "a", 60, "Team"),
    Link("/departments", "Departments", "d", 70, "Team", tab_of="/agents"),
    Link("/nights", "Nights", "n", 80, "Team", operator=True),
)
PARTS = (login, overview, timeline, entries, story, review, threads, moments, agents, nights, pulse)


def install(app: FastAPI) -> None:
    """Add the pages to an application; `app.state.frame` is where extensions add theirs."""
    app.state.frame = Frame()
    add_links(app.state.frame, LINKS)
    app.add_api_route("/static/{name:path}", asset, include_in_schema=False)
    app.include_router(login.links)
    for part in PARTS:
        app.include_router(part.router)
    _answer_browsers(app)


def _answer_browsers(app: FastAPI) -> None:
    """Answer a browser that asks for what there is not with a page; programs get the document."""
    to_programs = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        is_browser = "text/html" in request.headers.get("accept", "")
        if error.status_code != 404 or not is_browser or request.url.path.startswith("/v1/"):
            answer: Response = await to_programs(request, error)  # type: ignore[misc]
            return answer
        missing = NotFound(f"There is no page {clean(request.url.path)[:MOST]}")
        return with_headers(problem_page(request, missing))


def asset(request: Request, name: str, v: str = "") -> Response:
    """Return a file of the pages; whoever asks."""
    return frame_of(request).assets.response(name, v)
