"""The inbox of a person: everything in a workspace that only a person can move, in one list.

One function makes it; the shell, the pages, HTTP and webhooks show it. It reads, and writes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.reports.rows import Fields, Source, find_runs, run_rows
from orchestrator.reports.trees import Node, trees
from orchestrator.runs.files.workspace import lives
from orchestrator.waiting.questions import BLOCKERS, answer_line, questions_of, waiting_trees
from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry
from synapse.model.agents import OPERATOR
from synapse.model.clock import DAY, seconds
from synapse.model.entry import SECOND, Entry
from synapse.trust import decisions

if TYPE_CHECKING:
    from orchestrator.nightly.job import Past

BLOCKED, QUESTION, REVIEW = "blocked", "question", "review"
RUN, TRUST, NIGHT = "run", "trust", "night"
KINDS = (BLOCKED, QUESTION, REVIEW, RUN, TRUST, NIGHT)
NIGHTS = 3  # dates on which a night that failed is still named
_KEY = re.compile(r"\bkey ([A-Z][A-Z0-9_]*)")
_TOOL = re.compile(r"\btool ")


class Item(NamedTuple):
    """Something that waits for a person: who asks for what since when (`at`, microseconds), what
    its tree has taken so far, and `line`, the command that moves it. `run` and `entry` are what it
    is about, empty where it is about none.
    """

    kind: str
    who: str
    text: str
    at: int
    line: str
    run: str = ""
    entry: str = ""
    tokens: int = 0
    cost: float | None = None

    def json(self, now: int) -> dict[str, Any]:
        """Return it as values that JSON knows, with its age in seconds."""
        return self._asdict() | {"at": seconds(self.at), "age": max(now - self.at, 0) // SECOND}


def inbox(source: Source) -> list[Item]:
    """Return all that waits for a person, the longest first."""
    items: list[Item] = []
    answered_by: set[str] = set()  # entries whose answer another item asks for
    for top in waiting_trees(source):
        items += _tree(source, top, answered_by)
    items += _blockers(source, answered_by)
    items += _questions(source, answered_by)
    items += _reviews(source)
    items += _runs(source)
    items += _trust(source)
    items += _jobs(source)
    return sorted(items, key=lambda item: (item.at, item.entry, item.run))


def _tree(source: Source, top: Fields, asked: set[str]) -> Iterator[Item]:
    """Yield the questions of a tree that waits; or that it is answered, and nobody is there who
    could go on with it."""
    id = str(top["run"])
    (node,) = trees(source, id)
    asked.update(
        str(run["asks"]) for run in find_runs(source, root=str(top["root"])) if run.get("asks")
    )
    questions = questions_of(source, top)
    for question in questions:
        yield Item(
            BLOCKED,
            question.agent,
            question.text,
            question.entry.at,
            answer_line(question.entry.id),
            id,
            question.entry.id,
            *_cost(node),
        )
    if not questions:
        text = "is answered, and goes on where what it needs is"
        at = int(top.get("ended_at") or top["at"])
        line = f"orchestrator resume {id}"
        yield Item(RUN, str(top["agent"]), text, at, line, id, "", *_cost(node))


def _blockers(source: Source, asked: set[str]) -> Iterator[Item]:
    """Yield the blockers that no tree waits for and that nobody at work could answer."""
    operator = AgentMemory(source.store, OPERATOR)
    for entry in operator.read(namespace=BLOCKERS, priority="critical"):
        if entry.id in asked or not asked.isdisjoint(entry.derived_from):
            continue
        if entry.addressees == (f"agent:{OPERATOR}",) or _is_attended(source, entry):
            continue
        text = entry.body.removeprefix("Blocked: ")
        line = answer_line(entry.id)
        run = entry.run or ""
        asked.add(entry.id)
        yield Item(BLOCKED, entry.author, text, entry.at, line, run, entry.id)


def _is_attended(source: Source, entry: Entry) -> bool:
    """Return whether somebody above the run that reported it is at work, and may answer."""
    with source.store.snapshot() as snap:
        run = snap.run(entry.run) if entry.run else None
        while run is not None:
            if run["state"] == "running" and lives(source.store, str(run.get("holder"))):
                return True
            run = snap.run(str(run["parent"])) if run.get("parent") else None
    return False


def _questions(source: Source, asked: set[str]) -> Iterator[Item]:
    with source.store.snapshot() as snap:
        entries = snap.addressed(f"agent:{OPERATOR}", source.now())
    for entry in entries:
        if asked.isdisjoint((entry.id, *entry.derived_from)):
            line = answer_line(entry.id)
            yield Item(
                QUESTION, entry.author, entry.body, entry.at, line, entry.run or "", entry.id
            )


def _reviews(source: Source) -> Iterator[Item]:
    for entry in AgentMemory(source.store, OPERATOR).staged():
        line = f"synapse approve {entry.id}"
        yield Item(REVIEW, entry.author, entry.body, entry.at, line, "", entry.id)


def _runs(source: Source) -> Iterator[Item]:
    """Yield the trees that somebody left, and the runs that lack what nobody here has."""
    rows = run_rows(source, find_runs(source, state="running"))
    roots: set[str] = set()
    for row in reversed(rows):
        root = str(row.fields["root"])
        if row.held or row.fields.get("attached") or root in roots:
            continue
        reason = row.waits or ""
        if reason.startswith("waits for ") and ", which " in reason:
            continue  # the run that it waits for is named itself
        left = row.fields.get("left_by")
        roots.add(root)
        text = reason or ("was left in the middle" if left else "has lost the process that held it")
        at = int(row.fields.get("left") or row.fields["at"])
        (node,) = trees(source, root)
        yield Item(
            RUN, str(row.fields["agent"]), text, at, _resume(root, reason), root, "", *_cost(node)
        )


def _resume(run: str, reason: str) -> str:
    """Return the line that goes on with a run, with what it lacks."""
    line = f"orchestrator resume {run}"
    line += " --tool MODULE:FUNCTION" * bool(_TOOL.search(reason))
    key = _KEY.search(reason)
    return f"{key[1]}=... {line}" if key else line


def _trust(source: Source) -> Iterator[Item]:
    """Yield what the workspace's files ask for and no person has decided."""
    root = source.store.root
    if root is None:
        return
    wants = decisions.asked(source.store.settings, root)
    opened = [want for want in decisions.open_wants(root, wants) if not want.never]
    at = _began(source) if opened else 0
    for want in opened:
        yield Item(TRUST, want.file, want.what, at, "synapse trust")


