"""Entry files as values and back: front matter and a body, in the three generations of the format.

    A   the technical specification: `from`, `to`, `timestamp`; what is written
    B   the white paper: `related`, `authority`, `ttl: permanent`
    C   the hosted API: `from_agent`, `content`, `created_at`, five priorities; also one JSON object

Only the form is judged here, never who may write what. YAML is imported where something unusual has
to be read, not before. Agents and settings, the other YAML, are in `declared`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from operator import itemgetter

from synapse.errors import InvalidEntry
from synapse.formats import front_matter, hosted_api
from synapse.formats.declared import parse_agent as parse_agent
from synapse.formats.declared import parse_settings as parse_settings
from synapse.formats.declared import render_agent as render_agent
from synapse.formats.declared import render_settings as render_settings
from synapse.formats.front_matter import MAX_FRONT
from synapse.model import clock, kinds
from synapse.model import namespace as ns
from synapse.model.entry import (
    NEVER,
    PRIORITIES,
    SCOPES,
    Draft,
    Entry,
    addressees,
    is_id,
    one_or_many,
    parse_ttl,
)
from synapse.model.entry_fields import FIELDS, LISTS
from synapse.model.records import canonical_body
from synapse.system.typed import Any, NamedTuple
from synapse.system.yaml import Fields, flow, quoted

MAX_TEXT = 2 << 20
GENERATIONS = ("A", "B", "C")

_PRIORITIES = frozenset(PRIORITIES)
_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))
_COMMON = frozenset("id from to timestamp namespace priority ttl tags".split())
_KEYS = frozenset((*(field.key for field in FIELDS if field.key), *kinds.known_names()))
_TIME = re.compile(
    r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{6})?Z"
)
_SPAN = re.compile(r"[1-9][0-9]{0,8}[smhdw]")
_ID = "the id of an entry, such as syn-2026-02-01-001"


class Parsed(NamedTuple):
    """A text as it was read. `start` is where the body begins in the text; 0 where it is not the
    tail."""

    draft: Draft
    generation: str
    start: int


def parse(text: str | bytes, *, path: str = "", namespace: str | None = None) -> Parsed:
    """Return the draft in a text of any generation, or InvalidEntry with all its problems.

    `namespace` is the one that the text's place implies: it fills a missing field, any other is a
    problem. Bytes are decoded as UTF-8; a byte order mark stays the first character. An id that is
    not of an entry's form is left out of the draft.
    """
    decoded = _decode(text, path)
    fields, start = front_matter.flat(decoded, _KEYS) or _reference(decoded, path)
    return _read(decoded, fields, start, path, namespace)


def _decode(text: str | bytes, path: str) -> str:
    if len(text) > MAX_TEXT:
        raise _invalid([f"the file is longer than {MAX_TEXT >> 20} MiB"], path)
    try:
        decoded = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise _invalid([f"not UTF-8: byte {error.start} cannot be read"], path) from None
    if "\0" in decoded:
        raise _invalid([f"a NUL character at {decoded.index(chr(0))}"], path)
    return decoded


def _reference(text: str, path: str) -> tuple[Fields, int]:
    try:
        return front_matter.reference(text)
    except InvalidEntry as error:
        raise _invalid([str(error)], path) from None


def _invalid(problems: Iterable[str], path: str = "") -> InvalidEntry:
    listed = list(problems)
    message = (f"{path}: " if path else "") + "; ".join(listed)
    return InvalidEntry(message, path=path, problems=listed)


# -- from fields to a draft ------------------------------------------------------------------------


def _read(text: str, fields: Fields, start: int, path: str, namespace: str | None) -> Parsed:
    problems: list[str] = []
    body = canonical_body(text[start:])
    generation = _generation(fields, body)
    if generation == "C":
        content = fields.get("content")
        if isinstance(content, str) and not body:
            start, body = 0, canonical_body(content)
        fields = hosted_api.from_api(fields, problems)
    if not body:
        problems.append("the body is empty")
    draft = _draft(fields, body, namespace, problems)
    if problems:
        raise _invalid(problems, path)
    return Parsed(draft, generation, start)


def _generation(fields: Fields, body: str) -> str:
    if "from_agent" in fields or "created_at" in fields or ("content" in fields and not body):
        return "C"
    if "to" in fields:
        return "A"
    old = (
        "related" in fields
        or "authority" in fields
        or "pii" in fields
        or fields.get("ttl") == "permanent"
    )
    return "B" if old else "A"


def _draft(fields: Fields, body: str, namespace: str | None, problems: list[str]) -> Draft:
    get = fields.get
    author, timestamp, id = get("from"), get("timestamp"), get("id")
    if not isinstance(author, str) or not ns.is_component(author):
        problems.append(
            _wrong("from", author, "an agent's id of a-z, 0-9, '_' and '-', such as eng-backend")
        )
    if not isinstance(timestamp, str) or not _is_time(timestamp):
        problems.append(_wrong("timestamp", timestamp, "a time such as 2026-02-01T01:00:00Z"))
    draft = Draft(
        body,
        _namespace(get("namespace"), namespace, problems),
        str(author),
        _priority(get("priority"), problems),
        _ttl(get("ttl"), problems),
        _addressees(get("to"), problems),
        _words(get("tags"), "tags", problems),
        timestamp=str(timestamp),
        id=id if isinstance(id, str) and is_id(id) else None,
    )
    return draft if _COMMON.issuperset(fields) else _complete(draft, fields, problems)


def _complete(draft: Draft, fields: Fields, problems: list[str]) -> Draft:
    """Return the draft with the fields that few entries have."""
    kind, extra = kinds.read(fields, problems)
    rare = {name: read(fields[key], key, problems) for key, name, read in _RARE if key in fields}
    return draft._replace(kind=kind, more=kinds.frozen(extra), **rare)


def _wrong(name: str, value: object, want: str) -> str:
    if value is None:
        return f"{name} is missing: write {want}"
    shortened = ascii(value)
    return (
        f"{name} {shortened if len(shortened) <= 80 else shortened[:80] + '…'} is not"
        f" valid: write {want}"
    )


def _namespace(value: object, implied: str | None, problems: list[str]) -> str:
    if value is None or value == implied:
        return implied or ""
    if not isinstance(value, str) or not ns.is_namespace(value):
        want = f"up to {ns.MAX_LEVELS} names of a-z, 0-9, '_' and '-', joined by '/'"
        problems.append(_wrong("namespace", value, want))
    elif implied is not None:
        problems.append(f"namespace {value} does not fit the place of the file, which is {implied}")
    return str(value)


def _priority(value: object, problems: list[str]) -> str:
    name = value if isinstance(value, str) else ""
    if name not in _PRIORITIES and (name := name.strip().lower()) not in _PRIORITIES:
        problems.append(_wrong("priority", value, f"one of {', '.join(PRIORITIES)}"))
    return name


def _is_time(text: str) -> bool:
    if _TIME.fullmatch(text):
        return True
    from datetime import datetime

    try:
        return bool(datetime.fromisoformat(text.strip()))
    except ValueError:
        return False


def _ttl(value: object, problems: list[str]) -> str | None:
    if value is None:
        return None
    span = str(value).strip().lower()
    if _SPAN.fullmatch(span):
        return span
    try:
        if isinstance(value, str):
            return "never" if parse_ttl(span) is None else span
    except InvalidEntry:
        pass
    problems.append(_wrong("ttl", value, "a number and s, m, h, d or w, such as 7d, or never"))
    return None


def _addressees(value: object, problems: list[str]) -> tuple[str, ...]:
    if value is None or value == "all":
        return ("all",)
    try:
        return addressees(_words(value, "to", problems) or None)
    except InvalidEntry as error:
        problems.append(str(error))
    return ("all",)


def _words(value: object, name: str, problems: list[str]) -> tuple[str, ...]:
    """Return a list, or the same as one text with commas, without empty words and repeats."""
    if value is None:
        return ()
    items = (
        value.split(",")
        if isinstance(value, str)
        else value
        if isinstance(value, list)
        else [value]
    )
    try:
        unique = dict.fromkeys([item.strip() for item in items if item])  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        problems.append(_wrong(name, value, "a list such as [one, two]"))
        return ()
    unique.pop("", None)
    if "\0" in "".join(unique):
        problems.append(f"{name} holds a NUL character")
    return tuple(unique)


def _ids(value: object, name: str, problems: list[str]) -> tuple[str, ...]:
    ids = _words(value, name, problems)
    problems += [_wrong(name, id, _ID) for id in ids if not is_id(id)][:5]
    return ids


def _text(value: object, name: str, problems: list[str]) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "\0" in value:
        problems.append(_wrong(name, value, "one text"))
    return str(value)


def _moments(value: object, name: str, problems: list[str]) -> str | None:
    """Return the text of one moment or several; a list of them is taken too."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    return _text(value, name, problems)


