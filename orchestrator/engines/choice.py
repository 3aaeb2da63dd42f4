"""The choice of an engine where no task, agent or program names one: what synapse.yaml names, else
the provider whose key is set. There is no other: nobody is played unasked.

Reads no file and imports no engine; the engine pool and the shell call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orchestrator.engines.protocol import NoEngine, no_engine
from synapse.errors import InvalidEntry

KEYS = (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"))
MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.4-mini"}
SCRIPTED = "scripted"


class Choice(NamedTuple):
    """An engine by its name, and the model that goes with it; None where nothing names any."""

    engine: str | None = None
    model: str | None = None


def chosen(settings: Mapping[str, object], env: Mapping[str, str]) -> Choice:
    """Return what does the work of agents for which nobody names an engine: that of `engine:` in
    synapse.yaml, else that of the first key which is set, with a model of its provider.
    """
    named = settings.get("engine")
    if named is not None:
        if not isinstance(named, str) or not named:
            raise InvalidEntry(
                f"engine: {named!r:.60} in synapse.yaml names none: write one such as anthropic"
            )
        if ":" in named:
            raise no_engine(named)  # a class is named by a person, not by a file
        return Choice(named)
    for engine, key in KEYS:
        if env.get(key):
            return Choice(engine, MODELS[engine])
    return Choice()


class NotNamed(NoEngine):
    """Nobody names an engine, and no key is set: nothing is begun. `.agent` is whom it is about."""

    def __init__(self, agent: str) -> None:
        keys = " or ".join(key for _, key in KEYS)
        super().__init__(
            f"no engine is named for {agent}, and no key is set: nothing was begun.\n"
            f"To have it done: set {keys}, or name what does it, such as"
            f' Supervisor(memory, engine="claude-code").\n'
            f"To play it, with nobody at work:"
            f' Supervisor(memory, engine="{SCRIPTED}").',
            agent=agent,
        )
