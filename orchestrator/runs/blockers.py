"""The blocker entries of runs: written once for each question, and looked up later. The session
waits for answers, not this module; its methods run on the memory's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from orchestrator.runs import writeback
from orchestrator.runs.intent import similar
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import Outcome
from synapse.agent_memory import AgentMemory
from synapse.index.snapshot import Snapshot
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.store import Store

SAME = 0.75  # from here on, two blockers ask the same
ANSWERED = ("resolved", "superseded", "replaced by its author")

Write = Callable[[Run, list[writeback.Note]], tuple[str | None, str]]


class Blockers:
    """The blockers of a workspace's runs. `agent_memory` is that of a run's agent,
    `write` puts down what a run leaves.
    """

    def __init__(
        self, store: Store, runs: Runs, agent_memory: Callable[[Run], AgentMemory], write: Write
    ) -> None:
        self.store = store
        self.runs = runs
        self.agent_memory = agent_memory
        self.write = write

    def report(self, run: Run, outcome: Outcome, number: int | str) -> str | None:
        """Return the entry that says what blocks a run which may go on once it is answered:
        another's that asks the same and stands, else one that is written now.
        """
        for entry in self.agent_memory(run).read(
            namespace=f"blockers/{run.project}", priority="critical"
        ):
            if similar(writeback.question(entry.body), outcome.why) >= SAME:
                return entry.id
        notes = writeback.settle(run.id, run.project, outcome)
        return self.write(run, [note._replace(key=f"{note.key}{number}") for note in notes])[0]

    def settle(self, run: Run, ids: Iterable[str]) -> None:
        """Resolve what a run reported that went on and is done."""
        agent_memory = self.agent_memory(run)
        for id in ids:
            if self.stands(id) and agent_memory.get(id).author == agent_memory.id:
                agent_memory.resolve(id, "its run was answered, and is done")

    def standing(self, run: Run, own: Collection[str], takes_tools: bool) -> str | None:
        """Return an entry in which the run itself says what keeps it, and that still stands. A
        client's calls are not seen: of it, whatever it wrote since it began.
        """
        if not own and takes_tools:
            return None
        page = self.agent_memory(run).read(
            namespace=f"blockers/{run.project}", priority="critical", author=run.agent
        )
        unresolved = [
            entry.id for entry in page if entry.id in own or (not own and entry.at >= run.at)
        ]
        return unresolved[0] if unresolved else None

    def below(self, run: Run) -> list[tuple[str, str | None]]:
        """Return the children of a run that ended blocked, each with the entry that says so, where
        that stands: nobody resolved or replaced it, nor has another child done the same work."""
        children = self.runs.children(run.id)
        done = {child.fields.get("intent") for child in children if child.status == "done"}
        blocked = [child for child in children if child.status == "blocked"]
        unsettled = [run for run in blocked if (run.fields.get("intent") or run.id) not in done]
        entries = [(run.id, run.fields.get("entry")) for run in unsettled]
        return [(id, entry) for id, entry in entries if entry is None or self.stands(entry)]

    def answered(self, id: str) -> bool:
        """Return whether somebody resolved or replaced an entry; its time alone answers nothing."""
        with self.store.snapshot() as snap:
            now = self.store.clock()
            entry = snap.entry(id, now)
            return entry is not None and is_answered(snap, entry, now)

    def note(self, id: str) -> str:
        """Return what the operator noted or answered as it resolved an entry, else nothing."""
        acts = self.store.acts(None, id, None, None)
        notes = (
            str(act.fields.get("note") or "")
            for act in acts
            if act.kind == "resolve" and act.by == OPERATOR
        )
        note = next(notes, "")
        if (id := note.removeprefix("answered in ")) == note:
            return note
        with self.store.snapshot() as snap:
            answer = snap.entry(id, self.store.clock())
        return note if answer is None or answer.author != OPERATOR else answer.body

    def keeps(self, run: Run, outcome: Outcome, entry: str | None) -> bool:
        """Return whether a blocked run rests until its question is answered: the question stands,
        and nobody above it is at work who could answer, or could take its result."""
        if outcome.debt or entry is None or not self.stands(entry):
            return False
        parent = self.runs.get(run.parent) if run.parent else None
        return parent is None or not parent.running

    def stands(self, id: str) -> bool:
        """Return whether an entry is neither resolved nor replaced."""
        with self.store.snapshot() as snap:
            now = self.store.clock()
            entry = snap.entry(id, now)
            return entry is not None and snap.fate(entry, now) is None


def is_answered(snap: Snapshot, entry: Entry, now: int) -> bool:
    """Return whether somebody resolved or replaced a blocker; that its time is over, or that it was
    filed away, answers nothing."""
    fate = snap.fate(entry, now)
    return fate is not None and fate.reason in ANSWERED
