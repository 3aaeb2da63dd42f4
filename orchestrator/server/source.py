"""The workspace of a request, as the reports on runs take it, and the end of a run asked for."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import Depends

from orchestrator.reports.rows import Source, find_run
from orchestrator.runs.files.lease import lives
from orchestrator.runs.records import Runs
from synapse.errors import Conflict
from synapse.model.agents import OPERATOR
from synapse.server.callers import Operator

REASON = "stopped by the operator"


def source(memory: Operator) -> Source:
    """Return the workspace, for the operator alone: as `orchestrator ps` and the other verbs."""
    return Source(memory.store, memory.store.root or os.getcwd())


Asked = Annotated[Source, Depends(source)]


def asked_to_stop(asked: Source, run: str) -> str | None:
    """Return why a run was asked to end, None where nobody asked."""
    with asked.store.snapshot() as snap:
        stops = snap.keyed(f"stop:{run}")
    return str(stops[0].fields["reason"]) if stops else None


def stop(asked: Source, name: str, reason: str, once: str | None) -> tuple[str, bool]:
    """Ask for the end of a run, once; return its id, and whether its process is gone. Conflict
    where it has ended by itself.
    """
    run = find_run(asked, name)
    id = str(run["run"])
    if asked_to_stop(asked, id) is None:
        if run["state"] != "running":
            raise Conflict(f"{id} ended before", runs=[id])
        key = once and f"stop:{id}:{once}"
        Runs(asked.store).stop(id, OPERATOR, reason or REASON, key)
    orphaned = run["state"] == "running" and not lives(
        asked.root, str(run.get("holder"))
    )
    return id, orphaned
