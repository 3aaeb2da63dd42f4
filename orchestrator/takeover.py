"""Taking over: runs whose supervisor is gone become this one's, and what it could not finish writing is mended.

On the memory's thread. Nothing here begins a session.
"""

from __future__ import annotations

from orchestrator import steps, writeback
from orchestrator.books import Books
from orchestrator.folder import LEDGER, STEPS, Folder
from orchestrator.runs import Run
from synapse.errors import Conflict, StoreBusy, StoreCorrupt


def take_over(books: Books, root: str | None = None) -> list[Run]:
    """Every run whose holder is gone, or those of one tree, from now on this supervisor's; one that died too often
    ends. StoreBusy where somebody's lock lets none be taken: what was taken is given back, nobody else would begin it.
    """
    taken: list[Run] = []
    try:
        for run in reversed(books.runs.all(state="running", root=root)):
            if not (run.holder and books.holder.lives(run.holder)):
                _take(books, run, taken)
        books.costs.forget_the_dead()
        books.holder.sweep()
    except StoreBusy:
        if not taken:
            raise
    return taken


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
