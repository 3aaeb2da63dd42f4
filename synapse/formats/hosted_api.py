"""Entries under the names of the hosted API, generation C of the format. Called by `codec`."""

from __future__ import annotations

from synapse.model.entry import Entry
from synapse.system.yaml import Fields

_PRIORITY_HERE = {
    "low": "info",
    "info": "info",
    "warn": "important",
    "error": "critical",
    "critical": "critical",
}
_PRIORITY_THERE = {"info": "info", "important": "warn", "critical": "critical"}


def from_api(fields: Fields, problems: list[str]) -> Fields:
    """Return the fields of generation C under the names of A. A ttl of null is for ever there."""
    renamed = dict(fields)
    for theirs, ours in (("from_agent", "from"), ("created_at", "timestamp")):
        if theirs in renamed:
            value = renamed.pop(theirs)
            if renamed.setdefault(ours, value) != value:
                problems.append(f"{theirs} and {ours} differ")
    if "ttl" in renamed and renamed["ttl"] is None:
        renamed["ttl"] = "never"
    priority = renamed.get("priority")
    if isinstance(priority, str):
        renamed["priority"] = _PRIORITY_HERE.get(priority.strip().lower(), priority)
    return renamed


def to_api(entry: Entry) -> Fields:
    """Return an entry as the hosted API gives it."""
    return {
        "id": entry.id,
        "from_agent": entry.author,
        "namespace": entry.namespace,
        "content": entry.body,
        "priority": _PRIORITY_THERE[entry.priority],
        "tags": list(entry.tags),
        "ttl": entry.ttl,
        "created_at": entry.timestamp,
    }
