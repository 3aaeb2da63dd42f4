"""The recovery of runs whose supervisor is gone: they become this one's, and what it could not
finish writing is repaired. On the memory's thread; nothing here begins a session.

A run that needs what this process does not have is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from orchestrator.run_store.store import RunStore
from orchestrator.runs import requirements, writeback
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from orchestrator.runs.files.workspace import elsewhere
from orchestrator.runs.records import Run
from orchestrator.runs.task import Outcome
from synapse.errors import Conflict, StoreBusy, SynapseError


class Recovery(NamedTuple):
    """The runs that are this supervisor's from now on; those that it left, with what they wait
    for."""

    runs: list[Run]
    waiting: dict[str, str]


def recover(run_store: RunStore, root: str | None = None, *, left: bool = True) -> Recovery:
    """Take over every run whose holder is gone, or those of one tree, as far as what they need is
    here; those that a person left only with `left`. End one that died too often. StoreBusy where
    somebody's lock lets none be taken: what was taken is given back, nobody else would begin it.
    """
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
            and (left or not run.fields.get("left_by"))
        ]
        waiting = _left(run_store, orphans, asked_for=root is not None)
        for run in orphans:
            if run.id not in waiting:
                _take_over(run_store, run, recovered)
        waiting |= _go_on(run_store, root, recovered)
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
        missing = _lacks(run_store, run, asked_for)
        return () if missing and run_store.runs.over(run, known=True) else missing

    return requirements.waiting([run.fields for run in orphans], lacks)


def _lacks(run_store: RunStore, run: Run, asked_for: bool) -> tuple[str, ...]:
    """Return what a run needs to go on and that is not here."""
    if place := elsewhere(run_store.store, run_store.root, run.fields):
        return (place,)
    if asked_for and run.needs is None:
        return ()
    return run_store.lacking(run, asked_for)


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
        why = "; ".join(filter(None, (f"it died {mine.attempts - 1} times without moving", untold)))
        run_store.runs.end(mine, "failed", entry=entry, why=why, summary="")
        run_store.costs.leave(mine.id)
        taken.remove(mine)


def let_go(run_store: RunStore, ids: Iterable[str], by: str) -> list[Run]:
    """Leave these runs in the middle, as far as they have not ended; return them. What cannot be
    written is heard of all the same: the lease of this supervisor ends with it."""
    left = []
    for id in ids:
        run = run_store.known(id)
        if run.running and run.holder == run_store.lease.name:
            with suppress(SynapseError):
                run_store.runs.leave(run, by)
            run_store.costs.leave(id)
            left.append(run)
    return left


class Answered(NamedTuple):
    """A run that was blocked and goes on: with the entries that kept it and are answered, and the
    runs below it that go on too."""

    run: Run
    answered: list[str]
    again: list[str]


def answered_in(run_store: RunStore, top: Run) -> list[Answered]:
    """Return the runs of a tree that waits which somebody has answered, the lowest first, with all
    that are above them; none where the question stands."""
    tree = {run.id: run for run in run_store.runs.all(root=top.root)}

    def below(run: Run) -> list[Answered]:
        answers: list[Answered] = []
        again = []
        for child in (tree[id] for id in run.fields.get("below") or () if id in tree):
            deeper = below(child) if child.status == "blocked" else []
            answers += deeper
            if deeper or child.status != "blocked":  # it goes on, or did before a crash
                again.append(child.id)
        asks = run.fields.get("asks")
        answered = [asks] if asks and run_store.blockers.answered(asks) else []
        return [*answers, Answered(run, answered, again)] if answered or again else []

    return below(top)


def _go_on(run_store: RunStore, root: str | None, recovered: list[Run]) -> dict[str, str]:
    """Go on with the trees that wait and are answered, as far as what they need is here; return
    what the others of these wait for. The lowest runs go first: whoever dies in between leaves runs
    that are gone on with, and the others find that these were."""
    waiting: dict[str, str] = {}
    for top in run_store.runs.all(state="waiting", root=root):
        answers = answered_in(run_store, top)
        missing = [
            f"waits for its own program: {', '.join(lacks)}"
            for each in answers
            if (lacks := _lacks(run_store, each.run, asked_for=root is not None))
        ]
        if missing:
            waiting[top.id] = missing[0]
            continue
        for run, answered, again in answers:
            try:
                mine = run_store.runs.reopen(
                    run, run_store.lease.name, answered=answered, again=again
                )
            except Conflict:
                break  # somebody else goes on with this tree
            recovered.append(mine)
            run_store.costs.recover(mine)
            if (asks := run.fields.get("asks")) and not answered:
                run_store.blockers.settle(mine, [asks])  # it asked for what is answered
    return waiting


def end_stopped(run_store: RunStore, root: str) -> list[str]:
    """End the runs of a tree that somebody stopped and that nobody holds; return their ids."""
    ended = []
    for run in run_store.runs.all(state="waiting", root=root):
        if reason := run_store.runs.over(run):
            with suppress(Conflict):
                run_store.runs.drop(run, reason)
                ended.append(run.id)
    for run in run_store.runs.all(state="running", root=root):
        held = run.fields.get("attached") or (run.holder and run_store.lease.lives(run.holder))
        reason = None if held else run_store.runs.over(run)
        if reason is None:
            continue
        try:
            progress = _progress(run_store, run)
            mine = run_store.runs.take(run, run_store.lease.name, progress)
        except Conflict:
            continue  # somebody goes on with it, and hears of the end
        _repair(run_store.folder(mine))
        turns = steps.conversation(steps.read_known(run_store.folder(mine).lines(STEPS))).turns
        text = next((turn.text for turn in reversed(turns) if turn.text), "")
        outcome = Outcome("stopped", text, reason, operational=True)
        run_store.close_run(mine, outcome, None)
        ended.append(run.id)
    return ended


def _progress(run_store: RunStore, run: Run) -> int:
    """Return how many replies and results a run and all below it have recorded. One whose steps are
    damaged is taken all the same, and ends as failed, which says so.
    """
    recorded = steps.read_known(run_store.folder(run).lines(STEPS))
    own = sum(step.kind in ("turn", "result") for step in recorded)
    return own + sum(_progress(run_store, child) for child in run_store.runs.children(run.id))


def _repair(folder: Folder) -> None:
    """Add to the ledger what was paid for and recorded, but not booked before its supervisor
    died.
    """
    booked = set(folder.lines(LEDGER))
    for step in steps.read_known(folder.lines(STEPS)):
        if step.kind == "turn" and step.fields["ledger"] not in booked:
            folder.record(LEDGER, step.fields["ledger"], sync=False)
