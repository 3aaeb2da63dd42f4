"""What conversations were asked, and the entries that tell what came of it.

A session is one run and is asked one thing after another: of this machine's own, its file knows
which of it is done. Called before work is given out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.plugin.sessions import state
from orchestrator.runs.files.workspace import lives
from synapse.store import Store


def tasks_of(store: Store, run: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the tasks of a run, each with the entry of its result; None for one that it is at."""
    worker = _worker(store.root or "", run)
    if worker is not None:
        yield from ((task, entry) for task, entry in worker.done)
    if run["state"] == "running" and lives(store, str(run.get("holder"))):
        if worker is None:
            yield str(run["task"]), None
        elif worker.busy:
            yield from ((task, None) for task in worker.about)
    elif run.get("status") == "done" and run.get("summary"):
        yield str(run["task"]), str(run.get("entry"))


def _worker(root: str, run: Mapping[str, Any]) -> state.Worker | None:
    """Return the main conversation that a run is, as its session's file has it."""
    if run.get("conversation") != state.MAIN:
        return None
    path = state.path_of(root, str(run.get("engine")), str(run.get("attached")))
    session = state.load(path)
    worker = session.workers.get(state.MAIN) if session else None
    return worker if worker is not None and worker.run == run["run"] else None
