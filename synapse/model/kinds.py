"""The kinds of entries: the fields, the ids and the folder of each. Pure.

A message, a fact and an atom are entries with a `kind` and with fields of their own (`more`). Only
fields in `FIELDS` are known: an unknown one in a dropped file is ignored, as it is in an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.system.digest import sha256
from synapse.system.typed import Any

ENTRY, MESSAGE, FACT, ATOM = KINDS = ("entry", "message", "fact", "atom")
# what the index calls them
NUMBER = {name: number for number, name in enumerate(KINDS)}
MAIL = "mail"  # the one namespace of all messages, and of nothing else
# The words for a message's priority, and the tier that each is delivered as.
URGENCY = {"info": "info", "normal": "info", "action": "important", "urgent": "critical"}
# The fields of each kind: one text, one id, a list of words, a number from 0 on, or any JSON.
FIELDS: Mapping[str, Mapping[str, str]] = {
    ENTRY: {},
    MESSAGE: {
        "thread": "text",
        "parent": "id",
        "subject": "text",
        "urgency": "text",
        "attachments": "json",
        "metadata": "json",
    },
    FACT: {
        "categories": "list",
        "importance": "number",
        "confidence": "number",
        "source": "text",
        "cites": "list",
    },
    ATOM: {
        "subject": "text",
        "action": "text",
        "outcome": "text",
        "consequences": "text",
        "confidence": "number",
        "source": "text",
        "cites": "list",
    },
}
_ANY = frozenset(name for fields in FIELDS.values() for name in fields)
_PREFIX = {"syn_": MESSAGE, "fact_": FACT, "atom_": ATOM}
_HEX = frozenset("0123456789abcdef")
_ENTRY_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class More(dict[str, Any]):
    """The fields that a kind has of its own. It cannot be changed and has a hash, as an entry
    needs; lists in it are tuples."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[More], tuple[dict[str, Any]]]:
        return More, (dict(self),)

    def _fixed(self, *_: object, **__: object) -> Any:
        raise TypeError("the fields of an entry do not change")

    __setitem__ = __delitem__ = __ior__ = _fixed
    clear = pop = popitem = setdefault = update = _fixed


NO_MORE = More()


def frozen(value: Any) -> Any:
    """Return a JSON value as one that cannot change."""
    if isinstance(value, Mapping):
        return More({str(name): frozen(item) for name, item in value.items()}) if value else NO_MORE
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


# -- ids and places --------------------------------------------------------------------------------


def is_id(text: str) -> bool:
    """Return whether the text can be the id of an entry of any kind, in any of the three
    generations of the format."""
    if text.startswith("syn-"):
        return 5 <= len(text) <= 80 and _ENTRY_ID.issuperset(text)
    return kind_of(text) is not None


def kind_of(id: str) -> str | None:
    """Return the kind whose ids look like this one."""
    if id.startswith("syn-"):
        return ENTRY if is_id(id) else None
    head, mark, digits = id.partition("_")
    kind = _PREFIX.get(head + mark)
    return kind if kind and len(digits) == 12 and _HEX.issuperset(digits) else None


def new_id(kind: str, random: bytes) -> str:
    """Return an id of this kind from six random bytes."""
    return next(prefix for prefix, of in _PREFIX.items() if of == kind) + random[:6].hex()


def new_thread(random: bytes) -> str:
    """Return a thread's id, in the form of a random UUID, from sixteen random bytes."""
    raw = bytearray(random[:16])
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "thr_" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def thread_from(name: str) -> str:
    """Return the id here of a thread that has another name: one that was taken over keeps none but
    this.
    """
    return name if is_thread(name) else new_thread(bytes.fromhex(sha256(name.encode())))


def is_thread(text: str) -> bool:
    groups = text.removeprefix("thr_").split("-")
    return (
        text.startswith("thr_")
        and list(map(len, groups)) == [8, 4, 4, 4, 12]
        and _HEX.issuperset("".join(groups))
    )


