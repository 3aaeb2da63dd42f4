"""The runs of a client's conversations: each begins with an agent of its own, and ends with what it
leaves.

Two conversations that run at once never have the same agent: the second engineer is `engineer-2`. A
run of a client is `attached`: its process holds it, and no supervisor goes on with it. Called by
the hooks and the MCP server.
"""

from __future__ import annotations

import os
from typing import Any

from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.figures import figures_of, run_figures
from orchestrator.plugin.sessions.settings import Clients, clients, member
from orchestrator.plugin.sessions.state import MAIN, ClientSession, Worker
from orchestrator.plugin.transcripts.transcript import await_message, spent, summaries
from orchestrator.runs.files.folder import OUTPUT
from orchestrator.runs.files.lease import client_holder
from orchestrator.runs.files.workspace import folder, lives
from orchestrator.runs.records import Run, Runs, name
from orchestrator.runs.task import Outcome, Task
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Conflict
from synapse.index.pages import Filter
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.privacy.personal import kept

HOST = os.uname().nodename
MOST = 99  # agents of one name at once


class ClientRuns:
    """The conversations of one session, as runs of the workspace."""

    def __init__(self, memory: Memory, session: ClientSession) -> None:
        self.memory, self.store, self.session = memory, memory.store, session
        self.root = memory.store.root or ""
        self.folder = os.path.dirname(self.root)
        self.runs = Runs(memory.store)
        self.settings: Clients = clients(dict(memory.store.settings.other))
        self.project = self.settings.project_of(self.root)

    @property
    def trees(self) -> dict[str, str]:
        """Return the work trees of the session's files, by their short names."""
        return self.session.trees

    def of(self, event: Event, text: str = "") -> Worker:
        """Return the worker whose event this is. One that is not known begins now: its client may
        have been at work before anybody listened."""
        key = event.agent or MAIN
        worker = self.session.workers.get(key)
        if worker is None or not self.is_running(worker):
            worker = self.begin(event, key, text)
        return worker

    def is_running(self, worker: Worker) -> bool:
        with self.store.snapshot(late=True) as snap:
            run = snap.run(worker.run)
        return run is not None and run["state"] == "running" and run["epoch"] == worker.epoch

    def begin(self, event: Event, key: str, text: str) -> Worker:
        """Return a new worker: an agent that has no other conversation now, and its run."""
        if event.pid:
            self.session.holder, self.session.host = client_holder(event.pid), HOST
        parent = None
        if key != MAIN:
            parent = self.runs.get(self.of(event._replace(agent=None)).run)
        kind = None if key == MAIN else event.type or ""
        with state.hold_lock(os.path.join(self.root, "runs", ".agents.lock")):
            self.store.refresh()
            run = self._running_run(event.client, key)
            if run is None:
                run = self._begin_run(event, key, kind, text, parent)
        worker = Worker(run.agent, run.id, run.epoch, kind, self.cursor())
        worker.transcript = event.transcript
        # A session that is gone on with has its earlier runs in the same transcript.
        if key == MAIN:
            worker.before = figures_of(spent(event.client, event.transcript))
            worker.summaries = summaries(event.client, event.transcript)
        earlier = self.session.workers.get(key)
        if earlier is not None and event.source != "clear":
            self.pass_doubts(earlier.run, run.id)  # the same words go on
            if key != MAIN:
                worker.seen, worker.opened = earlier.seen, earlier.opened
                worker.cursor = earlier.cursor
        self.session.workers[key] = worker
        if parent is not None:
            self.pass_doubts(parent.id, run.id)
        return worker

    def pass_doubts(self, source: str, to: str) -> None:
        """Limit a run by what limits another one, whose words it was told. A session may remember
        runs that the log has no more.
        """
        one, other = self.runs.get(source), self.runs.get(to)
        if one is not None and other is not None:
            doubts = self._memory_of(one).access.doubts()
            self._memory_of(other).access.noticed_ids(doubts)

    def is_own(self, worker: Worker, run: str | None) -> bool:
        """Tell whether a run is the worker's conversation, or one that it began."""
        if run == worker.run:
            return True
        with self.store.snapshot(late=True) as snap:
            fields = snap.run(run) if run else None
        if fields is None or fields.get("attached") != self.session.session:
            return False
        key = next(key for key, peer in self.session.workers.items() if peer is worker)
        return key == MAIN or fields.get("conversation") == key

    def note_given(self, worker: Worker, entry: Entry) -> None:
        """Note that a worker was given the words of an entry."""
        self.agent_memory(worker).access.noticed([entry])
        worker.add("seen", [entry.id])

    def is_summarised(self, worker: Worker, event: Event) -> bool:
        """Tell whether a main conversation was replaced by a summary since this was last asked."""
        before = worker.summaries
        worker.summaries = summaries(event.client, event.transcript)
        return worker.summaries > before

    def note_written(self, worker: Worker) -> None:
        """Note what a worker wrote itself since it last forgot: its conversation has it."""
        own = Filter(author=worker.agent, mail=True)
        with self.store.snapshot(late=True) as snap:
            entries = snap.page(self.reader(worker), own, self.store.clock())
        worker.add(
            "seen",
            [
                entry.id
                for entry in entries
                if entry.run == worker.run and entry.seq > worker.forgot
            ],
        )

    def cursor(self) -> int:
        with self.store.snapshot(late=True) as snap:
            return snap.cursor

    def _begin_run(
        self, event: Event, key: str, kind: str | None, text: str, parent: Run | None
    ) -> Run:
        """Start the run of a conversation, with an agent of its own, and return it."""
        agents = self.store.agents.all()
        agent_name = self.settings.agent_of(kind, agents)
        if key == MAIN and event.identity in agents:
            agent_name = event.identity
        agent = self._free_agent(agent_name, key == MAIN)
        text = text[: state.LONGEST] or f"A session of {event.client}"
        task = Task(text, agent.id, project=self.project)
        id = name(agent.id, event.client, event.session, key, self.cursor())
        fields = {"engine": event.client, "model": None, "host": HOST}
        fields |= {"attached": event.session, "conversation": key}
        holder = self.session.holder
        return self.runs.begin(id, task, agent, holder, parent, None, **fields)

    def _running_run(self, client: str, key: str) -> Run | None:
        """Return the run that this conversation has by the log: the session's file was lost, or the
        hook that began the run was ended before it wrote the file.
        """
        fields = {
            "engine": client,
            "attached": self.session.session,
            "conversation": key,
            "holder": self.session.holder,
        }
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(state="running")
        for run in running:
            if all(run.get(name) == value for name, value in fields.items()):
                return self.runs.get(str(run["run"]))
        return None

    def _free_agent(self, base: str, main: bool) -> Agent:
        """Return the agent of this name, or its first copy that has no conversation now. It is
        registered where it is not yet.
        """
        agents = self.store.agents.all()
        model = agents.get(base) or member(base, main, self.project)
        for number in range(1, MOST + 1):
            id = base if number == 1 else f"{base[:56]}-{number}"
            with self.store.snapshot(late=True) as snap:
                running = snap.runs(state="running", agent=id)
            if any(lives(self.store, str(run.get("holder"))) for run in running):
                continue
            agent = agents.get(id)
            if agent is None:
                copy = model._replace(id=id, name=None, user=None, shift=0)
                agent = self.memory.register(copy)
            return agent
        raise Conflict(f"{MOST} agents named {base} are at work: nobody more can begin")

    def agent_memory(self, worker: Worker) -> AgentMemory:
        """Return the memory as a worker's agent has it."""
        return self.memory.as_agent(worker.agent, worker.run, worker.epoch)

    def _memory_of(self, run: Run) -> AgentMemory:
        return self.memory.as_agent(run.agent, run.id, run.epoch)

    def reader(self, worker: Worker) -> Agent:
        """Return the agent as it reads in its run."""
        return self.store.agents.all()[worker.agent].joined(self.project)

    def run(self, worker: Worker) -> Run:
        run = self.runs.get(worker.run)
        assert run is not None  # a worker has begun one
        return run

    def report(self, worker: Worker, outcome: Outcome, part: str = "") -> str | None:
        """Write what a worker leaves into the memory, once for each part of its run, and return
        the entry's id.
        """
        from orchestrator.runs import writeback

        file = f"turn-{part}.md" if part else OUTPUT
        if outcome.text:
            folder(self.store, self.root, worker.run).make().write(file, outcome.text, sync=False)
        id, agent_memory = None, self.agent_memory(worker)
        # A client's reports are lists.
        outcome = outcome._replace(text=writeback.flattened(outcome.text))
        for note in writeback.settle(worker.run, self.project, outcome):
            entry = agent_memory.append(
                kept(note.body, agent_memory.store.settings),
                note.namespace,
                priority=note.priority,
                tags=note.tags,
                evidence=note.evidence and note.evidence.replace(OUTPUT, file),
                once=f"{worker.run}/{note.key}{part}",
            )
            id = entry.id
        return id

    def end(self, key: str, outcome: Outcome, client: str, silent: bool = False) -> None:
        """End a worker's run: its entry, what it used by its client's transcript.

        With `silent` it leaves no entry: what it did has been written turn by turn. One that was
        asked to stop has not done its work then, whatever its client says.
        """
        from orchestrator.runs import writeback

        worker = self.session.workers[key]
        if self.is_running(worker):
            run, entry = self.run(worker), None
            if key != MAIN and MAIN in self.session.workers:
                self.pass_doubts(run.id, self.session.workers[MAIN].run)
            if silent:
                reason = self.runs.over(run)
                outcome = Outcome("stopped", "", reason) if reason else outcome
            elif outcome.status != "stopped":
                entry = self.report(worker, outcome)
                worker.add("seen", [entry] if entry else [])
            if not silent:
                await_message(worker.transcript, outcome.text)
            figures = run_figures(spent(client, worker.transcript), worker, self.memory)
            summary = writeback.summary(outcome.text)
            end: dict[str, Any] = {"summary": summary, "why": outcome.why}
            end |= {"debt": [], "entry": entry}
            self.runs.end(run, outcome.status, **figures, **end)
        self.session.forget(key)

    def end_all(self, client: str, status: str = "done", why: str = "") -> None:
        """End the session: first the sub-agents that still run, then the main conversation."""
        workers = self.session.workers
        running = [key for key, worker in workers.items() if not worker.over]
        for key in sorted(running, reverse=True):
            if key == MAIN:
                self.end(key, Outcome(status, "", why), client, silent=True)
            else:
                outcome = Outcome("stopped", "", why or "its session has ended")
                self.end(key, outcome, client, silent=True)
