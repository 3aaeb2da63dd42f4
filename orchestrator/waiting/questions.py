"""The questions of trees that wait for an answer. Reads records; decides and writes nothing.

Called by the inbox, by whoever answers, and by the shell and the pages that show what to answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orchestrator.reports.rows import Fields, Source, find_runs
from orchestrator.runs.blockers import is_answered
from synapse.index.snapshot import Snapshot
from synapse.model.entry import Entry

BLOCKERS = ("blockers/*",)


class Question(NamedTuple):
    """What runs of a tree that waits cannot go on without: these runs, and the entry that says
    so."""

    runs: tuple[Fields, ...]
    entry: Entry

    @property
    def agent(self) -> str:
        """Return who asks, or who asked first."""
        return str(self.runs[0]["agent"])

    @property
    def text(self) -> str:
        """Return what is asked, without the word that all blockers begin with."""
        return self.entry.body.removeprefix("Blocked: ")


def answer_line(entry: str) -> str:
    """Return the command that answers what an entry asks."""
    return f'orchestrator answer {entry} "..."'


def questions_of(source: Source, top: Fields) -> list[Question]:
    """Return what this run, and those below it, wait for. A run above another that asks only says
    it once more, and is left out. In a team that goes by a plan, those above may have ended."""
    now = source.now()
    source.store.refresh()
    with source.store.snapshot() as snap:
        tree = {str(run["run"]): run for run in snap.runs(root=str(top["root"]))}
        asked: dict[str, Question] = {}
        first = [top] if top.get("status") == "blocked" else _resting(tree, top)
        pairs = [pair for one in first for pair in _below(snap, tree, one, now)]
        for run, entry in pairs:
            earlier = asked.get(entry.id)
            runs = (*earlier.runs, run) if earlier else (run,)
            asked[entry.id] = Question(runs, entry)
        return sorted(asked.values(), key=lambda question: question.entry.seq)


def _resting(tree: Mapping[str, Fields], top: Fields) -> list[Fields]:
    """Return the runs below this one that wait for an answer, though it does not itself."""

    def is_below(run: Fields) -> bool:
        line: Fields | None = run
        while line is not None and line["run"] != top["run"]:
            line = tree.get(str(line.get("parent")))
        return line is not None

    return [run for run in tree.values() if run["state"] == "waiting" and is_below(run)]


def _below(
    snap: Snapshot, tree: Mapping[str, Fields], run: Fields, now: int
) -> list[tuple[Fields, Entry]]:
    if run.get("status") != "blocked":
        return []
    open_questions = [
        pair
        for id in run.get("below") or ()
        if id in tree
        for pair in _below(snap, tree, tree[id], now)
    ]
    asks = run.get("asks")
    entry = snap.entry(str(asks), now) if asks and not open_questions else None
    if entry is None or is_answered(snap, entry, now):
        return open_questions
    return [(run, entry)]


def waiting_trees(source: Source) -> list[Fields]:
    """Return the runs that wait for an answer, each with those below it, newest first."""
    return [*find_runs(source, state="waiting")]


def tree_of(source: Source, run: Fields) -> Fields | None:
    """Return the run that waits in the line from this one up to its root; None for none."""
    line: Fields | None = run
    source.store.refresh()
    with source.store.snapshot() as snap:
        while line is not None and line["state"] != "waiting":
            line = snap.run(str(line["parent"])) if line.get("parent") else None
    return line
