"""The usage of a session of OpenClaw, from a file that our plugin writes: OpenClaw keeps sessions
in a database.

The file has a line for each reply. Called by `transcript`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.transcripts.transcript import Spent, objects


def usage(path: str) -> Spent | None:
    """Return what a session's replies used, each once; None where there is none."""
    replies = {
        line.get("id"): line for line in objects(path) if isinstance(line.get("usage"), dict)
    }
    if not replies:
        return None
    total = Usage()
    for reply in replies.values():
        total += read_usage(reply["usage"])
    return Spent(total, len(replies), [*replies.values()][-1].get("model"))


def read_usage(used: Mapping[str, Any]) -> Usage:
    """Return the usage of a reply, with what the client says that it cost."""
    cached, written = _number(used.get("cacheRead")), _number(used.get("cacheWrite"))
    cost = used.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    return Usage(
        _number(used.get("input")) + cached + written,
        _number(used.get("output")),
        cached,
        written,
        float(total) if isinstance(total, int | float) and total else None,
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
