"""What the server says of itself and lists, as JSON: its name, its tools, resources and its prompt.

Knows no SDK, so that it can be said before that is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from synapse.mcp.offer import BRIEFING, instructions
from synapse.mcp.resources import SCHEME, TEXT, Target
from synapse.tools import Tool

SERVER = {"name": "synapse", "title": "Synapse", "description": "Shared memory for teams of agents"}
TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": f"{SCHEME}view/{{agent}}",
        "name": "view",
        "description": "What an agent should know now: your own view, by your agent's id",
        "mimeType": TEXT,
    },
    {
        "uriTemplate": f"{SCHEME}entry/{{id}}",
        "name": "entry",
        "description": "One entry, fact or message, whole",
        "mimeType": TEXT,
    },
]
PROMPT: dict[str, Any] = {
    "name": BRIEFING,
    "title": "Briefing",
    "description": "What the shared memory holds for you now, and for a task where you name one",
    "arguments": [
        {"name": "task", "description": "your task, in your own words", "required": False}
    ],
}


def version() -> str:
    """Return the version of the distribution."""
    from importlib.metadata import version

    return version("synapse-orchestrator")


def introduction(
    offered: Sequence[Tool], given: bool, resources: bool, prompts: bool
) -> dict[str, Any]:
    """Return what the server answers a client that begins, but for the protocol's version."""
    capabilities: dict[str, dict[str, bool]] = {"tools": {"listChanged": False}}
    if resources:
        capabilities["resources"] = {"listChanged": False, "subscribe": True}
    if prompts:
        capabilities["prompts"] = {"listChanged": False}
    return {
        "capabilities": capabilities,
        "serverInfo": {**SERVER, "version": version()},
        "instructions": instructions(offered, given),
    }


def tools(offered: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return the tools as a client is told of them."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": dict(tool.schema),
            "annotations": {
                "readOnlyHint": not tool.writes,
                "destructiveHint": False,
                "openWorldHint": False,
            },
        }
        for tool in offered
    ]


def resources(targets: Iterable[Target]) -> list[dict[str, Any]]:
    """Return the resources as a client is told of them."""
    return [
        {
            "uri": target.uri,
            "name": f"{target.kind}-{target.name}",
            "description": f"What {target.name} should know now, from the shared memory",
            "mimeType": TEXT,
        }
        for target in targets
    ]
