"""The HTTP client under the SDKs: for an address that a workspace names, one that goes just where a
person trusted it to go.

Each request is sent to a number that was checked a moment before; redirects are not followed, and
no proxy is asked. For a provider's own address, and for one that a program or the environment
names, the SDK's own client stays as it is. Knows no provider.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.engines.stream import HOOKS
from synapse.errors import Forbidden
from synapse.system import addresses

if TYPE_CHECKING:
    import ssl


def options_of(trusted: str) -> dict[str, Any]:
    """Return the options of an SDK's HTTP client; `trusted` is the kind of place that was trusted,
    empty for an address that no workspace names.
    """
    if not trusted:
        return {"event_hooks": HOOKS, "verify": _certificates()}
    return {
        "event_hooks": HOOKS,
        **guarded(trusted, import_module("httpx2")),
        "follow_redirects": False,
    }


def guarded(trusted: str, http: Any) -> dict[str, Any]:
    """Return the options of a client of this library, httpx or its successor, for a place of this
    kind; for none in particular, those of a usual one.
    """
    if not trusted:
        return {"verify": _certificates()}
    return {"transport": _transport(http)(trusted), "trust_env": False}


def _certificates() -> ssl.SSLContext:
    """Return what servers are checked against; all clients of a process share it, since reading
    the certificates of a system takes 30 ms.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Read the certificates that these variables of the environment name, or the system's."""
    import httpx2

    return httpx2.create_ssl_context()


@cache
def _transport(http: Any) -> Any:
    """Return the class of the transport; the library comes with the SDKs, when they are needed."""

    class Guarded(http.AsyncHTTPTransport):  # type: ignore[misc]
        """Sends each request to a checked number of its host."""

        def __init__(self, trusted: str) -> None:
            super().__init__(verify=_certificates())
            self.trusted = trusted

        async def handle_async_request(self, request: Any) -> Any:
            url = request.url
            port = url.port or (443 if url.scheme == "https" else 80)
            try:
                numbers = await asyncio.to_thread(addresses.resolved, url.host, port, self.trusted)
            except Forbidden as error:
                # asking again is of no use, and the SDK is told so
                body = {"error": {"type": "not_trusted", "message": str(error)}}
                headers = {"x-should-retry": "false"}
                return http.Response(403, headers=headers, json=body, request=request)
            except OSError as error:
                raise http.ConnectError(str(error), request=request) from error
            failed: Exception | None = None
            for number in numbers:
                try:
                    return await super().handle_async_request(_sent_to(request, number))
                except http.ConnectError as error:
                    failed = error
            raise failed or http.ConnectError("no address", request=request)

    def _sent_to(request: Any, number: str) -> Any:
        """Return the request, for this number; the host stays what the server is told, and what
        its certificate has to say.
        """
        return http.Request(
            request.method,
            request.url.copy_with(host=number),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )

    return Guarded