def _jobs(source: Source) -> Iterator[Item]:
    """Yield the jobs of the newest nights that did not come to their end."""
    with source.store.snapshot() as snap:
        if snap.last_maintenance() < source.now() - NIGHTS * DAY:
            return
    from orchestrator.nightly.job import past
    from orchestrator.nightly.schedule import plan_of

    try:
        plan = plan_of(source.store.settings)
    except InvalidEntry:
        return  # who starts a daemon is told
    jobs = past(source.store, plan, NIGHTS)
    newest = {job.job: job.date for job in reversed(jobs)}
    for job in jobs:
        failed = job.state == "lapsed" or _has_failed(job)
        if failed and newest[job.job] == job.date:
            text = f"the {job.job} of {job.date} {_how(job)}"
            at = job.ended or job.began or source.now()
            yield Item(NIGHT, OPERATOR, text, at, "synapse defrag")


def _has_failed(job: Past) -> bool:
    return bool(job.told.get("stopped"))


def _how(job: Past) -> str:
    if why := job.told.get("stopped"):
        return f"was stopped: {why}"
    phase = f" in its phase {job.phase}" if job.phase else ""
    return f"broke off{phase}"


def _began(source: Source) -> int:
    first = next((record.at for record in source.store.log.since(0)), source.now())
    return int(first)


def _cost(node: Node) -> tuple[int, float | None]:
    return node.tokens, node.cost
