"""Agents, their roles and skills, as the operator declares them. Values, pure.

A role fills in whatever an agent's file leaves out. Membership (department, teams, projects) gives
an agent the places of what it is a member of, and the name `team:NAME` that `to:` can address.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.model.entry import PRIORITIES, words
from synapse.system.typed import Any, NamedTuple

OPERATOR = "operator"
CONSOLIDATOR = "consolidator"
RESERVED = frozenset((OPERATOR, CONSOLIDATOR, "all"))
# All agents read both. All may write mail, and to `global` those of authority.
MAIL, GLOBAL = "mail", "global/*"


class Role(NamedTuple):
    """The rights that come with a role."""

    authority: int
    read: tuple[str, ...]
    write: tuple[str, ...]


_COMMON = ("projects/*", "decisions/*", "blockers/*", "status/*")
ROLES = {
    "cto": Role(100, ("*",), ("*",)),
    "project-lead": Role(80, _COMMON, _COMMON),
    "engineer": Role(60, _COMMON, ("projects/*", "status/*", "blockers/*")),
    "specialist": Role(40, _COMMON, ("status/*", "blockers/*")),
}
# Where a member of X reads and writes: PLACE/X/*.
PLACES = ("projects", "status", "blockers")


class Skill(NamedTuple):
    """Authority that holds only in some namespaces."""

    domain: str
    authority: int
    namespaces: tuple[str, ...]
    level: str = "proficient"


class Agent(NamedTuple):
    """One agent, as registered. `read`, `write` and `authority` left at None come from the role.
    `shift` is how much its reputation moved since: never declared, and no part of any record of
    it."""

    id: str
    role: str = "engineer"
    name: str | None = None
    department: str | None = None
    engine: str | None = None
    model: str | None = None
    authority: int | None = None
    read: Iterable[str] | None = None
    write: Iterable[str] | None = None
    notify: Iterable[str] = ("critical",)
    teams: Iterable[str] = ()
    projects: Iterable[str] = ()
    skills: Iterable[Skill] = ()
    review_required: bool = False
    user: str | None = None
    shift: int = 0

    @property
    def rank(self) -> int:
        """Return the authority, 0 where none is declared."""
        return 0 if self.authority is None else self.authority

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the teams of the agent; its department is one."""
        department = (self.department,) if self.department else ()
        return tuple(dict.fromkeys((*self.teams, *department)))

    @property
    def memberships(self) -> tuple[str, ...]:
        """Return the teams and the projects that the agent belongs to."""
        return tuple(dict.fromkeys((*self.groups, *self.projects)))

    @property
    def names(self) -> frozenset[str]:
        """Return every addressee that means this agent, `all` left out."""
        return frozenset((f"agent:{self.id}", *(f"team:{name}" for name in self.memberships)))

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the patterns of all that it reads: those declared, those of its memberships, mail,
        and what it recalls."""
        return (*(self.read or ()), *self._own(), MAIL, GLOBAL)

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the patterns of all that it may write; `global` takes authority besides."""
        return (*(self.write or ()), *self._own(), MAIL, GLOBAL)

    def _own(self) -> tuple[str, ...]:
        shared = (f"{folder}/{name}/*" for name in self.memberships for folder in PLACES)
        return (*shared, *(f"groups/{name}/*" for name in self.groups), f"agents/{self.id}/*")

    def joined(self, project: str | None) -> Agent:
        """Return the agent as it works on a project: it reads and writes in the project's places.
        That makes it no member: an entry to `team:PROJECT`, or in a group of that name, is not for
        whoever names the project."""
        if project is None or project in self.projects:
            return self
        patterns = tuple(f"{folder}/{project}/*" for folder in PLACES)
        return self._replace(
            read=(*(self.read or ()), *patterns), write=(*(self.write or ()), *patterns)
        )


LEAST, MOST = 10, 100  # what reputation moves an authority between


