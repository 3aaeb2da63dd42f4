"""Agents, their roles and skills, as the operator declares them. Values, pure.

A role fills in whatever an agent's file leaves out. Membership (department, teams, projects) gives
an agent the places of what it is a member of, and the name `team:NAME` that `to:` can address.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.model.entry import PRIORITIES, parse_ttl, words
from synapse.system.typed import NamedTuple

PROTOCOL = 1
OPERATOR = "operator"
CONSOLIDATOR = "consolidator"
RESERVED = frozenset((OPERATOR, CONSOLIDATOR, "all"))
MAIL, GLOBAL = (
    "mail",
    "global/*",
)  # what all agents read; mail all may write, and to `global` those of authority


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
PLACES = (
    "projects",
    "status",
    "blockers",
)  # where a member of X reads and writes: PLACE/X/*


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
        return frozenset(
            (f"agent:{self.id}", *(f"team:{name}" for name in self.memberships))
        )

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
        shared = (
            f"{folder}/{name}/*" for name in self.memberships for folder in PLACES
        )
        return (
            *shared,
            *(f"groups/{name}/*" for name in self.groups),
            f"agents/{self.id}/*",
        )

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
REPUTATION = ("report", "on", "off")
SIZES = {
    "per_namespace": "500KB",
    "total_shared": "5MB",
    "per_entry": "64KB",
    "archive_retention": "off",
}
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}


EMBEDDERS = ("local", "ollama", "openai")


class Semantic(NamedTuple):
    """Which embedder makes vectors, if any, and whether searches use them by default. `key` is the
    name of the environment variable that holds a server's key."""

    embedder: str = ""
    model: str | None = None
    url: str | None = None
    folder: str | None = None
    key: str | None = None
    search: bool = True


class Settings(NamedTuple):
    """The keys of synapse.yaml as values; unknown keys are kept for whoever knows them."""

    protocol: int = PROTOCOL
    name: str = "shared-memory"
    ttl: tuple[tuple[str, str], ...] = ()
    flat: bool = False
    staging_ttl: str = "7d"
    staging_limit: int = 100
    users: tuple[tuple[str, str], ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()
    quota: tuple[tuple[str, str], ...] = ()
    global_write: int = 80
    semantic: Semantic = Semantic()
    reputation: str = "report"
    other: tuple[tuple[str, object], ...] = ()

    @property
    def ttls(self) -> dict[str, str]:
        return dict(self.ttl)

    @property
    def declared(self) -> tuple[str, ...]:
        """Return the namespaces that a plain list names, if there is one."""
        namespaces = dict(self.other).get("namespaces")
        return (
            tuple(str(glob) for glob in namespaces)
            if isinstance(namespaces, list)
            else ()
        )

    def size(self, name: str) -> int | None:
        """Return how many bytes `size_limits` allow to one of the names in SIZES; None is no
        limit."""
        return parse_size(dict(self.sizes).get(name, SIZES[name]))

    def daily(self, agent: str) -> int | None:
        """Return how many entries a day an agent should not exceed; None is no limit."""
        quotas = dict(self.quota)
        text = quotas.get(agent, quotas.get("default", "off"))
        return int(text) if text.isdigit() else None


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
                f"agent {agent.id}: {team!r} is not a valid team or department",
                id=agent.id,
            )
    for project in words(agent.projects):
        if not ns.is_namespace(f"status/{project}"):
            raise InvalidEntry(
                f"agent {agent.id}: {project!r} is not a valid project", id=agent.id
            )
    authority = role.authority if agent.authority is None else agent.authority
    if not 0 <= authority <= 100:
        raise InvalidEntry(
            f"agent {agent.id}: authority {authority} is not between 0 and 100",
            id=agent.id,
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


def settled_settings(settings: Settings) -> Settings:
    for glob, ttl in settings.ttl:
        ns.check_glob(glob)
        parse_ttl(ttl)
    parse_ttl(settings.staging_ttl)
    if not 0 <= settings.global_write <= 101:
        raise InvalidEntry(
            f"global_write {settings.global_write} is not between 0 and 100, or 101 for nobody"
        )
    return settings


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as `500KB`, `5 MB`, `64KiB` or a plain number; None is no
    limit (`off`)."""
    normalized = text.strip().upper()
    if normalized in ("OFF", "NONE", "NEVER"):
        return None
    number = normalized.rstrip("KMGIB ")
    unit = normalized[len(number) :].strip()
    if (
        not number.isascii()
        or not number.isdigit()
        or len(number) > 12
        or unit not in _UNITS
    ):
        raise InvalidEntry(
            f"size {text!r} is not valid: write a number and KB or MB, or off",
            size=text,
        )
    return int(number) * _UNITS[unit]


def authority_in(agent: Agent, namespace: str, flat: bool = False) -> int:
    """Return the agent's authority in a namespace: its skill's there, else its own; flat is 60 for
    all but a CTO."""
    skilled = [
        skill.authority
        for skill in agent.skills
        if ns.matches_any(skill.namespaces, namespace)
    ]
    if flat or not skilled:
        return general_authority(agent, flat)
    return _shifted(max(skilled), agent.shift)


def general_authority(agent: Agent, flat: bool = False) -> int:
    """Return the agent's authority where no skill gives it another."""
    return _shifted(
        (100 if agent.role == "cto" else 60) if flat else agent.rank, agent.shift
    )


def _shifted(authority: int, shift: int) -> int:
    return min(max(authority + shift, min(authority, LEAST)), max(authority, MOST))


def _globs(globs: Iterable[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return (
        default
        if globs is None
        else tuple(ns.check_glob(glob) for glob in words(globs))
    )


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
