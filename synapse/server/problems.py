"""Errors as problem documents (RFC 9457), with the classes of the library.

A client that knows the library raises the same class again, from `error` and `details`.
"""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope

from synapse import errors
from synapse.system.quoting import clean

TYPE = "application/problem+json"
PREFIX = "urn:synapse:error:"
MOST = 300  # characters of one problem of a body
RETRY_AFTER = 1  # seconds, where another process holds the lock
_STATUS: tuple[tuple[type[errors.SynapseError], int], ...] = (
    (errors.InvalidEntry, 422),
    (errors.InvalidQuery, 422),
    (errors.OverBudget, 422),
    (errors.SealError, 422),
    (errors.NotFound, 404),
    (errors.Forbidden, 403),
    (errors.QueueFull, 429),
    (errors.Conflict, 409),
    (errors.EmbedderError, 502),
    (errors.StoreError, 503),
)
log = logging.getLogger(__name__)


class Problem(BaseModel):
    """What went wrong. `error` is the name of the library's class, `details` its fields."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    details: dict[str, Any] = {}


class ProblemResponse(JSONResponse):
    """A problem document in ASCII: it may quote half of a pair, which UTF-8 cannot hold."""

    media_type = TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


class Unauthorized(errors.Forbidden):
    """The request has no token that is good here."""


class TooMany(errors.Forbidden):
    """This token has asked too often; wait a little."""


class TooLarge(errors.InvalidEntry):
    """The request is larger than this server reads."""


class TooSlow(errors.StoreBusy):
    """The answer took longer than this server waits."""


def status_of(error: errors.SynapseError) -> int:
    """Return the status of HTTP that says the same."""
    status = error.details.get("status")  # of a delivery that is refused
    if isinstance(status, int) and 400 <= status < 500:
        return status
    own = {Unauthorized: 401, TooMany: 429, TooLarge: 413}
    if type(error) in own:
        return own[type(error)]
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 500)


def document(error: errors.SynapseError) -> dict[str, Any]:
    """Return an error as a problem document."""
    name = type(error).__name__
    return {
        "type": PREFIX + name,
        "title": (type(error).__doc__ or "").strip(),
        "status": status_of(error),
        "detail": clean(str(error)),
        "error": name,
        "details": {name: value for name, value in error.details.items() if _plain(value)},
    }


def answer(error: errors.SynapseError) -> JSONResponse:
    """Return the response that tells a caller of an error."""
    fields = document(error)
    headers: dict[str, str] = {}
    if fields["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if fields["status"] in (429, 503):
        headers["Retry-After"] = str(error.details.get("retry_after", RETRY_AFTER))
    return ProblemResponse(fields, fields["status"], headers)


def install(app: FastAPI) -> None:
    """Add the handlers that answer every error with a problem document."""

    @app.exception_handler(errors.SynapseError)
    async def refused(request: Request, error: errors.SynapseError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(WebSocketRequestValidationError)
    async def malformed(
        request: HTTPConnection, error: RequestValidationError | WebSocketRequestValidationError
    ) -> JSONResponse:
        places = [
            clean(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")[:MOST]
            for fault in error.errors()[:20]
        ]
        return answer(errors.InvalidEntry("; ".join(places), problems=places))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        name = _NAMES.get(error.status_code, "Refused")
        fields = {
            "type": PREFIX + name,
            "title": str(error.detail),
            "status": error.status_code,
            "detail": clean(f"{request.method} {request.url.path}: {error.detail}"),
            "error": name,
            "details": {},
        }
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(app, template(request.scope)))
        return ProblemResponse(fields, error.status_code, headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(
            errors.SynapseError(
                f"{request.method} failed: this is a bug ({type(error).__name__});"
                " the server's log has more"
            )
        )


def template(scope: Scope) -> str:
    """Return the path of the route that took a request, without what stands in its names: those
    of the prefixes that it was included under are in the request alone. Empty where none did.
    """
    own: str | None = getattr(scope.get("route"), "path", None)
    if own is None:
        return ""
    before: list[str] = scope["path"].split("/")[: -own.count("/")]
    return own if ":path}" in own else "/".join(before) + own


def _methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods that a path takes."""
    return sorted(name.upper() for name in app.openapi()["paths"].get(path, {}))


def _plain(value: object) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(isinstance(part, str) for part in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int, bool))


def responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route's document says of its problems."""
    shape = {"$ref": "#/components/schemas/Problem"}
    return {
        code: {"description": _TITLES[code], "content": {TYPE: {"schema": shape}}} for code in codes
    }


_NAMES = {400: "InvalidEntry", 404: "NotFound", 405: "NotAllowed"}
_TITLES = {
    400: "the body is not JSON",
    401: "no token, or none that is good here",
    403: "this agent may not do that",
    404: "there is nothing under this id",
    409: "a condition no longer holds; nothing was written",
    413: "the request is too large",
    422: "the request cannot be read, or is refused for what it says",
    429: "too often, or too much; the problem says what makes room",
    502: "what makes vectors failed",
    503: "the store is busy or cannot be used; try again",
}
