"""Results that cost turns and that nobody read."""

from __future__ import annotations

from functools import cache

from orchestrator.reports.rows import Fields, Source
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.files.trim import trimmed_on

SINCE = "7d"  # where nobody says since when


def unread_runs(source: Source, since: int, project: str | None = None) -> list[Fields]:
    """Return the runs that ended since then, whose result cost at least one turn, and that nobody
    read; newest first.

    Their parents have ended, too. The parent was not given the result; and nobody, the operator
    included, was given the entry that it left. A coding client gives its main conversation the
    results of sub-agents itself, so these are left out. So are runs that were played, for they have
    no result, and those whose parent was trimmed: nobody knows any more what it read.
    """
    source.store.refresh()
    with source.store.snapshot() as snap:

        @cache
        def has_ended(run: str) -> bool:
            return (snap.run(run) or {}).get("state") == "ended"

        candidates = [
            run
            for run in snap.runs(state="ended", ended_since=since, project=project)
            if run.get("turns")
            and not run.get("attached")
            and not run.get("played")
            and has_ended(str(run.get("parent")))
            and not snap.deliveries(entry=str(run.get("entry")), limit=1)
        ]

    @cache
    def texts(parent: str) -> frozenset[object]:
        """Return the runs and the entries whose text the parent was given."""
        lines = steps.read_known(source.folder(parent).lines(STEPS))
        return frozenset(
            name for step in lines for key in ("read", "ids") for name in step.fields.get(key, ())
        )

    return [
        run
        for run in candidates
        if texts(str(run["parent"])).isdisjoint((run["run"], run.get("entry")))
        and not trimmed_on(source.folder(str(run["parent"])))
    ]
