"""Shared by the Cortex tools: entries of a kind, the scope of a new one, and answers of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from synapse.agent_memory import AgentMemory
from synapse.model.entry import Entry
from synapse.tools import CAPSULE, Arguments


def entries_of_kind(agent_memory: AgentMemory, kind: str) -> list[Entry]:
    """Return all entries of a kind that this agent may see, newest first."""
    return [entry for entry in agent_memory.read(limit=None) if entry.kind == kind]


def default_scope(agent_memory: AgentMemory) -> str:
    """Return the scope of a new memory: the team of an agent that has exactly one, else the
    agent."""
    agent = agent_memory.agent
    groups = agent.groups if agent else ()
    return f"group:{groups[0]}" if len(groups) == 1 else "agent"


def read_count(arguments: Arguments, name: str, otherwise: int) -> int:
    """Read a number of items; JSON also allows infinity, which is refused."""
    return (
        max(0, min(10_000, int(value)))
        if isfinite(value := arguments.get(name, otherwise))
        else otherwise
    )


def join_lines(lines: Sequence[str], otherwise: str) -> str:
    """Return as many lines as fit into an answer; the last says how many there are."""
    count, size = 0, 0
    for line in lines:
        size += len(line.encode())
        if size > CAPSULE - 60:
            break
        count += 1
    remainder = f"({count} of {len(lines)} shown; ask for fewer)\n" if count < len(lines) else ""
    return "".join(lines[:count]) + remainder or otherwise


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
