"""The runs that a client's conversations are: begun with an agent of their own, ended with what
they leave.

Two conversations that run at once are never one agent: the second engineer is `engineer-2`. A run
of a client is `attached`: its process holds it, and no supervisor goes on with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.settings import Clients, clients, member
from orchestrator.plugin.sessions.state import MAIN, ClientSession, Worker
from orchestrator.plugin.transcripts.transcript import Spent, await_message, spent
from orchestrator.runs import writeback
from orchestrator.runs.folder import OUTPUT, Folder
from orchestrator.runs.lease import client_holder, lives
from orchestrator.runs.records import Run, Runs, name
from orchestrator.runs.task import Outcome, Task
from orchestrator.spend import prices
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Conflict, SynapseError
from synapse.model.agents import Agent

GONE, QUIET = "its client is gone", "nothing was heard of it for 12 hours"
IDLE = (
    12 * 3_600
)  # seconds; a client whose server outlives its windows never says that one was closed
HOST = os.uname().nodename
MOST = 99  # agents of one name at once


class ClientRuns:
    """The conversations of one session, as runs of the workspace."""

    def __init__(self, memory: Memory, session: ClientSession) -> None:
        self.memory, self.store, self.session = memory, memory.store, session
        self.root = memory.store.root or ""
        self.runs = Runs(memory.store)
        self.settings: Clients = clients(dict(memory.store.settings.other))
        self.project = self.settings.project_of(self.root)

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
        return (
            run is not None
            and run["state"] == "running"
            and run["epoch"] == worker.epoch
        )

    def begin(self, event: Event, key: str, text: str) -> Worker:
        """Return a new worker: an agent that nobody is at this moment, and its run."""
        if event.pid:
            self.session.holder, self.session.host = client_holder(event.pid), HOST
        parent = (
            self.runs.get(self.of(event._replace(agent=None)).run)
            if key != MAIN
            else None
        )
        kind = None if key == MAIN else event.type or ""
        with state.hold_lock(os.path.join(self.root, state.FOLDER, ".agents.lock")):
            self.store.refresh()
            run = self._running_run(event.client, key)
            if run is None:
                agents = self.store.agents()
                agent_name = self.settings.agent_of(kind, agents)
                agent_name = (
                    event.identity
                    if key == MAIN and event.identity in agents
                    else agent_name
                )
                agent = self._free_agent(agent_name, key == MAIN)
                task = Task(
                    text[: state.LONGEST] or f"A session of {event.client}",
                    agent.id,
                    project=self.project,
                )
                id = name(
                    agent.id,
                    event.client,
                    event.session,
                    key,
                    self._cursor(),
                )
                fields = {"engine": event.client, "model": None, "host": HOST}
                fields |= {"attached": event.session, "conversation": key}
                run = self.runs.begin(
                    id, task, agent, self.session.holder, parent, None, **fields
                )
        worker = Worker(run.agent, run.id, run.epoch, kind, self._cursor())
        worker.transcript = event.transcript
        if (
            key == MAIN
        ):  # a session that is gone on with has its earlier runs in the same transcript
            worker.before = _figures_before(spent(event.client, event.transcript))
        self.session.workers[key] = worker
        return worker

    def _cursor(self) -> int:
        with self.store.snapshot(late=True) as snap:
            return snap.cursor

    def _running_run(self, client: str, key: str) -> Run | None:
        """Return the run that this conversation has by the log: what was kept of it was lost, or
        the hook that began it came to no end.
        """
        key_fields = client, self.session.session, key, self.session.holder
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(state="running")
        for run in running:
            if (
                tuple(
                    run.get(field)
                    for field in ("engine", "attached", "conversation", "holder")
                )
                == key_fields
            ):
                return self.runs.get(str(run["run"]))
        return None

    def _free_agent(self, base: str, main: bool) -> Agent:
        """Return the agent of this name, or its first copy that has no conversation now; registered
        where it is not yet."""
        agents = self.store.agents()
        model = agents.get(base) or member(base, main, self.project)
        for number in range(1, MOST + 1):
            id = base if number == 1 else f"{base[:56]}-{number}"
            with self.store.snapshot(late=True) as snap:
                running = snap.runs(state="running", agent=id)
            if any(lives(self.root, str(run.get("holder"))) for run in running):
                continue
            registered = agents.get(id)
            return registered or self.memory.register(
                model._replace(id=id, name=None, user=None, shift=0)
            )
        raise Conflict(f"{MOST} agents named {base} are at work: nobody more can begin")

    def seat(self, worker: Worker) -> AgentMemory:
        """Return the memory as a worker's agent has it."""
        return self.memory.as_agent(worker.agent, worker.run, worker.epoch)

    def reader(self, worker: Worker) -> Agent:
        """Return the agent as it reads in its run."""
        return self.store.agents()[worker.agent].joined(self.project)

    def run(self, worker: Worker) -> Run:
        run = self.runs.get(worker.run)
        assert run is not None  # a worker has begun one
        return run

    def report(self, worker: Worker, outcome: Outcome, part: str = "") -> str | None:
        """Write what a worker leaves into the memory, once for each part of its run; the entry's
        id.
        """
        self._output(worker, outcome.text, part)
        id, seat = None, self.seat(worker)
        flat_outcome = outcome._replace(
            text=writeback.flattened(outcome.text)
        )  # a client's reports are lists
        for note in writeback.settle(worker.run, self.project, flat_outcome):
            entry = seat.append(
                note.body,
                note.namespace,
                priority=note.priority,
                tags=note.tags,
                evidence=note.evidence
                and note.evidence.replace(OUTPUT, _output_name(part)),
                once=f"{worker.run}/{note.key}{part}",
            )
            id = entry.id
        return id

    def _output(self, worker: Worker, text: str, part: str) -> None:
        if text:
            Folder(self.root, worker.run).make().write(
                _output_name(part), text, sync=False
            )

    def end(self, key: str, outcome: Outcome, client: str) -> None:
        """End a worker's run: its entry, what it used by its client's transcript, its claims."""
        worker = self.session.workers[key]
        if not self.is_running(worker):
            self.session.forget(key)
            return
        entry = self.report(worker, outcome) if outcome.status != "stopped" else None
        await_message(worker.transcript, outcome.text)
        self.release(worker)
        more = _figures(spent(client, worker.transcript), worker, self.memory)
        more |= {
            "summary": writeback.summary(outcome.text),
            "why": outcome.why,
            "debt": [],
            "entry": entry,
        }
        self.runs.end(self.run(worker), outcome.status, **more)
        self.session.forget(key)

    def release(self, worker: Worker) -> None:
        """Give back the files that a worker was editing."""
        seat = self.seat(worker)
        for work in worker.editing:
            with suppress(SynapseError):  # it has run out, or was given back
                seat.release(work)
        worker.editing = []

    def end_all(self, client: str, status: str = "done", why: str = "") -> None:
        """End the session: first the sub-agents that still run, then the main conversation."""
        for key in sorted(
            (key for key, worker in self.session.workers.items() if not worker.over),
            reverse=True,
        ):
            alone = status if key == MAIN else "stopped"
            reason = why or ("" if key == MAIN else "its session has ended")
            self.end_silently(key, alone, reason, client)

    def end_silently(self, key: str, status: str, why: str, client: str) -> None:
        """End a worker's run with no entry: what it did has been written turn by turn. One that was
        asked to stop has not done its work, whatever its client says.
        """
        worker = self.session.workers[key]
        if not self.is_running(worker):
            self.session.forget(key)
            return
        self.release(worker)
        run = self.run(worker)
        if asked := self.runs.over(run):
            status, why = "stopped", asked
        more = _figures(spent(client, worker.transcript), worker, self.memory)
        self.runs.end(run, status, **more, summary="", why=why, debt=[], entry=None)
        self.session.forget(key)


