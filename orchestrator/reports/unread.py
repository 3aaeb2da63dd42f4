"""Results that cost turns and that nobody read."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.reports.rows import Fields, Source
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.files.trim import trimmed_on


def unread_runs(source: Source, records: list[dict[str, object]]) -> list[Fields]:
    """Return the runs whose result cost at least one turn, and that nobody read.

    Such a run has ended, and its parent too. The parent was not given its result; and nobody, the
    operator included, was given the entry that it left. A coding client gives its main
    conversation the results of sub-agents itself, so these are left out. So are runs that were
    played, for they have no result, and those whose parent was trimmed: nobody knows any more what
    it read.
    """
    by_id = {str(run["run"]): run for run in records}
    candidates = []
    for run in records:
        parent = by_id.get(str(run.get("parent")), {})
        has_ended = run["state"] == "ended" and parent.get("state") == "ended"
        outside = run.get("attached") or run.get("played")
        if has_ended and run.get("turns") and not outside:
            candidates.append(run)
    if not candidates:
        return []
    delivered = _delivered(source, by_id)
    with source.store.snapshot() as snap:
        return [
            run
            for run in candidates
            if not {run["run"], run.get("entry")} & delivered
            and not snap.deliveries(entry=str(run.get("entry")))
            and not trimmed_on(source.folder(str(run["parent"])))
        ]


def _delivered(source: Source, ids: Iterable[str]) -> set[object]:
    """Return what these runs were given: results by their runs, entries in prompts and wakes."""
    delivered: set[object] = set()
    for id in ids:
        for step in steps.read_known(source.folder(id).lines(STEPS)):
            delivered.update(step.fields.get("read", ()), step.fields.get("ids", ()))
    return delivered
