"""The OpenAPI document: what the routes say of themselves, and what holds for all of them.

Tokens, problem documents, and that what was read before is not sent again.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from synapse.server.problems import Problem

SCHEME = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "`synapse token new AGENT` makes one",
    }
}
_OPEN = ("/healthz", "/readyz")  # routes that ask for no token
_PROVEN = "/v1/hooks/"  # by a secret of their own, in the form of whoever calls
_STREAM = "text/event-stream"
_TAGGED = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "the ETag of an answer that the caller has",
}
_SAME = {"description": "the caller has this answer already"}
_ETAG = {"ETag": {"schema": {"type": "string"}, "description": "a hash of the answer"}}


def install(app: FastAPI) -> None:
    """Set the OpenAPI document of an application, with the routes of its extensions."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    parts = document.setdefault("components", {})
    parts["securitySchemes"] = SCHEME
    parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    if path not in _OPEN and not path.startswith(_PROVEN):
        operation["security"] = [{"token": []}]
    streams = _STREAM in operation["responses"].get("200", {}).get("content", ())
    if method == "get" and path.startswith("/v1/") and not streams:
        operation.setdefault("parameters", []).append(_TAGGED)
        operation["responses"]["304"] = _SAME
        operation["responses"]["200"]["headers"] = _ETAG
    if "201" in operation["responses"]:
        location = {"schema": {"type": "string"}, "description": "where it is"}
        operation["responses"]["201"]["headers"] = {"Location": location}
