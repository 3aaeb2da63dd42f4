"""The usage in a session's or sub-agent's JSONL of Claude Code. Called by `transcript` and by the
audit of recorded sessions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.transcripts.transcript import Spent, lines


def usage(path: str) -> Spent | None:
    """Return the sum over the replies of a session's or sub-agent's JSONL. A reply has a line for
    each of its blocks, all with its usage; the last of them has it complete.
    """
    replies: dict[str, Usage] = {}
    model, complete = None, True
    for line, all_read in lines(path, b'"usage"'):
        complete = complete and all_read
        message = _reply(line)
        if message is None:
            continue
        replies[str(message["id"])] = read_usage(message["usage"])
        model = message.get("model") or model
    if not replies:
        return None
    usage = sum(replies.values(), Usage(estimated=not complete))
    return Spent(usage, len(replies), model if isinstance(model, str) else None)


def _reply(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return reply_of(record) if isinstance(record, dict) else None


def reply_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the model's message that a record holds. What the client says in the model's place
    (its own errors) was not billed.
    """
    if record.get("type") != "assistant" or record.get("isApiErrorMessage"):
        return None
    message = record.get("message")
    if (
        not isinstance(message, dict)
        or not message.get("id")
        or message.get("model") == "<synthetic>"
    ):
        return None
    return message if isinstance(message.get("usage"), dict) else None


def read_usage(fields: Mapping[str, Any]) -> Usage:
    """Return the usage of a reply; the tokens that the cache held count as input."""
    fresh = _count(fields, "input_tokens")
    read = _count(fields, "cache_read_input_tokens")
    written = _count(fields, "cache_creation_input_tokens")
    return Usage(fresh + read + written, _count(fields, "output_tokens"), read, written)


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
