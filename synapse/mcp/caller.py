"""The caller of a request: its call and session, and the key under which a retry writes nothing.

Knows no SDK. What a client says of itself here is believed for telling its calls apart, never for
who it acts as: that is the business of whoever started the server, or of a token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from synapse.agent_memory import AgentMemory

KEY = "synapse/idempotency_key"  # what our own client sends
# Where clients put the id of a call, as seen in Claude Code 2.1.329 and Codex 0.169. Gemini 0.61
# sends none.
CALL_IDS = (KEY, "claudecode/toolUseId", "callId")
# Codex: which conversation, of a main agent or of a sub-agent
SESSION_IDS = ("threadId",)
LONGEST = 512
READ_ONLY = "read-only"  # the scope of a token that writes nothing


class Caller(NamedTuple):
    """One request's caller. `agent` is whose token came with it, None where none was asked for;
    `client` the program's name for itself; `meta` the request's `_meta`, whole; `started` the id of
    the session that the server was started for, where its environment has one; `read_only`
    whether the token writes nothing."""

    agent: str | None = None
    client: str = ""
    meta: Mapping[str, Any] = {}
    started: str = ""
    read_only: bool = False

    @property
    def call(self) -> str | None:
        """Return the client's id of the call."""
        return _first(self.meta, CALL_IDS)

    @property
    def session(self) -> str:
        """Return the client's id of the session or thread; empty if it gives none."""
        return _first(self.meta, SESSION_IDS) or self.started

    def once(self, tool: str, arguments: object) -> str | None:
        """Return the key of this call, None where the client gives it no id. What is called is in
        it, for an id that comes twice must not swallow another call."""
        if self.call is None:
            return None
        text = json.dumps([self.session, self.call, tool, arguments], sort_keys=True, default=str)
        return f"mcp/{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


Identify = Callable[[Caller], AgentMemory]


def _first(meta: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = meta.get(name)
        if isinstance(value, str) and 0 < len(value) <= LONGEST:
            return value
    return None
