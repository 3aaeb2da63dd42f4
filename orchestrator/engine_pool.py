"""The engines of one supervisor: given, declared in synapse.yaml or loaded by name; made once.

Knows no runs that are under way; the supervisor calls it. An engine lives with its event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.engines import choice, factory, protocol
from orchestrator.engines.choice import Choice, NotNamed
from orchestrator.engines.protocol import Engine, EngineError, check_name
from orchestrator.run_store.admission import EngineDefaults
from orchestrator.runs.task import Task
from synapse.errors import InvalidEntry, NotTrusted
from synapse.model.agents import Agent
from synapse.store import Store


class EnginePool:
    """Engines by name. `default` is for agents for which nobody names one; without it, that is what
    synapse.yaml names, or a key in the environment.
    """

    def __init__(
        self,
        store: Store,
        default: str | Engine | None,
        model: str | None,
        given: Mapping[str, Engine],
    ) -> None:
        self._store = store
        self.given = dict(given)
        self._model = model
        self._own: str | None
        if default is None or isinstance(default, str):
            self._own = default
        else:
            self._own = default.name
            self.given[default.name] = default
        if self._own is not None and self._own not in self.given:
            check_name(self._declared(), self._own)
        self.engines = dict(self.given)

    @property
    def chosen(self) -> Choice:
        """Return the engine and the model where no task and no agent's file names any: those that
        were given here, else those of synapse.yaml or of the key that is set.
        """
        if self._own is not None:
            return Choice(self._own, self._model)
        found = choice.chosen(dict(self._store.settings.other), os.environ)
        return found._replace(model=self._model or found.model)

    def defaults(self, needs: Mapping[str, Any] | None) -> EngineDefaults:
        """Return the engine and the model where nobody names any: those that the needs of a parent
        record, else the supervisor's.
        """
        return EngineDefaults(*(needs or {}).get("usual") or self.chosen)

    def name_for(self, agent: Agent) -> str:
        """Return the name of the engine that does the work of an agent; NotNamed where nobody names
        one.
        """
        name = agent.engine or self.chosen.engine
        if name is None:
            raise NotNamed(agent.id)
        return name

    def for_task(self, task: Task, agent: Agent, defaults: EngineDefaults) -> tuple[str, Engine]:
        """Return the engine that does a task, and its name; NotNamed where there is none."""
        name = task.engine or agent.engine or defaults.engine
        if name is None:
            raise NotNamed(agent.id)
        return name, self.get(name)

    async def load_for(self, task: Task, defaults: EngineDefaults) -> None:
        """Import an SDK that the task will need, off the event loop: it takes a second."""
        with self._store.snapshot(late=True) as snap:
            agent = snap.declared.get(task.agent)
        name = task.engine or (agent.engine if agent else None) or defaults.engine
        if name is not None and name not in self.engines:
            await asyncio.to_thread(self.get, name)

    def get(self, name: str) -> Engine:
        """Return the engine of this name, made now where it is new."""
        if name not in self.engines:
            by_program = name == self._own
            self.engines[name] = factory.make(
                name, self._declared(), self._store.root, by_program=by_program
            )
        return self.engines[name]

    def declared(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return an engine's kind and options, as synapse.yaml has them."""
        return protocol.declared(self._declared(), name)

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """Yield each engine that cannot be made here, with the reason."""
        for name in names:
            try:
                self.get(name)
            except (EngineError, InvalidEntry, NotTrusted) as error:
                yield f"engine {name} ({error})"

    async def close(self) -> None:
        """Close all engines; those loaded by name are made again when they are needed."""
        for engine in self.engines.values():
            await engine.close()
        self.engines = dict(self.given)

    def _declared(self) -> Any:
        return dict(self._store.settings.other).get("engines")


def check_engines(engine: object, engines: Mapping[str, object]) -> None:
    """Raise InvalidEntry where one of these is no engine."""
    if engine is not None and not isinstance(engine, str | Engine):
        raise InvalidEntry(
            f"engine is {engine!r:.60}: write the name of one, such as anthropic, or give an engine"
        )
    for value in engines.values():
        if not isinstance(value, Engine):
            raise InvalidEntry(
                f"engines: {value!r:.60} is no engine: give names and engines,"
                f" such as {{'mine': engine}}"
            )