def settled(agent: Agent) -> Agent:
    """Return the agent with its role's rights filled in and every field checked; InvalidEntry says
    what is wrong."""
    if not ns.is_component(agent.id) or agent.id in RESERVED:
        raise InvalidEntry(
            f"agent id {agent.id!r} is not valid: a-z, 0-9, '_' and '-', and not {OPERATOR}",
            id=agent.id,
        )
    role = ROLES.get(agent.role, ROLES["engineer"])
    department = agent.department or None
    for team in (*words(agent.teams), *((department,) if department else ())):
        if not ns.is_component(team):
            raise InvalidEntry(
                f"agent {agent.id}: the team or department {team!r} is not valid: a-z, 0-9,"
                " '_' and '-', such as backend",
                id=agent.id,
            )
    for project in words(agent.projects):
        if not ns.is_namespace(f"status/{project}"):
            raise InvalidEntry(
                f"agent {agent.id}: the project {project!r} is not valid: a-z, 0-9, '_' and"
                " '-', such as brain-suite, and '/' between its parts",
                id=agent.id,
            )
    authority = role.authority if agent.authority is None else agent.authority
    if not 0 <= authority <= 100:
        raise InvalidEntry(
            f"agent {agent.id}: authority {authority} is not between 0 and 100", id=agent.id
        )
    return agent._replace(
        department=department,
        authority=authority,
        read=_globs(agent.read, role.read),
        write=_globs(agent.write, role.write),
        notify=_priorities(agent.notify),
        teams=words(agent.teams),
        projects=words(agent.projects),
        skills=tuple(_skill(skill) for skill in agent.skills),
        review_required=bool(agent.review_required),
        shift=0,
    )


def authority_in(agent: Agent, namespace: str, flat: bool = False) -> int:
    """Return the agent's authority in a namespace: its skill's there, else its own; where it is
    flat, 60 for all but a CTO.
    """
    if flat or not agent.skills:
        return general_authority(agent, flat)
    skilled = [
        skill.authority for skill in agent.skills if ns.matches_any(skill.namespaces, namespace)
    ]
    return _shifted(max(skilled), agent.shift) if skilled else general_authority(agent)


def general_authority(agent: Agent, flat: bool = False) -> int:
    """Return the agent's authority where no skill of its has another."""
    authority = agent.authority or 0
    if flat:
        authority = 100 if agent.role == "cto" else 60
    return _shifted(authority, agent.shift) if agent.shift else authority


def _shifted(authority: int, shift: int) -> int:
    return min(max(authority + shift, min(authority, LEAST)), max(authority, MOST))


def _globs(globs: Iterable[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if globs is None else tuple(ns.check_glob(glob) for glob in words(globs))


def _priorities(names: Iterable[str]) -> tuple[str, ...]:
    priorities = words(names)
    for name in priorities:
        if name not in PRIORITIES:
            raise InvalidEntry(
                f"notify: {name!r} is not one of {', '.join(PRIORITIES)}", notify=name
            )
    return priorities


def _skill(skill: Skill) -> Skill:
    if not isinstance(skill, Skill):
        raise InvalidEntry(
            f"skill {skill!r:.60} is not valid: write Skill('databases', 80, ('db/*',))"
        )
    if not 0 <= skill.authority <= 100:
        raise InvalidEntry(
            f"skill {skill.domain!r}: authority {skill.authority} is not between 0 and 100"
        )
    return skill._replace(namespaces=_globs(skill.namespaces, ()))


def agent_from(fields: dict[str, Any]) -> Agent:
    """Return the agent that a record declares."""
    values = {name: value for name, value in fields.items() if name in Agent._fields}
    skills = tuple(
        Skill(*skill) if isinstance(skill, list) else skill for skill in values.get("skills") or ()
    )
    return settled(
        Agent(**values)._replace(
            skills=tuple(s._replace(namespaces=tuple(s.namespaces)) for s in skills)
        )
    )
