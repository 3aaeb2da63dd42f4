"""The schema of each kind of record: which fields its readers count on, and their form. Pure.

A line of the journal may come from anywhere: by git, in a copy, in an export. `misfit` is asked
where a line becomes a record; one that does not fit is set aside. No reader counts on a kind or a
field that is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synapse.errors import InvalidEntry
from synapse.model import kinds
from synapse.model.agents import RESERVED, Agent, Skill, settled
from synapse.model.entry import RANK, parse_ttl
from synapse.model.entry_fields import LISTS, names_of
from synapse.model.namespace import is_component
from synapse.system.typed import Any

_LARGEST = 1 << 62  # of a number that a column of the index holds
_SPANS = set[str]()  # the times to live that were met
Form = Callable[[Any], bool]
Fields = Mapping[str, Any]


def _text(value: Any) -> bool:
    return type(value) is str


def _word(value: Any) -> bool:
    return value is None or type(value) is str


def _number(value: Any) -> bool:
    return type(value) is int and -_LARGEST < value < _LARGEST


def _real(value: Any) -> bool:
    return type(value) is float or _number(value)


def _flag(value: Any) -> bool:
    return type(value) is bool


def _map(value: Any) -> bool:
    return type(value) is dict


def _was(value: Any) -> bool:
    return value is None or type(value) is dict


def _texts(value: Any) -> bool:
    return type(value) is list and all(type(item) is str for item in value)


def _numbers(value: Any) -> bool:
    return type(value) is list and all(map(_number, value))


def _maps(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict for item in value)


def _counts(value: Any) -> bool:
    return type(value) is dict and all(map(_number, value.values()))


def _holds(value: Any) -> bool:
    """Return whether these are places, each with whether it stands."""
    return type(value) is list and all(
        type(item) is list and len(item) == 2 and _number(item[0]) and _flag(item[1])
        for item in value
    )


def _given_up(value: Any) -> bool:
    """Return whether these are stretches of the journal: first and last record, and a digest."""
    return type(value) is list and all(
        type(item) is list and len(item) == 3 and _numbers(item[:2]) and _text(item[2])
        for item in value
    )


def _origin(value: Any) -> bool:
    return type(value) is dict and _fits(value, {"chain": _word, "at": _number, "id": _word})


def _ttl(value: Any) -> bool:
    if type(value) is not str:
        return False
    if value not in _SPANS:
        try:
            parse_ttl(value)
        except InvalidEntry:
            return False
        if len(_SPANS) < 1_000:
            _SPANS.add(value)
    return True


def _priority(value: Any) -> bool:
    return type(value) is str and value in RANK


def _kind(value: Any) -> bool:
    return type(value) is str and value in kinds.FIELDS


def _agent(value: Any) -> bool:
    """Return whether a mapping declares an agent, as a file in `agents/` could."""
    if type(value) is not dict or not _fits(value, _AGENT) or not _text(value.get("id")):
        return False
    values = {name: value[name] for name in Agent._fields if name in value}
    try:
        values["skills"] = tuple(_skill(skill) for skill in values.get("skills") or ())
        settled(Agent(**values))
    except (InvalidEntry, TypeError):
        return False
    return True


def _names(id: object) -> bool:
    return type(id) is str and is_component(id) and id not in RESERVED


def _skill(value: Any) -> Skill:
    skill = Skill(*value)
    if not (_text(skill.domain) and _number(skill.authority) and _text(skill.level)):
        raise TypeError(value)
    if not _texts(skill.namespaces):
        raise TypeError(value)
    return skill


def _fits(fields: Fields, forms: Mapping[str, Form]) -> bool:
    return all(forms[name](value) for name, value in fields.items() if name in forms)


_AGENT: Mapping[str, Form] = {
    **dict.fromkeys(("id", "role"), _text),
    **dict.fromkeys(("name", "department", "engine", "model", "user"), _word),
    "authority": lambda value: value is None or _number(value),
    **dict.fromkeys(("read", "write"), lambda value: value is None or _texts(value)),
    **dict.fromkeys(("notify", "teams", "projects"), _texts),
    "skills": lambda value: type(value) is list and all(type(item) is list for item in value),
    "review_required": _flag,
}
# Of every kind: guards, pages and sentences read them by name, whatever the record is.
_EVERY: dict[str, Form] = {
    **dict.fromkeys(("ids", "away", "back", "freed", "held", "heirs", "lost", "notes"), _texts),
    **dict.fromkeys(("amount", "epoch", "cursor", "until"), _number),
    **dict.fromkeys("entry run state status how reason night phase intent".split(), _word),
    **dict.fromkeys("project parent root holder subject trust".split(), _word),
    **dict.fromkeys(("agent",), _text),
    "features": _texts,
    "origin": _origin,
    "was": _was,
    "holds": _holds,
    "reviews": _holds,
}
_ENTRY: Mapping[str, Form] = {
    **dict.fromkeys(LISTS, _texts),
    **dict.fromkeys(names_of("text", "moments", "proof", "word or none"), _word),
    **dict.fromkeys(("author", "timestamp", "namespace", "scope", "trust"), _text),
    "priority": _priority,
    "ttl": _ttl,
    "authority": _number,
    "start": _number,
    "staged": _flag,
    "kind": _kind,
    "more": _map,
    "body": _text,
    "derived_from": _texts,
}
_OF_KIND: dict[str, Mapping[str, Form]] = {
    "agent": {"agent": _agent, "sha": _word},
    "entry": _ENTRY,
    "approve": {"entry": _text, "ttl": _ttl, "trust": _text},
    "vouch": {"entry": _text, "authority": _number, "trust": _text, "priority": _priority},
    **{kind: {"entry": _text} for kind in ("reject", "resolve", "taint", "redact", "share")},
    "untaint": {"entry": _word},
    "undo": {"what": _text, "acts": _numbers},
    "void": {"seq": _number},
    "run": {"run": _text, "intent": _text},
    "delivery": {"state": _text},
    "link": {"cause": _text, "effect": _text, "type": _text, "strength": _real},
    "used": {"counts": _counts},
    "acked": {"entry": _text, "body": _word},
    "react": {"entry": _text, "reaction": _text, "end": _flag},
    "thread": {"thread": _text, "how": _text, "add": _texts, "remove": _texts}
    | {"closed": lambda value: value is None or _flag(value)},
    "repair": {"lines": _given_up, "aside": _numbers},
    "review": {"moves": _counts, "since": _number, "until": _number, "steps": _maps},
    "night": {"state": _text, "job": _text},
    "claim": {"work": _text, "end": _flag},
    "merged": {"ids": _map},
    "limit": {"limit": _text, "most": _number},
    "refused": {"what": _text},
    "malformed": {"kind": _text, "why": _text},
}
_DEMANDED: Mapping[str, tuple[str, ...]] = {
    "agent": ("agent",),
    "entry": ("author", "namespace", "timestamp", "priority", "ttl"),
    **dict.fromkeys(("approve", "reject", "vouch", "resolve", "redact", "acked"), ("entry",)),
    **dict.fromkeys(("archive", "restore", "taint", "untaint", "receipt"), ("ids",)),
    "undo": ("what",),
    "void": ("seq",),
    "run": ("run",),
    "delivery": ("state",),
    "link": ("cause", "effect", "type", "strength"),
    "used": ("counts",),
    "react": ("entry", "reaction"),
    "thread": ("thread", "how"),
    "review": ("moves", "since", "until", "steps"),
    "night": ("state", "job"),
    "claim": ("work",),
    "malformed": ("kind", "why"),
}
_FORMS = {kind: {**_EVERY, **forms} for kind, forms in _OF_KIND.items()}


def misfit(kind: str, id: str | None, fields: Fields) -> str | None:
    """Return why the fields are none of a record of this kind; None where they are."""
    for name in _DEMANDED.get(kind, ()):
        if name not in fields:
            return f"`{name}` is missing"
    forms = _FORMS.get(kind, _EVERY)
    for name, value in fields.items():
        if name in forms and not forms[name](value):
            if kind == name == "agent" and _map(value) and not _names(value.get("id")):
                return f"{value.get('id')!r:.80} is no name of an agent"
            return f"`{name}` is not what it has to be"
    if kind == "entry":
        return _misfit_entry(id, fields)
    if kind in ("shown", "delivery") and not ("ids" in fields or "cursor" in fields):
        return "`ids` and `cursor` are missing"
    return None


def _misfit_entry(id: str | None, fields: Fields) -> str | None:
    """Return what an entry lacks as a whole."""
    if id is None:
        return "it has no id"
    kind, more = fields.get("kind", kinds.ENTRY), fields.get("more") or {}
    if kind == kinds.MESSAGE and "thread" not in more:
        return "`thread` is missing"
    for name, form in kinds.FIELDS[kind].items() if more else ():
        if name in more and not _MORE[form](more[name]):
            return f"`{name}` is not what it has to be"
    return None


_MORE: Mapping[str, Form] = {
    "text": _text,
    "id": _text,
    "list": _texts,
    "number": _real,
    "json": lambda _: True,
}