def sweep(memory: Memory) -> list[str]:
    """End the runs of clients that are gone without a word; their ids. Looks at the sessions that
    have running runs alone: it is done often, and there are files of many that are over."""
    root, ended = memory.store.root or "", list[str]()
    running = [
        run
        for run in Runs(memory.store).all(state="running")
        if run.fields.get("attached")
    ]
    for client, id in sorted(
        {(str(run.fields["engine"]), str(run.fields["attached"])) for run in running}
    ):
        session = state.load(state.path_of(root, client, id))
        with suppress(SynapseError):
            ended += _end_session(memory, session) if session else []
        known_runs = (
            [worker.run for worker in session.workers.values()] if session else []
        )
        lost = [
            run
            for run in running
            if run.fields["attached"] == id and run.id not in known_runs
        ]
        ended += _end_lost(
            memory, [run for run in lost if run.fields["engine"] == client]
        )
    return ended


def _end_session(memory: Memory, stored: ClientSession) -> list[str]:
    """End the runs of a session whose client is gone, or long silent; their ids."""
    root = memory.store.root or ""
    idle = time.time() - max(stored.fired.values(), default=0.0) > IDLE
    if not stored.holder or (_is_here(root, stored.holder, stored.host) and not idle):
        return []
    with state.hold_session(root, stored.client, stored.session) as session:
        workers = ClientRuns(memory, session)
        running = [
            worker.run
            for worker in session.workers.values()
            if workers.is_running(worker)
        ]
        is_gone = not _is_here(root, session.holder, session.host)
        if running and (is_gone or idle):
            workers.end_all(session.client, "stopped", GONE if is_gone else QUIET)
            return running
    return []


