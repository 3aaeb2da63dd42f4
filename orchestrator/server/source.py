"""The workspace of a request, as the reports on runs take it; a run that is to end, or to be asked
on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request

from orchestrator.reports.rows import Fields, Source, find_run
from orchestrator.runs.files.workspace import lives
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import Task
from synapse.errors import Conflict
from synapse.model.agents import OPERATOR
from synapse.server.callers import Operator

REASON = "stopped by the operator"


def source(memory: Operator) -> Source:
    """Return the workspace, for the operator alone: as `orchestrator ps` and the other verbs."""
    return Source(memory.store, memory.store.root or os.getcwd())


Asked = Annotated[Source, Depends(source)]
Begin = Callable[[Task], Run]
LIMITS = ("max_tokens", "max_usd", "max_turns", "timeout", "max_reply")


def begin_of(request: Request) -> Begin | None:
    """Return what begins runs, where this server runs beside a supervisor."""
    begin: Begin | None = getattr(request.app.state, "begin", None)
    return begin


def question(asked: Source, run: Fields, text: str, once: bool = False) -> Task | None:
    """Return the task that asks the agent of a run on: as the run was asked for, within the least
    of what limited it and the runs above it. None for a client's own run, which nobody begins.
    """
    about = dict(run.get("asked") or {})
    options: dict[str, Any] = {name: about[name] for name in Task._fields if name in about}
    if "agent" not in options:
        return None
    line: Fields | None = run
    with asked.store.snapshot() as snap:
        while line is not None and line.get("parent"):
            line = snap.run(str(line["parent"]))
            above = (line or {}).get("asked") or {}
            for name in LIMITS:
                bounds = [options.get(name), above.get(name)]
                options[name] = min((one for one in bounds if one is not None), default=None)
    result = f", whose result is {run['entry']}" if run.get("entry") else ""
    text = f"{text}\n\nThe operator asks this about your run {run['run']}{result}."
    return Task(text, **options | {"intent": None, "once": once, "team": {}})


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
    orphaned = run["state"] == "running" and not lives(asked.store, str(run.get("holder")))
    return id, orphaned
