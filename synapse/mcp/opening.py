"""The opening of a session over standard streams: what every client asks first, answered before the
SDK is loaded, which takes a second.

The first request that is another one, or not of the usual form, is the SDK's with all that follow:
it is told how the session began, and takes it from there. Most sessions never come to that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from synapse.errors import SynapseError
from synapse.mcp import listing
from synapse.mcp.caller import Caller, Identify
from synapse.mcp.resources import views
from synapse.tools import Tool

# The revisions that begin with a handshake, the newest last: a client that asks for another one is
# offered that.
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# in a request that needs no handshake
MODERN = "io.modelcontextprotocol/protocolVersion"
INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"


class Opening:
    """The begin of one session: what of it the SDK has to be told, and the answers until then."""

    def __init__(
        self,
        identify: Identify,
        offered: Sequence[Tool],
        *,
        started: str = "",
        given: bool = False,
        resources: bool = True,
        prompts: bool = True,
    ) -> None:
        self._identify, self._offered, self._started = identify, offered, started
        self._given, self._resources, self._prompts = given, resources, prompts
        self._client = ""
        self.begun: list[bytes] = []  # the lines of the handshake

    def answer(self, line: bytes) -> bytes | None:
        """Return the line that answers this one, empty for a notification; None where the SDK has
        to answer.
        """
        try:
            message = json.loads(line)
            json.dumps(message, ensure_ascii=False).encode()  # no half characters
            method, id = message["method"], message.get("id")
            if method == INITIALIZED and self.begun and "id" not in message:
                self.begun.append(line)
                return b""
            if message["jsonrpc"] != "2.0" or type(id) not in (int, str):
                return None
            result = self._result(method, message.get("params", {}))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # of another form
        except SynapseError:
            return None  # the SDK says so
        if result is None:
            return None
        if method == INITIALIZE:
            self.begun.append(line)
        answer = {"jsonrpc": "2.0", "id": id, "result": result}
        return json.dumps(answer, separators=(",", ":")).encode() + b"\n"

    def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request; None where it is not one of a usual begin."""
        if method == INITIALIZE:
            return None if self.begun else self._initialize(params)
        meta = params.get("_meta", {})
        if not self.begun or params.keys() - {"_meta"} or MODERN in meta:
            return None
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": listing.tools(self._offered)}
        if method == "prompts/list" and self._prompts:
            return {"prompts": [listing.PROMPT]}
        if method == "resources/templates/list" and self._resources:
            return {"resourceTemplates": listing.TEMPLATES}
        if method == "resources/list" and self._resources:
            caller = Caller(None, self._client, meta, self._started)
            return {"resources": listing.resources(views(self._identify(caller)))}
        return None

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        client, revision = params["clientInfo"], params["protocolVersion"]
        texts = client["name"], client["version"], revision
        known = params.keys() <= {"clientInfo", "protocolVersion", "capabilities"}
        if not known or not all(isinstance(text, str) for text in texts):
            return None
        if not isinstance(params["capabilities"], dict):
            return None
        self._client = client["name"]
        introduction = listing.introduction(
            self._offered, self._given, self._resources, self._prompts
        )
        negotiated = revision if revision in REVISIONS else REVISIONS[-1]
        return {"protocolVersion": negotiated, **introduction}

    def serve(self) -> None:
        """Serve one client until it closes our standard input."""
        # What is not read yet has to be there for the SDK.
        with open(0, "rb", buffering=0, closefd=False) as lines:
            while line := lines.readline():
                answered = self.answer(line)
                if answered is None:
                    break
                sys.stdout.buffer.write(answered)
                sys.stdout.buffer.flush()
            else:
                return
        from synapse.mcp.server import build
        from synapse.mcp.transports import serve_stdio

        server = build(
            self._identify,
            self._offered,
            started=self._started,
            given=self._given,
            resources=self._resources,
            prompts=self._prompts,
        )
        serve_stdio(server, [*self.begun, line])