def _is_here(root: str, holder: str, host: str) -> bool:
    """Return whether a session's client is there, as far as can be told: nobody sees the processes
    of another machine or container that shares the workspace."""
    return host not in ("", HOST) or lives(root, holder)


def _end_lost(memory: Memory, runs: Sequence[Run]) -> list[str]:
    """End those of these runs, of which nothing was kept, whose client is gone; their ids."""
    ended = []
    for run in runs:
        if run.fields.get("host") == HOST and not lives(
            memory.store.root or "", run.holder or ""
        ):
            with suppress(SynapseError):  # somebody else ended it
                Runs(memory.store).end(
                    run, "stopped", summary="", why=GONE, debt=[], entry=None
                )
                ended.append(run.id)
    return ended


def _output_name(part: str) -> str:
    return OUTPUT if not part else f"turn-{part}.md"


def _figures(spending: Spent | None, worker: Worker, memory: Memory) -> dict[str, Any]:
    """Return what a run's record says of tokens: the client's own report, and what we added to
    it.
    """
    spending = _since(spending, worker.before)
    usage = spending.usage if spending else Usage(estimated=True)
    turns = spending.turns if spending else 0
    given_tokens = (
        worker.given // 4
    )  # tokens, estimated: prose has four characters in one
    billed = given_tokens * max(turns, 1)
    work = max(usage.input_tokens + usage.output_tokens - billed, 0)
    overhead = [
        billed,
        0,
        work,
        given_tokens,
        0,
        max(work // max(turns, 1), 0),
        "estimate",
    ]
    model = spending.model if spending else None
    return {
        "usage": usage._asdict(),
        "model": model,
        "turns": turns,
        "cost": _cost(usage, model, memory),
        "overhead": overhead,
        "guide": 0,
    }


def _figures_before(used: Spent | None) -> list[float]:
    """Return the figures of a transcript as a session's state keeps them."""
    return [] if used is None else [*used.usage[:4], used.usage.cost or 0.0, used.turns]


def _since(used: Spent | None, before: list[float]) -> Spent | None:
    """Return what a transcript says beyond what it said before."""
    if used is None or not before:
        return used
    sent, output, cached, written = (
        max(int(now - then), 0)
        for now, then in zip(used.usage[:4], before, strict=False)
    )
    cost = None if used.usage.cost is None else max(used.usage.cost - before[4], 0.0)
    usage = Usage(sent, output, cached, written, cost, used.usage.estimated)
    return used._replace(usage=usage, turns=max(used.turns - int(before[5]), 0))


def _cost(usage: Usage, model: str | None, memory: Memory) -> float | None:
    if usage.cost is not None or not model:
        return usage.cost
    own_prices = prices.declared(dict(memory.store.settings.other))
    price = prices.price(model, at=memory.store.clock(), given=own_prices)
    return prices.cost(price, usage) if price else None
