"""The admission of tasks: a task becomes a run, within the limits, unless a run does that work.

On the memory's thread; the supervisor calls it. Nothing here makes a prompt or a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Engine
from orchestrator.prompts.opening import registered
from orchestrator.run_store.costs import Costs
from orchestrator.runs import requirements
from orchestrator.runs.intent import ALIKE, intent_of, similar
from orchestrator.runs.records import Run, Runs, still
from orchestrator.runs.task import Task, check
from orchestrator.spend.segments import COORDINATORS
from orchestrator.tools import calls
from synapse.errors import Conflict, SynapseError
from synapse.model.agents import Agent
from synapse.model.entry import SECOND
from synapse.model.records import Guard
from synapse.store import Store

RECENT = 600 * SECOND  # so long a result answers the same task again
NEIGHBOURS = 20  # running runs that a new one is compared with


class EngineDefaults(NamedTuple):
    """The engine and the model of an agent whose task and file name none; None where there are
    none.
    """

    engine: str | None
    model: str | None


class Admission:
    """The admission to one supervisor. `lease_name` is the name in its lease."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        costs: Costs,
        lease_name: str,
        offer: Callable[[], requirements.Offer],
    ) -> None:
        self.store = store
        self.runs = runs
        self.costs = costs
        self.lease_name = lease_name
        self.offer = offer

    def admit(
        self,
        task: Task,
        parent: Run | None,
        id: str,
        engine_of: Callable[[Task, Agent, EngineDefaults], tuple[str, Engine]],
        defaults: EngineDefaults,
    ) -> tuple[Run, bool]:
        """Start a run, within the limits, or return the run that does this work already or did it a
        moment ago.
        """
        agent = registered(self.store, task.agent)
        check(task)
        self.costs.check_settings()
        calls.shared(
            dict(self.store.settings.other),
            task.tools,
            requirements.parameters(self.offer().tools),
        )
        existing = self.runs.get(id)
        if existing is not None:
            return existing, existing.holder != self.lease_name or not existing.running
        fields = self._about(task, agent, *engine_of(task, agent, defaults), defaults)
        if parent is not None and parent.fields.get("played"):
            refuse_played(parent, agent, fields)
        if task.force:
            return self._admit_run(id, task, agent, parent, None, fields), False
        intent = intent_of(
            task.text, project=task.project, agent=task.agent, intent=task.intent
        )
        key = f"intent:{intent}"
        while True:
            with self.store.snapshot(late=True) as snap:
                begun_records = snap.keyed(key)
            earlier = (
                self.runs.get(str(begun_records[-1].fields["run"]))
                if begun_records
                else None
            )
            if earlier is not None and self._is_answer(earlier):
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
            return self.runs.begin(
                id, task, agent, self.lease_name, parent, unless, **more
            )
        except SynapseError:
            self.costs.budget.withdraw(id, scopes)
            raise

    def _about(
        self,
        task: Task,
        agent: Agent,
        engine_name: str,
        engine: Engine,
        defaults: EngineDefaults,
    ) -> dict[str, Any]:
        """Return what a run is begun with besides its task. Whoever begins others needs the engine
        that these get, too."""
        model = (
            task.model
            or agent.model
            or defaults.model
            or getattr(engine, "model", None)
        )
        played = bool(getattr(engine, "played", False))
        spawns = engine.takes_tools and (task.role or agent.role) in COORDINATORS
        engines = [engine_name]
        if spawns and defaults.engine:
            engines.append(defaults.engine)
        needed = requirements.record(engines, self.offer(), tools=engine.takes_tools)
        if len(engines) > 1:
            needed["usual"] = list(defaults)
        fields: dict[str, Any] = {
            "engine": engine_name,
            "model": model,
            "needs": needed,
        }
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(project=task.project, state="running", limit=NEIGHBOURS)
        warnings = [
            f"{row['run']} ({row['agent']}) is at something that sounds like it"
            for row in running
            if bool(row.get("played")) == played
            and similar(str(row["task"]), task.text) >= ALIKE
        ]
        if warnings:
            fields["warnings"] = warnings
        if played:
            fields["played"] = True
        if not engine.takes_tools:
            fields["folder"] = os.path.abspath(task.folder or os.curdir)
        return fields

    def _is_answer(self, run: Run) -> bool:
        ended = run.fields.get("ended_at")
        return run.running or (
            run.status == "done"
            and ended is not None
            and self.store.clock() - ended < RECENT
        )


def refuse_played(parent: Run, agent: Agent, fields: Mapping[str, Any]) -> None:
    """Raise Conflict where a run that was played would give somebody real work."""
    if not fields.get("played"):
        raise Conflict(
            f"{parent.id} was played, so it gives no work to {agent.id}, whose engine is"
            f" {fields['engine']}: name an engine for {parent.agent}, too",
            run=parent.id,
        )
