"""The usage in Codex's rollout files. Reads files of Codex, writes none. Called by `transcript`.

Each conversation, a sub-agent's too, has a file of its own in `$CODEX_HOME/sessions`. Each reply of
the model leaves a `token_usage_record` in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.transcripts.transcript import Spent, lines

_RECORDS = (b'"token_usage_record"', b'"turn_context"', b'"session_meta"')


def usage(path: str) -> Spent | None:
    """Return the sum over the replies of one conversation; None where none is told of.

    A forked conversation begins with its parent's lines: replies of another thread are left out."""
    replies: dict[str, Usage] = {}
    thread, model, complete = None, None, True
    for line, all_read in lines(path, b'"type":"'):
        complete = all_read
        kind, payload = _record(line)
        if kind == "session_meta":
            thread = thread or payload.get("id")
        elif kind == "turn_context":
            model = payload.get("model") or model
        elif kind == "token_usage_record" and payload.get("thread_id") == thread:
            usage = payload.get("usage")
            if isinstance(usage, dict):
                replies[str(payload.get("response_id") or len(replies))] = read_usage(usage)
    if not replies:
        return None
    usage = sum(replies.values(), Usage(estimated=not complete))
    return Spent(usage, len(replies), model if isinstance(model, str) else None)


def _record(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return the kind and the payload of a line that tells of usage; of another nothing."""
    head = line[:200]
    if not any(kind in head for kind in _RECORDS):
        return "", {}
    try:
        record = json.loads(line)
    except ValueError:  # it is being written
        return "", {}
    payload = record.get("payload") if isinstance(record, dict) else None
    return (str(record.get("type")), payload) if isinstance(payload, dict) else ("", {})


def read_usage(fields: Mapping[str, Any]) -> Usage:
    """Return a reply's usage. Codex counts what its cache held in the input tokens."""
    return Usage(
        _count(fields, "input_tokens"),
        _count(fields, "output_tokens"),
        _count(fields, "cached_input_tokens"),
        _count(fields, "cache_write_input_tokens"),
    )


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
