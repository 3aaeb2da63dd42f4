"""Taking over: runs whose supervisor is gone become this one's, and what it could not finish
writing is mended. A run that needs what this process does not have is left as it is.

On the memory's thread. Nothing here begins a session.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.run_store import Books
from orchestrator.runs import requirements, steps, writeback
from orchestrator.runs.folder import ELSEWHERE, LEDGER, STEPS, Folder, is_elsewhere
from orchestrator.runs.records import Run
from synapse.errors import Conflict, StoreBusy, StoreCorrupt


class Takeover(NamedTuple):
    """The runs that are this supervisor's from now on; those that it left, with what they wait
    for."""

    taken: list[Run]
    left: dict[str, str]


def take_over(books: Books, root: str | None = None) -> Takeover:
    """Take over every run whose holder is gone, or those of one tree, as far as what they need is
    here; end one that died too often. StoreBusy where somebody's lock lets none be taken: what was
    taken is given back, nobody else would begin it."""
    taken: list[Run] = []
    left: dict[str, str] = {}
    try:
        running = reversed(books.runs.all(state="running", root=root))
        held_here = (
            run for run in running if not run.fields.get("attached")
        )  # a client's is its own
        orphans = [run for run in held_here if not (run.holder and books.holder.lives(run.holder))]
        left = _left(books, orphans, asked_for=root is not None)
        for run in orphans:
            if run.id not in left:
                _take(books, run, taken)
        books.costs.forget_the_dead()
        books.holder.sweep()
    except StoreBusy:
        if not taken:
            raise
    return Takeover(taken, left)


def _left(books: Books, orphans: list[Run], asked_for: bool) -> dict[str, str]:
    """Return which of these have to wait, and for what. One that was stopped only has to end, which
    needs nothing; one of an older version goes on where its work is asked for again."""
    known = {run.id: run for run in orphans}

    def lacks(fields: requirements.Fields) -> tuple[str, ...]:
        run = known[fields["run"]]
        if is_elsewhere(books.root, run.id, run.fields):
            return () if books.runs.over(run, known=True) else (ELSEWHERE,)
        if asked_for and run.needs is None:
            return ()
        missing = books.lacking(run, asked_for)
        return () if missing and books.runs.over(run, known=True) else missing

    return requirements.waiting([run.fields for run in orphans], lacks)


def _take(books: Books, run: Run, taken: list[Run]) -> None:
    try:
        mine = books.runs.take(run, books.holder.name, _progress(books, run))
    except Conflict:
        return  # another supervisor was faster, or it has ended
    taken.append(mine)
    books.costs.take_over(mine)
    _mend(books.folder(mine))
    if mine.attempts > books.attempts:
        _bury(books, mine)
        taken.remove(mine)


def _progress(books: Books, run: Run) -> int:
    """How many replies and results it and all below it have recorded."""
    own = sum(step.kind in ("turn", "result") for step in _recorded(books.folder(run)))
    return own + sum(_progress(books, child) for child in books.runs.children(run.id))


def _recorded(folder: Folder) -> list[steps.Step]:
    """Its steps; none where they are damaged: it is taken all the same, and ends as failed, which says so."""
    try:
        return steps.read(folder.lines(STEPS))
    except StoreCorrupt:
        return []


def _mend(folder: Folder) -> None:
    """Add to the ledger what was paid for and recorded, but not booked before its supervisor died."""
    booked = set(folder.lines(LEDGER))
    for step in _recorded(folder):
        if step.kind == "turn" and step.fields["ledger"] not in booked:
            folder.record(LEDGER, step.fields["ledger"], sync=False)


def _bury(books: Books, run: Run) -> None:
    """A run that died again and again: a dead letter, and a blocker that says so."""
    note = writeback.dead_letter(run.id, run.project, run.attempts - 1)
    entry, untold = books.told(run, [note])
    why = "; ".join(filter(None, (f"it died {run.attempts - 1} times without moving", untold)))
    books.runs.end(run, "failed", entry=entry, why=why, summary="")
    books.costs.leave(run)
