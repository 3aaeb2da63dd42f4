"""The supervisor: spawns agents with their view of memory in the prompt, writes back, wakes, and
accounts.

Names are loaded when they are first used: looking at what runs pays for nothing that runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.runs.task import Result, Task
    from orchestrator.sessions.events import RunEvent
    from orchestrator.supervisor import Supervisor
    from orchestrator.team import Team

__all__ = ["Result", "RunEvent", "Supervisor", "Task", "Team"]

PROMPTS = "jinja2"  # without which nobody is spawned
_HOME = {"RunEvent": "sessions.events", "Supervisor": "supervisor", "Team": "team"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    from importlib import import_module

    from synapse.system import extras

    try:
        if name in _HOME:
            extras.demand(PROMPTS)
        module = import_module(f"orchestrator.{_HOME.get(name, 'runs.task')}")
    except ModuleNotFoundError as error:
        why = extras.missing(error, name)
        raise ImportError(why or str(error), name=error.name) from error
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
