"""Answers in JSON: the bytes of a form, and a tag by which callers see that nothing changed.

A tag is a hash of the answer itself: whatever else changed, nobody is told of it. Called by the
routes.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from fastapi import Request, Response

from synapse.system.json import dumps

JSON = "application/json"
MARKDOWN = "text/markdown"


def made(form: Any, status: int = 200, location: str = "") -> Response:
    """Return the answer to a write, which has no tag."""
    headers = {"Location": location} if location else None
    return Response(_bytes(form), status, headers, JSON)


def conditional(request: Request, form: Any, apart: str = "") -> Response:
    """Return the answer to a read; 304 and no body where the caller has the same one. A field that
    is `apart` differs each time and is in no tag.
    """
    if not apart:
        return tagged(request, _bytes(form), JSON)
    body = _bytes({name: form[name] for name in form if name != apart})
    tail = _bytes({apart: form[apart]})
    return tagged(request, body[:-1] + b"," + tail[1:], JSON, body)


def tagged(request: Request, body: bytes, media_type: str, said: bytes = b"") -> Response:
    """Return an answer with a tag of what it says."""
    tag = f'"{blake2b(said or body, digest_size=16).hexdigest()}"'
    etag = tag if said is body or not said else f"W/{tag}"
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept"}
    tags = request.headers.get("if-none-match", "")
    if tag in (part.strip().removeprefix("W/") for part in tags.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def _bytes(form: Any) -> bytes:
    try:
        return dumps(form).encode()
    except UnicodeEncodeError:  # half of a pair, which JSON can hold and UTF-8 cannot
        return json.dumps(form, separators=(",", ":")).encode()
