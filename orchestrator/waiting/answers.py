"""The answer of a person to what a run, a blocker or a question asks: told to whom it concerns, and
the question done. The tree that waits for it goes on in whichever process can drive it.

Called by the shell, the routes and the pages; begins no run.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.reports.rows import Fields, Source, find_run
from orchestrator.runs.blockers import is_answered
from orchestrator.waiting.questions import BLOCKERS, Question, questions_of, tree_of, waiting_trees
from synapse.core import Memory
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.namespace import matches_any


class Answer(NamedTuple):
    """What became of an answer: the question that is done, the entries that tell it, and the run
    that goes on with its tree; empty where none waited."""

    entry: str
    entries: tuple[str, ...]
    run: str


def answer(memory: Memory, source: Source, name: str, text: str) -> Answer:
    """Answer a run that waits, a blocker or a question, by its name. Conflict where nobody waits
    for an answer, or where a run has several questions."""
    if not text.strip():
        raise InvalidEntry("an answer has words")
    found = _entry(memory, name)
    if found is None:
        (question, top) = _asked(source, find_run(source, name))
        return _say(memory, source, question.entry, top, text)
    entry = _first(memory, found)
    source.store.refresh()
    with source.store.snapshot() as snap:
        fate = snap.fate(found, source.now())
        done = is_answered(snap, entry, source.now())
    if entry.staged:
        raise Conflict(f"{name} waits for review: `synapse approve {name}`", id=name)
    if done or (found is entry and fate is not None and not _awaited(source, entry)):
        why = f"it is {fate.reason}" if fate else "it was answered"
        raise Conflict(f"nobody waits for an answer to {name}: {why}", id=name)
    if not _asks(memory, found):
        raise Conflict(
            f"{name} is no blocker and no question to you; `orchestrator say --to {entry.author}"
            ' "..."` speaks to its author',
            id=name,
        )
    result = _say(memory, source, entry, _awaited(source, entry), text)
    if found is not entry:
        memory.as_agent(OPERATOR).resolve(found.id, f"answered in {result.entries[0]}")
    return result


def _entry(memory: Memory, name: str) -> Entry | None:
    try:
        return memory.store.entry(name)
    except NotFound:
        return None


def _first(memory: Memory, entry: Entry) -> Entry:
    """Return the blocker that an entry passes on, or the entry itself."""
    while "escalated" in entry.tags and entry.derived_from:
        entry = memory.store.entry(entry.derived_from[0])
    return entry


def _asks(memory: Memory, entry: Entry) -> bool:
    asked = {question.id for question in memory.questions()}
    return entry.id in asked or matches_any(BLOCKERS, entry.namespace)


def _asked(source: Source, run: Fields) -> tuple[Question, Fields]:
    """Return the one question of a run and the runs below it, and the run whose tree waits."""
    questions = questions_of(source, run)
    top = tree_of(source, questions[0].runs[0]) if questions else None
    if top is None:
        state = run.get("status") or run["state"]
        raise Conflict(f"{run['run']} waits for no answer: it is {state}", id=run["run"])
    if len(questions) > 1:
        several = "; ".join(f"{one.entry.id} ({one.text[:60]})" for one in questions)
        raise Conflict(
            f"{run['run']} waits for {len(questions)} answers, answer each: {several}",
            entries=[one.entry.id for one in questions],
        )
    return questions[0], top


def _awaited(source: Source, entry: Entry) -> Fields | None:
    """Return the run whose tree waits for the answer to an entry."""
    for top in waiting_trees(source):
        with source.store.snapshot() as snap:
            tree = snap.runs(root=str(top["root"]))
        if any(entry.id == run.get("asks") for run in tree):
            return top
    return None


def _say(memory: Memory, source: Source, entry: Entry, top: Fields | None, text: str) -> Answer:
    """Tell the agents that asked, and say that the question is done."""
    agents = dict.fromkeys(
        str(run["agent"])
        for one in (questions_of(source, top) if top is not None else ())
        if one.entry.id == entry.id
        for run in one.runs
    ) or {entry.author: None}
    entries = [memory.tell(f"agent:{agent}", text, re=entry.id).id for agent in agents]
    with source.store.snapshot() as snap:
        done = is_answered(snap, entry, source.now())
    if not done:  # its time was over, or it was filed away: the run waits all the same
        memory.as_agent(OPERATOR).resolve(entry.id, f"answered in {entries[0]}")
    return Answer(entry.id, tuple(entries), str(top["run"]) if top is not None else "")