def _scope(value: object, name: str, problems: list[str]) -> str:
    scope = "public" if value is None else str(value).strip().lower()
    if scope not in SCOPES:
        problems.append(_wrong(name, value, f"one of {', '.join(SCOPES)}"))
    return scope


def _flag(value: object, name: str, problems: list[str]) -> bool:
    flag = "false" if value is None else str(value).strip().lower()
    if flag not in _TRUE | _FALSE:
        problems.append(_wrong(name, value, "true or false"))
    return flag not in _FALSE


# How the fields that few entries have are read, by their forms.
_READERS: dict[str, Callable[[object, str, list[str]], Any]] = {
    "ids": _ids,
    "one or more ids": _ids,
    "text": _text,
    "moments": _moments,
    "proof": _text,
    "scope": _scope,
    "flag": _flag,
}
_RARE = tuple(
    (field.key, field.name, _READERS[field.form])
    for field in FIELDS
    if field.key and field.form in _READERS
)


# -- writing ---------------------------------------------------------------------------------------


def render(entry: Entry) -> str:
    """Return the text of an entry, generation A; InvalidEntry where its fields are too long to be
    read back."""
    front = (
        f"---\nid: {quoted(entry.id)}\nfrom: {quoted(entry.author)}\n"
        f"to: {_one_or_more(entry.addressees)}\n"
        f"timestamp: {_time(entry.timestamp)}\nnamespace: {quoted(entry.namespace)}\n"
        f"priority: {entry.priority}\nttl: {_span(entry.ttl)}\n"
    )
    for key, name, write in _OPTIONAL:
        value = getattr(entry, name)
        if value:
            front += f"{key}: {write(value)}\n"
    front += f"scope: {quoted(entry.scope)}\n" if entry.scope != "public" else ""
    if entry.kind != kinds.ENTRY:
        front += kinds.lines(entry.kind, entry.more)
    return _close(front, entry.body)


