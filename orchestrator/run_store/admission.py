"""The admission of tasks: a task becomes a run, within the limits, unless a run does that work.

On the memory's thread; the supervisor calls it. Nothing here makes a prompt or a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Engine
from orchestrator.prompts.opening import registered
from orchestrator.run_store.costs import Costs
from orchestrator.runs import requirements
from orchestrator.runs.files.workspace import Lease
from orchestrator.runs.fingerprint import Fingerprint, fingerprint
from orchestrator.runs.intent import ALIKE, intent_of, similar
from orchestrator.runs.records import Run, Runs, still
from orchestrator.runs.task import Task, check
from orchestrator.spend.segments import COORDINATORS
from orchestrator.tools import calls
from synapse.errors import Conflict, SynapseError
from synapse.model.agents import Agent
from synapse.model.clock import seconds
from synapse.model.entry import SECOND
from synapse.model.records import Guard
from synapse.store import Store

# what a task says of how it is done
DONE_WITH = (
    *("view_budget", "max_tokens", "max_usd", "max_turns", "timeout", "max_reply"),
    *("role", "memory_tools", "tools"),
)
RECENT = 600 * SECOND  # so long a result answers the same task again
NEIGHBOURS = 20  # running runs that a new one is compared with


class EngineDefaults(NamedTuple):
    """The engine and the model of an agent whose task and file name none; None where there are
    none.
    """

    engine: str | None
    model: str | None


class Admission:
    """The admission to one supervisor, which holds this lease."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        costs: Costs,
        lease: Lease,
        offer: Callable[[], requirements.Offer],
    ) -> None:
        self.store = store
        self.runs = runs
        self.costs = costs
        self.lease = lease
        self.offer = offer
        self._answered = set[str]()  # resumed runs whose own program has asked for them

    def admit(
        self,
        task: Task,
        parent: Run | None,
        id: str,
        engine_of: Callable[[Task, Agent, EngineDefaults], tuple[str, Engine]],
        defaults: EngineDefaults,
    ) -> tuple[Run, bool]:
        """Start a run, within the limits, or return the run that is at this work already: where its
        process is gone; and where the work is to be done once, also one that is under way or was
        done a moment ago.
        """
        agent = registered(self.store, task.agent)
        check(task)
        self.costs.check_settings()
        calls.shared(
            dict(self.store.settings.other), task.tools, requirements.parameters(self.offer().tools)
        )
        existing = self.runs.get(id)
        if existing is not None:
            return existing, existing.holder != self.lease.name or not existing.running
        fields = self._about(task, agent, *engine_of(task, agent, defaults), defaults)
        if parent is not None and parent.fields.get("played"):
            refuse_played(parent, agent, fields)
        intent = intent_of(task.text, project=task.project, agent=task.agent, intent=task.intent)
        key = f"intent:{intent}"
        while True:
            with self.store.snapshot(late=True) as snap:
                begun_records = snap.keyed(key)
            earlier = self._earlier(
                [str(record.fields["run"]) for record in begun_records], task, fields
            )
            if earlier is not None:
                return earlier, True
            try:
                return self._admit_run(
                    id,
                    task,
                    agent,
                    parent,
                    still(key, len(begun_records)),
                    fields | {"intent": key},
                ), False
            except Conflict as error:
                if error.details.get("key") != key:
                    raise
                self.store.refresh()  # somebody else began it in this moment: look again

    def _earlier(self, names: list[str], task: Task, fields: Mapping[str, Any]) -> Run | None:
        """Return the newest of these runs that stands for work with these fields."""
        for name in reversed(names[-NEIGHBOURS:]):
            run = self.runs.get(name)
            if run is not None and self._stands(run, task.once, fields["fingerprint"]):
                return run
        return None

    def _stands(self, run: Run, once: bool, wanted: Sequence[str]) -> bool:
        """Return whether a run stands for work of this fingerprint: its process is gone, or was and
        another one goes on with it; or it is to be done `once`, and somebody is at it, or has just
        done it. One of an older version, which recorded no fingerprint, may be gone on with.
        """
        program, whole = run.fields.get("fingerprint") or (wanted[0], "")
        if program != wanted[0]:
            return False
        if run.running:
            if self.runs.over(run, known=True) is not None:
                return False
            if self.is_resumed(run) or run.epoch > 1:
                self._answered.add(run.id)
                return True
            return once and whole == wanted[1]
        if run.status != "done":
            return False
        if self.is_resumed(run) and run.id not in self._answered:
            self._answered.add(run.id)
            return True  # gone on with here, before its own program asked for it
        ended = run.fields.get("ended_at")
        is_recent = ended is not None and self.store.clock() - ended < RECENT
        return once and whole == wanted[1] and is_recent

    def is_resumed(self, run: Run) -> bool:
        """Return whether a run is one that lost its process, and that this supervisor goes on with,
        or is about to.
        """
        if run.holder == self.lease.name:
            return run.epoch > 1
        return run.running and not (run.holder and self.lease.lives(run.holder))

    def _admit_run(
        self,
        id: str,
        task: Task,
        agent: Agent,
        parent: Run | None,
        unless: Guard | None,
        more: Mapping[str, Any],
    ) -> Run:
        """Count the run, then record it; one that cannot be recorded is uncounted."""
        scopes = self.costs.admit(id, task, agent, parent)
        try:
            return self.runs.begin(id, task, agent, self.lease.name, parent, unless, **more)
        except SynapseError:
            self.costs.budget.withdraw(id, scopes)
            raise

    def _about(
        self, task: Task, agent: Agent, engine_name: str, engine: Engine, defaults: EngineDefaults
    ) -> dict[str, Any]:
        """Return what a run is begun with besides its task. Whoever begins others needs the engine
        that these get, too."""
        model = task.model or agent.model or defaults.model or getattr(engine, "model", None)
        played = bool(getattr(engine, "played", False))
        spawns = engine.takes_tools and (task.role or agent.role) in COORDINATORS
        engines = [engine_name]
        if spawns and defaults.engine:
            engines.append(defaults.engine)
        needed = requirements.record(engines, self.offer(), tools=engine.takes_tools)
        if len(engines) > 1:
            needed["usual"] = list(defaults)
        fields: dict[str, Any] = {"engine": engine_name, "model": model, "needs": needed}
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(project=task.project, state="running", limit=NEIGHBOURS)
        warnings = [
            f"{row['run']} ({row['agent']}), at work since {seconds(row['at'])}, was asked for"
            f" something like it: `orchestrator tail {row['run']}`"
            for row in running
            if bool(row.get("played")) == played and similar(str(row["task"]), task.text) >= ALIKE
        ]
        if warnings:
            fields["warnings"] = warnings
        if played:
            fields["played"] = True
        if not engine.takes_tools:
            fields["folder"] = os.path.abspath(task.folder or os.curdir)
        fields["fingerprint"] = list(self._fingerprint(task, engine, engines, fields, spawns))
        return fields

    def _fingerprint(
        self,
        task: Task,
        engine: Engine,
        names: Sequence[str],
        fields: Mapping[str, Any],
        spawns: bool,
    ) -> Fingerprint:
        """Return with what a task is done: who spawns others does it with all engines that the
        program gives it."""
        offer = self.offer()
        given = {name: offer.given[name] for name in names if name in offer.given}
        engines: dict[str, object] = dict(offer.given) if spawns else dict(given)
        for name in names:
            if name not in engines:
                kind, options = offer.declared(name)
                engines[name] = {"kind": kind, **options}
        if fields["engine"] not in offer.given:
            engines[f"{fields['engine']} made"] = engine
        about = {
            "engine": fields["engine"],
            "hosts": {
                name: needed.get("host")
                for name, needed in fields["needs"].get("engines", {}).items()
            },
            "model": fields["model"],
            "folder": fields.get("folder"),
            "task": {name: getattr(task, name) for name in DONE_WITH},
            "limits": list(self.costs.policy.run),
        }
        tools = dict(offer.tools) if engine.takes_tools else {}
        return fingerprint(engines, about, {"tools": tools, "templates": offer.templates})


def refuse_played(parent: Run, agent: Agent, fields: Mapping[str, Any]) -> None:
    """Raise Conflict where a run that was played would give somebody real work."""
    if not fields.get("played"):
        raise Conflict(
            f"{parent.id} was played, so it gives no work to {agent.id}, whose engine is"
            f" {fields['engine']}: name an engine for {parent.agent}, too",
            run=parent.id,
        )
