"""The roster of agents that a coordinating agent may give work to: a line for each, for its prompt
and for the error about an unknown agent. Pure.

The lines that a prompt showed stand in its receipt, so that the prompt can be made again after
other agents were registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.prompts.fence import inline
from orchestrator.runs.bounds import beyond
from synapse.model.agents import RESERVED, Agent
from synapse.system.spelling import closest

MOST = 30  # agents that are named; the others are counted
_ROLES = ("project-lead", "engineer", "specialist")


def workers(agents: Iterable[Agent], giver: Agent, flat: bool = False) -> list[Agent]:
    """Return the agents that this one may sensibly give work to: not itself, the operator or a CTO,
    and none beyond its own bounds. Those of its own department come first, leads before engineers,
    and then the ids decide: an order that lasts.
    """
    candidates = [
        a
        for a in agents
        if a.id not in (giver.id, *RESERVED) and a.role != "cto" and not beyond(giver, a, flat)
    ]
    return sorted(
        candidates,
        key=lambda agent: (
            giver.department is None or agent.department != giver.department,
            _ROLES.index(agent.role) if agent.role in _ROLES else len(_ROLES),
            agent.role,
            agent.id,
        ),
    )


def lines(agents: Sequence[Agent]) -> tuple[str, ...]:
    """Return a line for each of these agents: its id, its role and department, and what it is
    registered for. Those beyond the first MOST are counted."""
    rows, hidden = [_line(agent) for agent in agents[:MOST]], len(agents) - MOST
    if hidden > 0:
        rows.append(
            f"- {hidden} more: call spawn_agent with a part of a name, a role or a department"
        )
    return tuple(rows)


def unknown(name: str, agents: Sequence[Agent]) -> str:
    """Return what a model is told that gave work to somebody who is not there: whom it may name
    instead, those that sound like it first."""
    quoted = inline(name, 40)
    if not agents:
        return f"there is no agent {quoted}, and nobody else to give work to: do it yourself"
    ids = [agent.id for agent in agents]
    close = closest(name, ids)
    matching = [agent.id for agent in agents if name and _fits(name.lower(), agent)]
    suggestions = list(dict.fromkeys([*([close] if close else []), *matching, *ids]))
    suffix = f" and {len(suggestions) - MOST} more" if len(suggestions) > MOST else ""
    meant = f"; did you mean {close}?" if close else ""
    return (
        f"there is no agent {quoted}; you may give work to:"
        f" {', '.join(suggestions[:MOST])}{suffix}{meant}"
    )


def _line(agent: Agent) -> str:
    skills = ", ".join(dict.fromkeys([*(skill.domain for skill in agent.skills), *agent.projects]))
    role = f"{agent.role}, {agent.department}" if agent.department else agent.role
    return f"- {agent.id} ({inline(role)}){f': {inline(skills)}' if skills else ''}"


def _fits(name: str, agent: Agent) -> bool:
    return name in agent.id or name in (agent.role, agent.department, *agent.teams, *agent.projects)
