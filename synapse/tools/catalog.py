"""The catalogue of tools, with their schemas: for supervised agents, and for MCP clients.

Schemas are as short as they can be: each costs tokens in every turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.model.entry import PRIORITIES
from synapse.model.kinds import URGENCY
from synapse.system.typed import Any
from synapse.tools import functions
from synapse.tools.tool import Tool


def _object(required: Iterable[str] = (), **properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object; a bare type name stands for a schema of that type."""
    schemas = {
        name: {"type": schema} if isinstance(schema, str) else schema
        for name, schema in properties.items()
    }
    return {"type": "object", "properties": schemas} | (
        {"required": list(required)} if required else {}
    )


_PRIORITY = {"type": "string", "enum": list(PRIORITIES)}
_IDS = {"type": "array", "items": {"type": "string"}}
_ENTRY = _object(
    ("namespace", "body"),
    namespace="string",
    body="string",
    priority=_PRIORITY,
    to="string",
    topic="string",
    supersedes="string",
)
_WHICH = _object(id="string", offset="integer", namespace="string", since="string")
_WORK = _object(("work",), work="string", minutes="integer", release="boolean")
_QUERY = _object(
    ("query",), query="string", scope="string", top_k="integer", max_capsule_bytes="integer"
)
_FACT = _object(
    ("fact", "scope"),
    fact="string",
    scope="string",
    confidence="number",
    ttl_days="integer",
    supersedes="string",
)
_LETTER = _object(
    ("body",),
    body="string",
    to="string",
    re="string",
    thread="string",
    subject="string",
    priority={"type": "string", "enum": list(URGENCY)},
)
TOOLS = (
    Tool(
        "append",
        "Write beside other calls, to agent:ID, team:NAME, operator or all",
        _ENTRY,
        functions.append,
        True,
    ),
    Tool("read", "Unread entries, newest or one", _WHICH, functions.read, False),
    Tool(
        "memory_search",
        "Search agent, group, global or all",
        _QUERY,
        functions.memory_search,
        False,
    ),
    Tool(
        "report_blocker",
        "Report one",
        _object(("text",), text="string"),
        functions.report_blocker,
        True,
    ),
    Tool("claim", "Reserve work", _WORK, functions.claim, True),
    Tool(
        "ack", "Confirm entries delivered to you", _object(("ids",), ids=_IDS), functions.ack, True
    ),
    Tool(
        "memory_remember",
        "Keep a fact for scope agent, group or global",
        _FACT,
        functions.memory_remember,
        True,
    ),
    Tool(
        "memory_forget",
        "Withdraw a fact",
        _object(("fact_id",), fact_id="string"),
        functions.memory_forget,
        True,
    ),
)
_LEADS = ("ack", "memory_remember", "memory_forget")

# What clients of the MCP server are given beside these: a supervised agent has its briefing in its
# prompt.
CLIENTS = (
    Tool(
        "briefing",
        "What to know now, for a task",
        _object(task="string", budget="integer"),
        functions.briefing,
        False,
    ),
    Tool("send", "Send a message, or answer one", _LETTER, functions.send, True),
    Tool("inbox", "Unread messages; marks them as read", _object(), functions.inbox, False),
)


def offered(role: str) -> list[Tool]:
    """Return the tools of a role. Each offered tool costs tokens in every turn, so a role gets only
    those that it uses: agents that hand out work confirm results and remember for the team; the
    others do so by ending a turn and by writing an entry."""
    return [tool for tool in TOOLS if tool.name not in _LEADS or role in ("cto", "project-lead")]
