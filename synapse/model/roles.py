"""The roles that an agent may be registered with: those of the table, and those that a workspace
has a prompt for."""

from __future__ import annotations

import os

from synapse.errors import InvalidEntry
from synapse.model.agents import ROLES, Agent
from synapse.model.namespace import is_component
from synapse.system.spelling import closest, hint

SUFFIX = ".md.j2"


def own(root: str | None) -> list[str]:
    """Return the roles that a workspace has a template of its own for: `prompts/ROLE.md.j2`."""
    try:
        names = sorted(os.listdir(os.path.join(root, "prompts"))) if root else []
    except OSError:
        return []
    roles = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return [role for role in roles if is_component(role)]


def unknown(role: str, root: str | None) -> str:
    """Return what is wrong with the name of a role; empty where there is such a role."""
    if role in ROLES:
        return ""
    roles = [*ROLES, *own(root)]
    if role in roles:
        return ""
    advice = hint(role, roles, f"it is one of {', '.join(roles)}")
    return f"there is no role {role!r}: {advice}"


def refuse_typo(agent: Agent, root: str | None) -> None:
    """Raise InvalidEntry where an agent's role is a misspelt one of the known: it would be given an
    engineer's rights. Any other name is a role of one's own.
    """
    roles = [*ROLES, *own(root)]
    meant = None if agent.role in roles or declares_all(agent) else closest(agent.role, roles)
    if meant is not None:
        raise InvalidEntry(
            f"agents/{agent.id}.yaml: there is no role {agent.role!r}: did you mean {meant}?",
            id=agent.id,
        )


def declares_all(agent: Agent) -> bool:
    """Return whether an agent is declared so that its role decides nothing."""
    return None not in (agent.authority, agent.read, agent.write)
