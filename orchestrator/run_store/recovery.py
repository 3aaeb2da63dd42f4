"""The recovery of runs whose supervisor is gone: they become this one's, and what it could not
finish writing is repaired. On the memory's thread; nothing here begins a session.

A run that needs what this process does not have is left as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.run_store.store import RunStore
from orchestrator.runs import requirements, writeback
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import (
    ELSEWHERE,
    LEDGER,
    STEPS,
    Folder,
    is_elsewhere,
)
from orchestrator.runs.records import Run
from synapse.errors import Conflict, StoreBusy


class Recovery(NamedTuple):
    """The runs that are this supervisor's from now on; those that it left, with what they wait
    for."""

    runs: list[Run]
    waiting: dict[str, str]


def recover(run_store: RunStore, root: str | None = None) -> Recovery:
    """Take over every run whose holder is gone, or those of one tree, as far as what they need is
    here; end one that died too often. StoreBusy where somebody's lock lets none be taken: what was
    taken is given back, nobody else would begin it."""
    recovered: list[Run] = []
    waiting: dict[str, str] = {}
    try:
        running = reversed(run_store.runs.all(state="running", root=root))
        # a client's is its own
        held_here = (run for run in running if not run.fields.get("attached"))
        orphans = [
            run
            for run in held_here
            if not (run.holder and run_store.lease.lives(run.holder))
        ]
        waiting = _left(run_store, orphans, asked_for=root is not None)
        for run in orphans:
            if run.id not in waiting:
                _take_over(run_store, run, recovered)
        run_store.costs.forget_the_dead()
        run_store.lease.sweep()
    except StoreBusy:
        if not recovered:
            raise
    return Recovery(recovered, waiting)


def _left(run_store: RunStore, orphans: list[Run], asked_for: bool) -> dict[str, str]:
    """Return which of these have to wait, and for what. One that was stopped only has to end, which
    needs nothing; one of an older version goes on where its work is asked for again."""
    by_id = {run.id: run for run in orphans}

    def lacks(fields: requirements.Fields) -> tuple[str, ...]:
        run = by_id[fields["run"]]
        if is_elsewhere(run_store.root, run.id, run.fields):
            return () if run_store.runs.over(run, known=True) else (ELSEWHERE,)
        if asked_for and run.needs is None:
            return ()
        missing = run_store.lacking(run, asked_for)
        return () if missing and run_store.runs.over(run, known=True) else missing

    return requirements.waiting([run.fields for run in orphans], lacks)


def _take_over(run_store: RunStore, run: Run, taken: list[Run]) -> None:
    """Take a run over; end one that died again and again, with a blocker that says so."""
    try:
        mine = run_store.runs.take(run, run_store.lease.name, _progress(run_store, run))
    except Conflict:
        return  # another supervisor was faster, or it has ended
    taken.append(mine)
    run_store.costs.recover(mine)
    _repair(run_store.folder(mine))
    if mine.attempts > run_store.attempts:
        notes = [writeback.dead_letter(mine.id, mine.project, mine.attempts - 1)]
        if mine.fields.get("played"):
            notes = []
        entry, untold = run_store.write_notes(mine, notes)
        why = "; ".join(
            filter(None, (f"it died {mine.attempts - 1} times without moving", untold))
        )
        run_store.runs.end(mine, "failed", entry=entry, why=why, summary="")
        run_store.costs.budget.leave(mine.id)
        taken.remove(mine)


def _progress(run_store: RunStore, run: Run) -> int:
    """Return how many replies and results a run and all below it have recorded. One whose steps are
    damaged is taken all the same, and ends as failed, which says so.
    """
    recorded = steps.read_known(run_store.folder(run).lines(STEPS))
    own = sum(step.kind in ("turn", "result") for step in recorded)
    return own + sum(
        _progress(run_store, child) for child in run_store.runs.children(run.id)
    )


def _repair(folder: Folder) -> None:
    """Add to the ledger what was paid for and recorded, but not booked before its supervisor
    died.
    """
    booked = set(folder.lines(LEDGER))
    for step in steps.read_known(folder.lines(STEPS)):
        if step.kind == "turn" and step.fields["ledger"] not in booked:
            folder.record(LEDGER, step.fields["ledger"], sync=False)
