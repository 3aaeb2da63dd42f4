"""The replies of a session of OpenClaw, from the file that our plugin writes: OpenClaw keeps its
sessions in a database. Called by `sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping, moment
from orchestrator.plugin.transcripts.openclaw import read_usage


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is one of our plugin's in OpenClaw."""
    return "cacheRead" in mapping(row.get("usage")) and "id" in row


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the replies of a session. What is not dated is as old as its file, which `sources`
    knows.
    """
    for row in rows:
        usage, model = read_usage(mapping(row.get("usage"))), str(row.get("model") or "")
        at, id = moment(row.get("timestamp")), str(row.get("id"))
        yield Step("turn", at, name, id=id, usage=usage, model=model)