def _one_or_more(values: tuple[str, ...]) -> str:
    return quoted(values[0]) if len(values) == 1 else flow(values)


# How what may be left out is written, by its form: lists first, then texts.
_WRITERS: dict[str, Callable[[Any], str]] = {
    "words": flow,
    "one or more ids": _one_or_more,
    "ids": flow,
    "text": quoted,
    "moments": quoted,
    "proof": quoted,
}
_WRITTEN = [field for field in FIELDS if field.key and field.form in _WRITERS]
_OPTIONAL = tuple(
    (field.key, field.name, _WRITERS[field.form])
    for field in sorted(_WRITTEN, key=lambda field: field.name not in LISTS)
)


def _close(front: str, body: str) -> str:
    if len(front) > MAX_FRONT // 4 and len(front.encode(errors="replace")) - 4 > MAX_FRONT:
        raise InvalidEntry(
            f"tags, references and texts beside the body pass {MAX_FRONT >> 10} KiB together"
        )
    return f"{front}---\n\n{body}\n"


def _time(text: str) -> str:
    return text if _TIME.fullmatch(text) else quoted(text)


def _span(ttl: str) -> str:
    return ttl if _SPAN.fullmatch(ttl) else quoted(ttl)


def render_as(entry: Entry, generation: str) -> str:
    """Return an entry for another reader: front matter of generation A or B, or the JSON object of
    C.

    B knows no addressee, topic or scope; C only author, body, time, namespace, priority, tags and
    ttl.
    """
    if generation in ("A", "B"):
        return render(entry) if generation == "A" else _white_paper(entry)
    if generation != "C":
        raise InvalidEntry(f"generation {generation!r} is not one of {', '.join(GENERATIONS)}")
    return json.dumps(hosted_api.to_api(entry), ensure_ascii=False)


def _white_paper(entry: Entry) -> str:
    ttl = "permanent" if parse_ttl(entry.ttl) is None else _span(entry.ttl)
    front = (
        f"---\nid: {quoted(entry.id)}\nfrom: {quoted(entry.author)}\ntimestamp:"
        f" {_time(entry.timestamp)}\n"
        f"namespace: {quoted(entry.namespace)}\npriority: {entry.priority}\nttl: {ttl}\n"
        f"tags: {flow(entry.tags)}\nrelated: {flow(entry.related)}\n"
    )
    front += f"supersedes: {_one_or_more(entry.replaces)}\n" if entry.replaces else ""
    front += f"authority: {quoted(entry.claim)}\n" if entry.claim else ""
    return _close(front, entry.body)


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as `--json` prints it: every field, under the names of the specification."""
    form = dict(zip(_WIRES, _in_order(entry), strict=True))
    for wire, convert in _CONVERTED:
        form[wire] = convert(form[wire])
    return form


def _one_or_list(values: tuple[str, ...]) -> str | list[str] | None:
    value = one_or_many(values)
    return list(value) if isinstance(value, tuple) else value


def _end(moment: int) -> str | None:
    return clock.iso(moment) if moment < NEVER else None


# What JSON has in another form than the entry.
_TO_JSON: dict[str, Callable[[Any], Any]] = {
    "names": _one_or_list,
    "one or more ids": _one_or_list,
    "words": list,
    "ids": list,
    "list": list,
    "moment": clock.iso,
    "end": _end,
}
_SHOWN = [field for field in FIELDS if field.name in Entry._fields]
_WIRES = [field.wire for field in _SHOWN]
_in_order = itemgetter(*(Entry._fields.index(field.name) for field in _SHOWN))
_CONVERTED = [(field.wire, _TO_JSON[field.form]) for field in _SHOWN if field.form in _TO_JSON]
