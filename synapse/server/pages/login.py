"""Logging in and out: a link shows a page, and only its button uses the link up.

Whatever fetches a link to preview it changes nothing.
"""

from __future__ import annotations

import hmac
import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import RedirectResponse

from synapse.errors import Forbidden
from synapse.model.agents import OPERATOR
from synapse.server.announcement import SECRET
from synapse.server.browsers import COOKIE, LOGIN
from synapse.server.callers import gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import form, pages
from synapse.server.problems import Unauthorized

router = pages()
links = APIRouter(include_in_schema=False)
log = logging.getLogger(__name__)
Form = Annotated[dict[str, str], Depends(form)]


@router.get("/login")
def ask(request: Request, code: str = "") -> Response:
    """Show the button that logs in with a link's code."""
    return frame_of(request).answer(request, "login.html", code=code, error=None)


@router.post("/login")
def log_in(request: Request, fields: Form) -> Response:
    """Use a link up, and give the browser its cookie."""
    cookie = gate_of(request).browsers.log_in(fields.get("code", ""))
    address = request.client.host if request.client else ""
    log.warning("a browser at %s %s", address, "logs in" if cookie else "has no good link")
    if cookie is None:
        raise Unauthorized(
            "this link was used, or is older than ten minutes: run `synapse dashboard`"
            " for another one"
        )
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(LOGIN),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@links.post("/login/links")
def link(request: Request, fields: Form) -> dict[str, str]:
    """Make a link to log in as an agent, for the person whose folder has the secret."""
    expected = request.app.state.serving.secret
    secret = request.headers.get(SECRET, "")
    if not hmac.compare_digest(expected.encode(), secret.encode()):
        raise Forbidden("this is for whoever started the server", action="log in")
    gate, agent = gate_of(request), fields.get("agent") or OPERATOR
    gate.memory.as_agent(agent)
    return {"code": gate.browsers.link(agent)}


@router.post("/logout")
def log_out(request: Request) -> Response:
    """End this browser's login."""
    known(request)
    gate_of(request).browsers.log_out(request.cookies.get(COOKIE, ""))
    response = Response(status_code=204, headers={"HX-Redirect": "/login"})
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response
