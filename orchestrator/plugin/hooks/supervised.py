"""The answers to the events of a client that a supervisor spawned: what others changed in files.

Its run has its view and its news from the supervisor, which sees no call of it: what it does with
files is seen here alone. The state of the session lies beside those of people's sessions, and is
none of them. Called by `respond`.
"""

from __future__ import annotations

from orchestrator.files.changes import Changes
from orchestrator.plugin.facts import Facts
from orchestrator.plugin.facts.event import NOTHING, Event, Reply
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.state import MAIN, ClientSession, Worker
from orchestrator.runs.records import Run, Runs
from synapse.core import Memory
from synapse.view.block import Block


class SupervisedRun(ClientRuns):
    """The conversations of one client that works for a run."""

    def __init__(self, memory: Memory, session: ClientSession, run: Run) -> None:
        super().__init__(memory, session)
        self.own, self.project = run, run.project

    def of(self, event: Event, text: str = "") -> Worker:
        """Return the worker whose event this is, as of this incarnation of the run."""
        key = event.agent or MAIN
        worker = self.session.workers.get(key)
        if worker is None:
            worker = Worker(self.own.agent, self.own.id, self.own.epoch, event.type, self.cursor())
            self.session.workers[key] = worker
        worker.epoch = self.own.epoch
        return worker

    def is_own(self, worker: Worker, run: str | None) -> bool:
        """Tell whether a run is the worker's, or below it."""
        return self.runs.is_below(run, worker.run)


def respond_to_run(memory: Memory, facts: Facts, event: Event) -> Reply:
    """Return the reply to an event in the client of a run; nothing where that goes on elsewhere."""
    id, _, epoch = event.run.partition(":")
    run = Runs(memory.store).get(id)
    if run is None or not run.running or str(run.epoch) != epoch or memory.store.readonly:
        return NOTHING
    with state.hold_run(memory.store.root or "", event.client, event.session) as session:
        workers = SupervisedRun(memory, session, run)
        worker = workers.of(event)
        blocks = _blocks(Changes(workers), worker, event)
        later, worker.later = worker.later, []
        text = "".join((*later, Context(workers, facts.length).render_changes(worker, blocks)))
        event_facts = facts.events[event.hook]
        if "context" in event_facts.forms and facts.length(text) <= event_facts.cap:
            return Reply(context=text)
        worker.later = [text] if text else []  # with the next result
        return NOTHING


def _blocks(changes: Changes[Worker], worker: Worker, event: Event) -> list[Block]:
    """Return what a worker is told at an event, and note what the event shows and changes."""
    if event.name == "before":
        return changes.before(worker, event.touch())
    if event.name == "after":
        return changes.after(worker, event.touch())
    if event.name in ("stop", "agent-stop", "end"):
        changes.finish(worker)
        return []
    if event.name == "start" and event.source in ("clear", "compact"):
        worker.forget_files()
    blocks = changes.news(worker)
    if event.name == "prompt":
        changes.see(worker, event.touch())
    return blocks
