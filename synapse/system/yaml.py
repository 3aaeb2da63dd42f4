"""The small part of YAML that is read and written here: mappings, lists and scalars.

Every scalar is text until somebody asks for more: `007`, `no`, `12:30:45` and `2026-02-01` are what
they look like. Anchors, aliases, merge keys, tags, duplicate keys, several documents and depth are
refused while the text is still a stream of events, so that nothing hostile is ever built. PyYAML is
imported by the first read, never by a write. This module knows no entries, agents or settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from synapse.errors import InvalidEntry
from synapse.system.typed import Any, TypeAlias

Value: TypeAlias = "str | bool | int | float | list[Value] | dict[str, Value] | None"
Fields: TypeAlias = "dict[str, Value]"

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./@+*-]|:(?=[A-Za-z0-9_])| (?=[A-Za-z0-9_]))*")
_NOT_TEXT = frozenset("y n yes no on off true false null none nan inf".split())
_NUMBER = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?"
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


class _Refused(Exception):
    """What is wrong with the text, and on which line."""


class _Builder:
    """The part of a document that has been built so far: the open containers, and the key that
    waits in each."""

    def __init__(self, depth: int, typed: bool) -> None:
        self.depth = depth
        self.typed = typed
        self.root: list[Value] = []
        self.open: list[list[Value] | Fields] = [self.root]
        self.keys: list[str | None] = [None]

    def start(self, container: list[Value] | Fields) -> None:
        if len(self.open) > self.depth:
            raise _Refused(f"nested deeper than {self.depth} levels")
        if isinstance(self.open[-1], dict) and self.keys[-1] is None:
            raise _Refused("a key must be a word")
        self.open.append(container)
        self.keys.append(None)

    def end(self) -> None:
        self.keys.pop()
        self.put(self.open.pop())

    def scalar(self, text: str, plain: bool) -> None:
        container = self.open[-1]
        if isinstance(container, dict) and self.keys[-1] is None:
            if text == "<<":
                raise _Refused("merge keys (<<) are not allowed")
            if text in container:
                raise _Refused(f"{text!r} is given twice")
            self.keys[-1] = text
        elif plain and text in NULLS:
            self.put(None)
        else:
            self.put(_typed(text) if plain and self.typed else text)

    def put(self, value: Value) -> None:
        container, key = self.open[-1], self.keys[-1]
        if not isinstance(container, dict):
            container.append(value)
        elif key is not None:
            container[key] = value
            self.keys[-1] = None


def load(text: str, *, depth: int, typed: bool = False, line: int = 1) -> Fields:
    """Return the mapping that the text holds, or raise InvalidEntry with one problem.

    `depth` counts nested mappings and lists. With `typed`, plain `true`, `false` and numbers in
    their shortest form become values whose text is the same again; everything else stays text.
    `line` is the number of the first line, for messages.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(depth, typed)
    problem = ""
    try:
        for event in yaml.parse(text, Loader=loader):
            _take(builder, event)
    except _Refused as error:
        problem = f"line {getattr(event.start_mark, 'line', 0) + line}: {error}"
    except yaml.MarkedYAMLError as error:
        position = getattr(error.problem_mark, "line", 0) + line
        problem = f"line {position}: {error.problem or error.context or 'cannot be read'}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
    value = builder.root[0] if builder.root else None
    if not problem and value is not None and not isinstance(value, dict):
        problem = "expected lines of the form `key: value`"
    if problem:
        raise InvalidEntry(
            f"not readable as YAML: {problem}", problems=[f"not readable as YAML: {problem}"]
        )
    return value if isinstance(value, dict) else {}


def _take(builder: _Builder, event: Any) -> None:
    """Put one event of PyYAML into the builder, or refuse it."""
    kind = type(event).__name__
    if kind == "AliasEvent" or getattr(event, "anchor", None) is not None:
        raise _Refused(
            "anchors and aliases (& and *) are not allowed; quote the text if it is meant"
        )
    if kind == "DocumentStartEvent":
        if builder.root or event.version or event.tags:
            raise _Refused("directives and a second document are not allowed")
    elif getattr(event, "tag", None) is not None:
        raise _Refused("tags (!) are not allowed; quote the text if it is meant")
    elif kind == "ScalarEvent":
        builder.scalar(event.value, not event.style)
    elif kind in ("MappingStartEvent", "SequenceStartEvent"):
        if kind == "MappingStartEvent" and len(builder.open) == 1 and event.flow_style:
            raise _Refused("JSON is not read here; write one `key: value` per line")
        builder.start({} if kind == "MappingStartEvent" else [])
    elif kind in ("MappingEndEvent", "SequenceEndEvent"):
        builder.end()


def _typed(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if not re.fullmatch(_NUMBER, text) or text == "-0":
        return text
    number = float(text) if "." in text else int(text)
    return number if str(number) == text else text


def quoted(text: str) -> str:
    """Return a scalar that every reader of YAML takes for this text, in a block or in a flow list,
    on one line."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def flow(values: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, values))}]"


def dump(fields: Mapping[str, Value]) -> str:
    """Return block YAML that `load(typed=True)` reads back as the same values."""
    return "".join(f"{line}\n" for line in _mapping_lines(fields, ""))


def _mapping_lines(fields: Mapping[str, Value], indent: str) -> Iterator[str]:
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{quoted(key)}:"
            yield from _mapping_lines(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            yield f"{indent}{quoted(key)}:"
            yield from _list_lines(value, indent + "  ")
        else:
            yield f"{indent}{quoted(key)}: {_inline(value)}"


def _list_lines(values: list[Value], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict) and value:
            lines = list(_mapping_lines(value, indent + "  "))
            yield f"{indent}- {lines[0].lstrip(' ')}"
            yield from lines[1:]
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            yield f"{indent}-"
            yield from _list_lines(value, indent + "  ")
        else:
            yield f"{indent}- {_inline(value)}"


def _inline(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, dict):
        return "{}"
    return (
        "null" if value is None else text_of(value) if not isinstance(value, str) else quoted(value)
    )


def text_of(value: Value) -> str:
    """Return a scalar's text as it stands in the file."""
    return str(value).lower() if isinstance(value, bool) else str(value)
