"""The agents that a client's conversations are: `clients:` in synapse.yaml, and the defaults. Pure.

Called by sessions, hooks and installations.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from synapse.errors import InvalidEntry
from synapse.formats.keys import EXTENSION
from synapse.model.agents import ROLES, Agent
from synapse.model.namespace import is_component
from synapse.system.discovery import FOLDER
from synapse.system.spelling import hint

LEAD, DEFAULT = "lead", "engineer"
PROJECT = "general"
LEAD_ROLE, ROLE = "project-lead", "engineer"
SHARED = ("api/*", "plans/*", "team/*")


def member(id: str, main: bool, project: str) -> Agent:
    """Return the agent of a main conversation or of a sub-agent, as it is registered where it is
    not yet: by its role, and with what a project's interfaces and plans are kept in. A person's
    sessions have no department, by which a role alone would share these out.
    """
    role = LEAD_ROLE if main else ROLE
    rights = ROLES[role]
    return Agent(
        id,
        role,
        projects=(project,),
        read=(*rights.read, *(glob for glob in SHARED if glob not in rights.read)),
        write=(*rights.write, *(glob for glob in SHARED if glob not in rights.write)),
    )


class Clients(NamedTuple):
    """The memory's agent of a main conversation, that of sub-agents, those of some types, and the
    project that all of them work on; an empty one is named after the folder."""

    lead: str = LEAD
    default: str = DEFAULT
    agents: Mapping[str, str] = {}
    project: str = ""

    def agent_of(self, type: str | None, registered: Mapping[str, Agent]) -> str:
        """Return the agent that a sub-agent of this type is; the lead for the main conversation. A
        type is what a model writes: by that alone, nobody has the authority of the lead."""
        if type is None:
            return self.lead
        if type in self.agents:
            return self.agents[type]
        name = component(type.rpartition(":")[2])
        agent, lead = registered.get(name), registered.get(self.lead)
        limit = _authority(lead) if lead else ROLES[LEAD_ROLE].authority
        return name if agent and _authority(agent) < limit else self.default

    def project_of(self, root: str) -> str:
        """Return the project that the sessions of a workspace work on: by its own name, or that of
        the folder that holds it."""
        folder = root if os.path.basename(root) != FOLDER else os.path.dirname(root)
        return self.project or component(os.path.basename(folder)) or PROJECT


def _authority(agent: Agent) -> int:
    return (
        ROLES.get(agent.role, ROLES[ROLE]).authority if agent.authority is None else agent.authority
    )


def clients(settings: Mapping[str, Any]) -> Clients:
    """Return what synapse.yaml says; InvalidEntry tells what to write."""
    values = settings.get("clients") or {}
    if not isinstance(values, Mapping):
        raise InvalidEntry(
            "clients is not valid: write fields such as {lead: lead, default: engineer}"
        )
    for key in sorted(map(str, values)):
        if key not in Clients._fields and not key.startswith(EXTENSION):
            choices = f"it is one of {', '.join(Clients._fields)}"
            raise InvalidEntry(
                f"clients: there is no key {key!r}: {hint(key, Clients._fields, choices)}"
            )
    agents = values.get("agents") or {}
    if not isinstance(agents, Mapping):
        raise InvalidEntry(
            "clients: agents is not valid: write a line for each, such as Explore: researcher"
        )
    fields = {
        name: str(values[name]) for name in ("lead", "default", "project") if values.get(name)
    }
    by_type = {str(type): str(agent) for type, agent in agents.items()}
    for name in (*fields.values(), *by_type.values()):
        if not is_component(name):
            raise InvalidEntry(
                f"clients: {name!r} is no name of an agent or project: a-z, 0-9, '_' and '-'"
            )
    return Clients(**fields, agents=by_type)


def component(name: str) -> str:
    """Return a name as the memory's agents and projects have it; an empty one where nothing is
    left.
    """
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:60]
    return plain if plain and is_component(plain) else ""
