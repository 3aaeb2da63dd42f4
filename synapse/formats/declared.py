"""The operator's files, agents/*.yaml and synapse.yaml, as values and back. Errors name the file
and the field.

An agent's file has the two blocks of the specification (`agent:`, `subscriptions:`), or all of it
flat. `keys` has every key there is. An unknown key of synapse.yaml is kept, and named; one of an
agent's file is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from synapse.errors import InvalidEntry, NewerProtocol
from synapse.formats.fields import FieldReader, load
from synapse.formats.keys import SETTINGS, Stray, agent_table, strays, without_extensions
from synapse.model import namespace as ns
from synapse.model.agents import Agent, Skill
from synapse.model.entry import parse_ttl
from synapse.model.settings import (
    EMBEDDERS,
    HOURLY,
    PROTOCOL,
    REPUTATION,
    SIZES,
    Semantic,
    Settings,
    parse_size,
)
from synapse.system import yaml
from synapse.system.extras import installation
from synapse.system.typed import T
from synapse.system.yaml import Fields, Value

_SETTINGS = frozenset(
    "protocol name workspace namespaces ttl authority staging users size_limits quota hourly"
    " global_write semantic"
    " reputation".split()
)


# -- agents ----------------------------------------------------------------------------------------


def render_agent(agent: Agent) -> str:
    """Return the file of an agent, in the two blocks of the specification."""
    who: Fields = {"id": agent.id, "name": agent.name, "role": agent.role}
    who |= {
        name: getattr(agent, name)
        for name in ("department", "engine", "model", "authority", "user")
    }
    who |= {"teams": list(agent.teams), "projects": list(agent.projects)}
    who["review_required"] = agent.review_required or None
    blocks: Fields = {
        "agent": {key: value for key, value in who.items() if value not in (None, [])}
    }
    globs = (("read", agent.read), ("write", agent.write), ("notify", agent.notify))
    blocks["subscriptions"] = {name: list(values) for name, values in globs if values is not None}
    skills: list[Value] = [
        {
            "domain": skill.domain,
            "level": skill.level,
            "namespaces": list(skill.namespaces),
            "authority": skill.authority,
        }
        for skill in agent.skills
    ]
    return yaml.dump(blocks | {"skills": skills} if skills else blocks)


def parse_agent(text: str, path: str = "") -> Agent:
    """Return the agent that a file declares, as far as the file goes: a role's rights are not
    filled in yet."""
    fields: Fields = load(text, path)
    reader = FieldReader(without_extensions(fields, agent_table()), path)
    reader.problems += [stray.text for stray in strays(fields, agent_table())]
    reader.unfold("agent")
    reader.unfold("subscriptions")
    skills = tuple(_skill(fields, path) for fields in reader.mappings("skills"))
    agent = Agent(
        id=reader.text("id") or "",
        role=reader.text("role") or "engineer",
        name=reader.text("name"),
        department=reader.text("department"),
        engine=reader.text("engine"),
        model=reader.text("model"),
        authority=reader.number("authority"),
        read=reader.many("read"),
        write=reader.many("write"),
        notify=("critical",) if (notify := reader.many("notify")) is None else notify,
        teams=reader.many("teams") or (),
        projects=reader.many("projects") or (),
        skills=skills,
        review_required=reader.flag("review_required"),
        user=reader.text("user"),
    )
    if not agent.id:
        reader.problems.append("id is missing")
    reader.finish()
    return agent


def _skill(fields: Fields, path: str) -> Skill:
    reader = FieldReader(fields, path, "skills: ")
    authority, globs = reader.number("authority"), reader.many("namespaces")
    domain, level = reader.text("domain") or "", reader.text("level")
    if not domain or authority is None or not globs:
        reader.problems.append("skills: each needs domain, namespaces and authority")
    reader.finish()
    return Skill(domain, authority or 0, globs or (), level or "proficient")


# -- settings --------------------------------------------------------------------------------------


def render_settings(settings: Settings) -> str:
    fields: Fields = {"protocol": settings.protocol, "name": settings.name}
    fields |= {"authority": "flat"} if settings.flat else {}
    fields |= {"ttl": dict(settings.ttl)} if settings.ttl else {}
    fields["staging"] = {"ttl": settings.staging_ttl, "limit": settings.staging_limit}
    blocks = (
        ("users", settings.users),
        ("size_limits", settings.sizes),
        ("quota", settings.quota),
        ("hourly", settings.hourly),
    )
    fields |= {name: dict(pairs) for name, pairs in blocks if pairs}
    fields |= (
        {"global_write": settings.global_write}
        if settings.global_write != Settings().global_write
        else {}
    )
    if settings.semantic != Semantic():
        semantic: Fields = {
            name: value
            for name, value in settings.semantic._asdict().items()
            if value and name != "search"
        }
        semantic |= {} if settings.semantic.search else {"search": False}
        fields["semantic"] = semantic
    fields |= {} if settings.reputation == REPUTATION[0] else {"reputation": settings.reputation}
    for key, value in settings.other:
        fields[key] = value  # type: ignore[assignment]
    return yaml.dump(fields)


def parse_settings(text: str, path: str = "") -> Settings:
    """Return the settings in a synapse.yaml; InvalidEntry lists the values that cannot be. Keys
    that are not known are kept. NewerProtocol where its `protocol` is beyond what is known here.
    """
    settings, problems = _settings(load(text, path), path, Settings())
    if problems:
        texts = [problem.text for problem in problems]
        raise InvalidEntry(
            f"{path}: {'; '.join(texts)}" if path else "; ".join(texts), path=path, problems=texts
        )
    return settings


def read_settings(text: str, path: str, last: Settings) -> tuple[Settings, tuple[Stray, ...]]:
    """Return the settings as far as they can be read, and what is wrong: where a value cannot be,
    the one of the last good settings holds, and where the text cannot be read, all of them do.
    """
    try:
        fields = load(text, path)
    except InvalidEntry as error:
        return last, (Stray("", str(error).removeprefix(f"{path}: ")),)
    settings, problems = _settings(fields, path, last)
    return settings, (*problems, *strays(fields, SETTINGS))


def read_protocol(text: str, path: str) -> int:
    """Return what the line `protocol:` says; InvalidEntry or NewerProtocol where it is none that is
    known here.
    """
    fields = load(text, path)
    reader = FieldReader(fields, path)
    protocol = _protocol(fields.get("protocol"), reader)
    reader.finish()
    return protocol


def _settings(fields: Fields, path: str, last: Settings) -> tuple[Settings, list[Stray]]:
    """Return the settings, with those of `last` where a value cannot be, and what is wrong with
    which key.
    """
    problems: list[Stray] = []
    fields = without_extensions(fields, SETTINGS)

    def read_key(key: str, read: Callable[[FieldReader], T], otherwise: T) -> T:
        reader = FieldReader(fields, path)
        value = read(reader)
        problems.extend(Stray(key, problem) for problem in reader.problems)
        return otherwise if reader.problems else value

    default = Settings()
    settings = Settings(
        protocol=read_key(
            "protocol", lambda reader: _protocol(fields.get("protocol"), reader), last.protocol
        ),
        name=read_key(
            "name",
            lambda reader: reader.text("name") or reader.text("workspace") or default.name,
            last.name,
        ),
        ttl=read_key("ttl", _ttls, last.ttl),
        flat=read_key("authority", _flat, last.flat),
        staging_ttl=read_key("staging", lambda reader: _staging(reader)[0], last.staging_ttl),
        staging_limit=read_key("staging", lambda reader: _staging(reader)[1], last.staging_limit),
        users=read_key("users", lambda reader: reader.pairs("users"), last.users),
        sizes=read_key("size_limits", _sizes, last.sizes),
        quota=read_key("quota", _quota, last.quota),
        hourly=read_key("hourly", _hourly, last.hourly),
        global_write=read_key("global_write", _global_write, last.global_write),
        semantic=read_key(
            "semantic", lambda reader: _semantic(fields.get("semantic"), reader), last.semantic
        ),
        reputation=read_key("reputation", _reputation, last.reputation),
        other=tuple(  # only kept; a plain list of namespaces declares nothing here
            (key, value)
            for key, value in fields.items()
            if key not in _SETTINGS or (key == "namespaces" and isinstance(value, list))
        ),
    )
    return settings, list(dict.fromkeys(problems))


def _ttls(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    block = reader.pairs("namespaces") if isinstance(reader.fields.get("namespaces"), dict) else ()
    pairs = tuple(dict((*block, *reader.pairs("ttl"))).items())
    reader.check(Settings(ttl=pairs))
    return pairs


def _flat(reader: FieldReader) -> bool:
    authority = reader.text("authority") or "roles"
    if authority not in ("flat", "roles"):
        reader.problems.append(f"authority {authority!r} is not valid: write flat or roles")
    return authority == "flat"


def _staging(reader: FieldReader) -> tuple[str, int]:
    block = FieldReader(
        reader.fields.get("staging") or {}, reader.path, "staging: ", reader.problems
    )
    default = Settings()
    values = (
        block.text("ttl") or default.staging_ttl,
        _or(block.number("limit"), default.staging_limit),
    )
    reader.check(Settings(staging_ttl=values[0]))
    return values


def _global_write(reader: FieldReader) -> int:
    authority = _or(reader.number("global_write"), Settings().global_write)
    reader.check(Settings(global_write=authority))
    return authority


def _semantic(value: Value, above: FieldReader) -> Semantic:
    if value is None:
        return Semantic()
    reader = FieldReader(value, above.path, "semantic: ", above.problems)
    unknown = [name for name in reader.fields if name not in Semantic._fields]
    if "folder" in unknown:
        reader.problems.append(
            "semantic: folder names no weights any more: `embedder: local` has its own, from the"
            f" extra `semantic` ({installation('semantic')}); take the line out"
        )
    elif unknown:
        reader.problems.append(
            f"semantic: {', '.join(unknown)} is not known; {', '.join(Semantic._fields)} are"
        )
    embedder = reader.text("embedder") or ""
    if embedder and embedder not in EMBEDDERS:
        reader.problems.append(
            f"semantic: embedder {embedder!r} is not one of {', '.join(EMBEDDERS)}"
        )
    names = {name: reader.text(name) or None for name in ("model", "url", "key")}
    return Semantic(
        embedder, **names, search=reader.fields.get("search") is None or reader.flag("search")
    )


def _sizes(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    """Return the size limits: `size_limits: off`, or a block of known names and globs of
    namespaces."""
    if _off(reader.fields.get("size_limits")):
        return tuple((name, "off") for name in SIZES)
    pairs = reader.pairs("size_limits")
    for name, text in pairs:
        try:
            if name == "archive_retention":
                parse_ttl(text)  # taken note of: the archive keeps everything
            else:
                ns.check_glob(name)
                parse_size(text)
        except InvalidEntry as error:
            reader.problems.append(f"size_limits: {error}")
    return pairs


def _quota(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    """Return the entries a day: `quota: 200` for each agent, or a block of agents, `default` for
    the others."""
    value = reader.fields.get("quota")
    if value is None or _off(value):
        return ()
    pairs = reader.pairs("quota") if isinstance(value, dict) else (("default", str(value)),)
    for name, text in pairs:
        if not (_off(text) or (text.isascii() and text.isdigit() and len(text) < 10)):
            reader.problems.append(
                f"quota: {name}: {text!r} is not valid: write entries a day, or off"
            )
    return pairs


def _hourly(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    """Return what one author may write in an hour."""
    pairs = reader.pairs("hourly")
    for name, text in pairs:
        if name not in HOURLY:
            continue  # told of as a key that is not known
        try:
            parse_size(text)
        except InvalidEntry as error:
            reader.problems.append(f"hourly: {name}: {error}")
    return pairs


def _reputation(reader: FieldReader) -> str:
    value = reader.fields.get("reputation")
    mode = (
        "on"
        if value is True
        else "off"
        if value is False
        else reader.text("reputation") or REPUTATION[0]
    )
    if mode not in REPUTATION:
        reader.problems.append(f"reputation {mode!r} is not valid: write {', '.join(REPUTATION)}")
        return REPUTATION[0]
    return mode


def _off(value: Value) -> bool:
    return value is False or (isinstance(value, str) and value.lower() in ("off", "none", "never"))


def _protocol(value: Value, reader: FieldReader) -> int:
    """Return the protocol's number. `protocol: synapse`, or none, is the specification's own
    workspace, older than ours."""
    if value is None or value == "synapse":
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        reader.problems.append(f"protocol {value!r} is not a number")
        return 0
    if value > PROTOCOL:
        raise NewerProtocol(
            f"{reader.where}protocol {value} is newer than {PROTOCOL}, the newest known here:"
            " upgrade synapse-orchestrator to open this workspace; nothing was changed",
            path=reader.path,
            protocol=value,
            known=PROTOCOL,
        )
    return value


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
