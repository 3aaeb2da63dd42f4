"""Requests that are sent again under their `Idempotency-Key`: another request under the same key is
refused, for the answer to it would be the first one's.
"""

from __future__ import annotations

from hashlib import sha256

from starlette.types import Scope

from synapse.errors import InvalidQuery

KEPT = 10_000  # keys
LENIENT = b"handling=lenient"  # RFC 7240


class Repeats:
    """What was asked under the keys of the latest requests, while this server runs."""

    def __init__(self) -> None:
        self._asked: dict[bytes, bytes] = {}

    def take(self, caller: str, scope: Scope, body: bytes) -> bytes | None:
        """Note a request under its key, and return what `forget` takes; None where it has none, or
        prefers the first one's answer. InvalidQuery where another one of this caller had the key.
        """
        headers = dict(scope["headers"])
        key = headers.get(b"idempotency-key")
        if key is None or LENIENT in headers.get(b"prefer", b""):
            return None
        where = f"{caller}\n{scope['method']} {scope['path']}".encode()
        name = sha256(where + b"\n" + key).digest()
        request = sha256(scope["query_string"] + b"\n" + body).digest()
        if self._asked.setdefault(name, request) != request:
            raise InvalidQuery(
                "another request had this Idempotency-Key: nothing was done; take a new key"
            )
        if len(self._asked) > KEPT:
            del self._asked[next(iter(self._asked))]
        return name

    def forget(self, name: bytes) -> None:
        """Forget a request that was refused: what mends it may have its key."""
        self._asked.pop(name, None)
