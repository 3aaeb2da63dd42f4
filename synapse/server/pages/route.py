"""The route of a page: its headers, its errors as pages, and its forms.

A page may run no script and load nothing but what this server gives it, no other site may frame it,
and nobody keeps it. Called by every module with pages; an extension's too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse

from synapse.errors import InvalidEntry, SynapseError
from synapse.server.pages.frame import frame_of
from synapse.server.problems import TooLarge, status_of

MOST = 1 << 20  # bytes of a form
PLACE = re.compile(r"/[\w./-]*")  # a page of this server
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none, forms would come from no origin
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route that answers with a page, also where something went wrong."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                response = await handle(request)
            except SynapseError as error:
                response = problem_page(request, error)
            except RequestValidationError:
                response = problem_page(request, InvalidEntry("this address is wrong"))
            return with_headers(response)

        return page


def with_headers(response: Response) -> Response:
    """Return the response with the headers of every page."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def problem_page(request: Request, error: SynapseError) -> Response:
    """Return the page that tells a person of an error; a part of one where htmx asked."""
    status = status_of(error)
    is_part = request.headers.get("hx-request") == "true"
    template = "problem_part.html" if is_part else "login.html" if status == 401 else "problem.html"
    return frame_of(request).answer(request, template, status, error=error, code="", agent=None)


def pages() -> APIRouter:
    """Return a router for pages; they are no part of the API's description."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a form, of each name the last."""
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MOST:
            raise TooLarge(f"a form holds at most {MOST} bytes")
    fields = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200)
    return {name: values[-1] for name, values in fields.items()}


def back(fields: dict[str, str], path: str, did: str) -> Response:
    """Return the way to the page that a change came from, which says what was done."""
    target = fields.get("back", "")
    own = PLACE.fullmatch(target) and not target.startswith("//")
    return RedirectResponse(f"{target if own else path}?did={did}", 303)