def place(id: str, fields: Mapping[str, Any], top: str | None = None) -> str:
    """Return the path of an entry's file, by the fields of its record: while it is live, or in the
    same folder below another `top` one. InvalidEntry where what they say is no place for a file:
    a record may come from anywhere.
    """
    if not isinstance(id, str) or not is_id(id):
        raise InvalidEntry(f"{id!r} is not the id of an entry: it names no file")
    if top is not None:
        return f"{top}/{ns.check(fields['namespace'])}/{id}.md"
    return f"{folder_of(fields)}/{id}.md"


def folder_of(fields: Mapping[str, Any]) -> str:
    """Return the folder of a live entry's file, by the fields of its record: that of its kind, and
    in it that of its namespace or thread. InvalidEntry where they name none.
    """
    kind, namespace = fields.get("kind", ENTRY), fields.get("namespace")
    if kind == MESSAGE:
        folder = f"messages/{fields.get('more', NO_MORE).get('thread')}"
    elif kind in FIELDS:
        folder = f"{'entries' if kind == ENTRY else 'knowledge'}/{namespace}"
    else:
        raise InvalidEntry(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    if not is_folder(folder) or folder.endswith("/"):
        raise InvalidEntry(f"{folder!r} is no folder of entries: no file is put there")
    return folder


def given(path: str, fields: Mapping[str, Any]) -> str:
    """Return the path that a dropped file had, if a file of such an entry may stand there: in the
    folder of its kind and namespace, under a name that ends in .md and is not hidden.
    """
    folder, _, name = path.rpartition("/")
    own = folder_of(fields)
    if folder != own or not name.endswith(".md") or name[0] == "." or "\0" in name:
        raise InvalidEntry(
            f"{path!r} is no place for its file, which is {own}/NAME.md: it is not put there"
        )
    return path


def of_folder(folder: str) -> tuple[tuple[str, ...], str, str | None]:
    """Return what may stand in a folder of files: the kinds, the namespace, and for messages the
    thread."""
    top, _, inner = folder.partition("/")
    if top == "messages":
        return (MESSAGE,), MAIL, inner
    return (ENTRY,) if top == "entries" else (FACT, ATOM), inner, None


# -- their own fields ------------------------------------------------------------------------------


def check(kind: str, namespace: str, more: Mapping[str, Any], priority: str) -> More:
    """Return the fields of a kind in their canonical form; InvalidEntry says what is wrong with
    them, or with the namespace."""
    if not isinstance(kind, str) or kind not in FIELDS:
        raise InvalidEntry(f"kind {kind!r} is not one of {', '.join(KINDS)}", kind=kind)
    if (kind == MESSAGE) != (namespace.partition("/")[0] == MAIL) or (
        kind == MESSAGE and namespace != MAIL
    ):
        raise InvalidEntry(
            f"messages stand in the namespace {MAIL}, and nothing else does", namespace=namespace
        )
    forms = FIELDS[kind]
    for name in more:
        if name not in forms:
            names = ", ".join(forms) or "none"
            article = "an" if kind[0] in "aeiou" else "a"
            raise InvalidEntry(
                f"{name!r} is no field of {article} {kind}; it has {names}", field=name
            )
    checked = {
        name: _checked(name, forms[name], more[name])
        for name in forms
        if more.get(name) not in (None, "", (), [])
    }
    return frozen(_message(checked, priority) if kind == MESSAGE else checked)  # type: ignore[no-any-return]


def _message(more: dict[str, Any], priority: str) -> dict[str, Any]:
    """Return the fields of a message: it is in a thread, and has an urgency."""
    if not is_thread(more.get("thread", "")):
        raise InvalidEntry(
            f"thread {more.get('thread')!r} is not a thread's id, which is thr_ and a UUID"
        )
    if "parent" in more and kind_of(more["parent"]) != MESSAGE:
        raise InvalidEntry(f"parent {more['parent']!r} is not the id of a message")
    default = {"critical": "urgent", "important": "action"}.get(priority, "normal")
    urgency = more.setdefault("urgency", default)
    if URGENCY.get(urgency) != priority:
        raise InvalidEntry(
            f"urgency {urgency!r} does not go with priority {priority}: it is one of"
            f" {', '.join(URGENCY)}"
        )
    return more


def _checked(name: str, form: str, value: Any) -> Any:
    if form == "number":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise InvalidEntry(f"{name} {value!r} is not a number", field=name)
        return value
    if form == "json":
        return _json(name, value)
    items = items_of(value) if form == "list" else [value]
    for item in items:
        _text(name, item)
        if form == "id" and not is_id(item):
            raise InvalidEntry(f"{name} {item!r} is not the id of an entry", field=name)
    return tuple(items) if form == "list" else value


def items_of(value: Any) -> list[Any]:
    """Return the items of a field that is a list: a value that is none is its one item."""
    return [*value] if isinstance(value, list | tuple | set | frozenset) else [value]


def text(name: str, value: Any) -> str:
    """Return the value, if it is a text that can be stored."""
    _text(name, value)
    return str(value)


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InvalidEntry(f"{name} {value!r} is not a text", field=name)
    if "\0" in value:
        raise InvalidEntry(f"the {name} holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidEntry(
                f"the {name} holds half a surrogate pair at character {error.start}"
            ) from error


def _json(name: str, value: Any) -> Any:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        _text(name, text)
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(f"{name} is not JSON: {error}", field=name) from error


# -- front matter ----------------------------------------------------------------------------------


def lines(kind: str, more: Mapping[str, Any]) -> str:
    """Return the kind and its fields as front matter, a line each."""
    if kind == ENTRY:
        return ""
    fields = (
        f"{name}: {_scalar(form, more[name])}\n"
        for name, form in FIELDS[kind].items()
        if name in more
    )
    return f"kind: {kind}\n{''.join(fields)}"


def _scalar(form: str, value: Any) -> str:
    from synapse.system.yaml import flow, quoted

    if form == "json":
        text = json.dumps(value, ensure_ascii=False)
        return "'" + (text if text.isprintable() else json.dumps(value)).replace("'", "''") + "'"
    return flow(value) if form == "list" else quoted(str(value))


def read(fields: Mapping[str, Any], problems: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind that front matter names, and the kind's own fields; what cannot be read goes
    to the problems."""
    kind = fields.get("kind")
    if kind is None:
        return ENTRY, {}
    if not isinstance(kind, str) or kind not in FIELDS:
        problems.append(f"kind {ascii(kind)[:80]} is not valid: write one of {', '.join(KINDS)}")
        return ENTRY, {}
    extra: dict[str, Any] = {}
    for name, form in FIELDS[kind].items():
        if fields.get(name) is not None:
            try:
                extra[name] = _read(name, form, fields[name])
            except (InvalidEntry, ValueError, RecursionError) as error:
                problems.append(f"{name} is not valid: {error}")
    return kind, extra


def _read(name: str, form: str, value: Any) -> Any:
    if form == "list":
        return _checked(
            name,
            form,
            [item.strip() for item in value.split(",")] if isinstance(value, str) else value,
        )
    if not isinstance(value, str):
        raise InvalidEntry("write one text")
    if form == "json":
        return json.loads(value)
    if form == "number":
        number = float(value)
        return _checked(name, form, int(number) if number.is_integer() else number)
    return value


def known_names() -> Iterable[str]:
    """Return every name that front matter of some kind may hold beside an entry's own."""
    return ("kind", *_ANY)


def texts_of(kind: str) -> list[str]:
    """Return the names of the fields of a kind that are texts which its author wrote freely."""
    return [
        name
        for name, form in FIELDS[kind].items()
        if form == "text" and name not in ("thread", "urgency", "source")
    ]


def texts(more: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a kind that people search for."""
    for name in ("subject", "action", "outcome", "consequences"):
        if name in more:
            yield more[name]
    yield from more.get("categories", ())


@lru_cache(1_024)
@lru_cache(1_024)  # a workspace has tens of them, and every file that is put is checked
def is_folder(folder: str) -> bool:
    """Return whether files of entries stand in this folder, or in folders below it."""
    top, _, inner = folder.partition("/")
    if top == "messages":
        return not inner or is_thread(inner)
    return top in ("entries", "knowledge") and (not inner or ns.is_namespace(inner))


def is_plan(path: str) -> bool:
    """Return whether this is the place of a project's plan that people write and edit as a file."""
    return (
        path.startswith("entries/projects/") and path.endswith("/plan.md") and path.count("/") > 2
    )
