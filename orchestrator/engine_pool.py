"""The engines of one supervisor: given, declared in synapse.yaml or loaded by name; made once.

Knows no runs that are under way; the supervisor calls it. An engine lives with its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.engines import factory, protocol
from orchestrator.engines.protocol import Engine, EngineError, check_name
from orchestrator.run_store.admission import EngineDefaults
from orchestrator.runs.task import Task
from synapse.errors import InvalidEntry, NotTrusted
from synapse.model.agents import Agent
from synapse.store import Store


class EnginePool:
    """Engines by name. `default` is for agents for which nobody names one."""

    def __init__(
        self,
        store: Store,
        default: str | Engine,
        model: str | None,
        given: Mapping[str, Engine],
    ) -> None:
        self._store = store
        self.given = dict(given)
        self.default_model = model
        if isinstance(default, str):
            self.default_engine = default
        else:
            self.default_engine = default.name
            self.given[default.name] = default
        if self.default_engine not in self.given:
            check_name(self._declared(), self.default_engine)
        self.engines = dict(self.given)

    def defaults(self, needs: Mapping[str, Any] | None) -> EngineDefaults:
        """Return the engine and the model where nobody names any: those that the needs of a parent
        record, else the supervisor's.
        """
        own = (self.default_engine, self.default_model)
        return EngineDefaults(*(needs or {}).get("usual", own))

    def for_task(
        self, task: Task, agent: Agent, defaults: EngineDefaults
    ) -> tuple[str, Engine]:
        """Return the engine that does a task, and its name."""
        name = task.engine or agent.engine or defaults.engine
        return name, self.get(name)

    async def load_for(self, task: Task, defaults: EngineDefaults) -> None:
        """Import an SDK that the task will need, off the event loop: it takes a second."""
        with self._store.snapshot(late=True) as snap:
            agent = snap.declared.get(task.agent)
        name = task.engine or (agent.engine if agent else None) or defaults.engine
        if name not in self.engines:
            await asyncio.to_thread(self.get, name)

    def get(self, name: str) -> Engine:
        """Return the engine of this name, made now where it is new."""
        if name not in self.engines:
            by_program = name == self.default_engine
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
    if not isinstance(engine, str | Engine):
        raise InvalidEntry(
            f"engine is {engine!r:.60}: write the name of one, such as anthropic,"
            f" or give an engine"
        )
    for value in engines.values():
        if not isinstance(value, Engine):
            raise InvalidEntry(
                f"engines: {value!r:.60} is no engine: give names and engines,"
                f" such as {{'mine': engine}}"
            )
