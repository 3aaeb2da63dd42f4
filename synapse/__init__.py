"""Shared memory for agents: one append-only log, everything else derived from it.

    mem = synapse.init("~/team")                    # or synapse.open(...); open never creates
    me = mem.as_agent("eng-backend")
    me.append("BREAKING: use /v2/users", "api/endpoints", priority="critical")

    me = synapse.connect("https://host:8642")         # the same over HTTP; docs/how-to/remote.md

Names are loaded when they are first used: a shell command that only counts unread entries pays for
nothing else.
"""

from __future__ import annotations

from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.access.claims import Claim
    from synapse.agent_memory import AgentMemory, Seat
    from synapse.client.memory import RemoteMemory, connect
    from synapse.compat.brain import UnifiedBrain
    from synapse.compat.shared import SharedMemoryStore
    from synapse.core import Memory, init, open
    from synapse.errors import (
        Conflict,
        EmbedderError,
        Forbidden,
        IndexDamaged,
        InvalidEntry,
        InvalidQuery,
        NewerProtocol,
        NoKey,
        NotFound,
        NotTrusted,
        OverBudget,
        QueueFull,
        ReadOnly,
        SealError,
        StoreBusy,
        StoreCorrupt,
        StoreError,
        SynapseError,
    )
    from synapse.mail.mailbox import Mail
    from synapse.model.agents import Agent, Skill
    from synapse.model.entry import Draft, Entry
    from synapse.model.message import Message, Thread
    from synapse.model.results import Event, Fate, Hit, Hits, Page, Problem, Rebuilt, Report
    from synapse.model.settings import Settings
    from synapse.system.discovery import find
    from synapse.view.view import View

__all__ = [
    "Agent",
    "AgentMemory",
    "Claim",
    "Conflict",
    "Draft",
    "EmbedderError",
    "Entry",
    "Event",
    "Fate",
    "Forbidden",
    "Hit",
    "Hits",
    "IndexDamaged",
    "InvalidEntry",
    "InvalidQuery",
    "Mail",
    "Memory",
    "Message",
    "NewerProtocol",
    "NoKey",
    "NotFound",
    "NotTrusted",
    "OverBudget",
    "Page",
    "Problem",
    "QueueFull",
    "ReadOnly",
    "Rebuilt",
    "RemoteMemory",
    "Report",
    "SealError",
    "Seat",
    "Settings",
    "SharedMemoryStore",
    "Skill",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "SynapseError",
    "Thread",
    "UnifiedBrain",
    "View",
    "connect",
    "find",
    "init",
    "open",
]

_HOMES = {
    "agent_memory": ("AgentMemory", "Seat"),
    "access.claims": ("Claim",),
    "client.memory": ("RemoteMemory", "connect"),
    "compat.brain": ("UnifiedBrain",),
    "compat.shared": ("SharedMemoryStore",),
    "core": ("Memory", "init", "open"),
    "mail.mailbox": ("Mail",),
    "model.agents": ("Agent", "Skill"),
    "model.settings": ("Settings",),
    "model.entry": ("Draft", "Entry"),
    "model.message": ("Message", "Thread"),
    "model.results": ("Event", "Fate", "Hit", "Hits", "Page", "Problem", "Rebuilt", "Report"),
    "system.discovery": ("find",),
    "view.view": ("View",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'synapse' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"synapse.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
