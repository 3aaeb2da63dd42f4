"""JSON as text: where each value begins and ends, so that members go in and out and every other
byte stays as it is.

Reads JSON, JSON with comments and trailing commas, and JSON5, as clients' configurations are
written. Pure; knows nothing of files or clients. Called by `merge`.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, TypeAlias

DEEPEST = 200  # levels; a configuration has ten
_SKIP = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[^\s,:\[\]{}\"'/]+")
_NAME = re.compile(r"[^\W\d][\w$]*|[$_][\w$]*")
_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\Z"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPES = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\r\n": "",
}
_LITERALS = {"true": True, "false": False, "null": None}

Key: TypeAlias = str | int
Pointer: TypeAlias = tuple[Key, ...]


class Malformed(ValueError):
    """The text cannot be read as JSON; `line` is where."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class Number(NamedTuple):
    """A number as it is written, which a float may not hold."""

    text: str


class Node(NamedTuple):
    """A value in a text. `start` and `end` are its own, without what stands around it; `items` are
    the values of a container, by name in an object and by place in a list; `heads` where each of
    them begins, its name included; `trailing` tells whether a comma follows the last."""

    kind: str  # object, list, value
    start: int
    end: int
    scalar: Any = None
    items: tuple[tuple[Key, Node], ...] = ()
    heads: tuple[int, ...] = ()
    trailing: bool = False

    def get(self, key: Key) -> Node | None:
        """Return the last value under a name or a place, as the clients' readers do."""
        return next((node for name, node in reversed(self.items) if name == key), None)

    def count(self, key: Key) -> int:
        """Return how often a name is used."""
        return sum(name == key for name, _ in self.items)

    @property
    def value(self) -> Any:
        """Return the value in Python. Numbers stay text; of a name used twice the last counts."""
        if self.kind == "object":
            return {name: node.value for name, node in self.items}
        if self.kind == "list":
            return [node.value for _, node in self.items]
        return self.scalar

    @property
    def whole(self) -> Any:
        """Return the value with names used twice, in their order: for comparing two texts."""
        if self.kind == "object":
            return ("object", [(name, node.whole) for name, node in self.items])
        if self.kind == "list":
            return [node.whole for _, node in self.items]
        return self.scalar


def parse(text: str) -> Node:
    """Return the one value of a text; Malformed says what is wrong, and in which line."""
    node, end = _value(text, _skip(text, 0), 0)
    end = _skip(text, end)
    if end < len(text):
        raise Malformed("more text after the end", line_of(text, end))
    return node


def plain(value: Any) -> Any:
    """Return a value of Python as `Node.value` gives it: numbers as text."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(json.dumps(value))
    return value


def dumps(value: Any) -> str:
    """Return a value of Python as JSON."""
    return json.dumps(value, ensure_ascii=False)


def line_of(text: str, position: int) -> int:
    """Return the number of the line that a place is in."""
    return text.count("\n", 0, position) + 1


# -- reading ---------------------------------------------------------------------------------------


def _skip(text: str, position: int) -> int:
    """Return the place behind white space and comments."""
    match = _SKIP.match(text, position)
    end = match.end() if match else position
    if text.startswith("/*", end):
        raise Malformed("a comment that does not end", line_of(text, end))
    return end


def _value(text: str, position: int, depth: int) -> tuple[Node, int]:
    if depth > DEEPEST:
        raise Malformed(f"more than {DEEPEST} levels", line_of(text, position))
    first = text[position : position + 1]
    if first in ("{", "["):
        node = _container(text, position, depth)
    elif first in ('"', "'"):
        string, end = _string(text, position)
        node = Node("value", position, end, string)
    else:
        node = _scalar(text, position)
    return node, node.end


def _container(text: str, start: int, depth: int) -> Node:
    """Read an object or a list from its opening bracket on."""
    kind, close = ("object", "}") if text[start] == "{" else ("list", "]")
    items: list[tuple[Key, Node]] = []
    heads: list[int] = []
    position, comma = _skip(text, start + 1), False
    while text[position : position + 1] != close:
        if position >= len(text):
            raise Malformed(f"the {kind} does not end", line_of(text, start))
        if items and not comma:
            raise Malformed("a comma is missing", line_of(text, position))
        heads.append(position)
        name: Key = len(items)
        if kind == "object":
            name, position = _name(text, position)
            position = _skip(text, position)
            if text[position : position + 1] != ":":
                raise Malformed("a colon is missing", line_of(text, position))
            position = _skip(text, position + 1)
        node, position = _value(text, position, depth + 1)
        items.append((name, node))
        position = _skip(text, position)
        comma = text[position : position + 1] == ","
        position = _skip(text, position + 1) if comma else position
    return Node(kind, start, position + 1, None, tuple(items), tuple(heads), comma)


def _name(text: str, position: int) -> tuple[str, int]:
    if text[position] in "\"'":
        return _string(text, position)
    match = _NAME.match(text, position)
    if match is None:
        raise Malformed("the name of a member is missing", line_of(text, position))
    return match.group(), match.end()


def _string(text: str, position: int) -> tuple[str, int]:
    match = _STRING.match(text, position)
    if match is None:
        raise Malformed("a string that does not end in its line", line_of(text, position))
    body = _ESCAPE.sub(_unescape, match.group()[1:-1])
    if any("\ud800" <= char <= "\udfff" for char in body):
        body = body.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return body, match.end()


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    if body[0] in "ux" and len(body) > 1:
        return chr(int(body[1:], 16))
    return _ESCAPES.get(body, body)


def _scalar(text: str, position: int) -> Node:
    match = _WORD.match(text, position)
    token = match.group() if match else ""
    if token in _LITERALS:
        return Node("value", position, position + len(token), _LITERALS[token])
    if token and _NUMBER.match(token):
        return Node("value", position, position + len(token), Number(token))
    problem = f"{token[:20]!r} is no value" if token else "a value is missing"
    raise Malformed(problem, line_of(text, position))


# -- putting in ------------------------------------------------------------------------------------


class Insertion(NamedTuple):
    """A member or an item that was put in: where, its value, and the white space that was put
    before the closing bracket with it, which goes when it goes."""

    pointer: Pointer  # of the container
    key: str | None  # the member's name; None for an item of a list
    value: Any
    tail: str = ""


def insert(text: str, pointer: Pointer, key: str | None, value: Any) -> tuple[str, Insertion]:
    """Return the text with one more member or item, as the last of its container, and what was put
    in. A comment in the line of the value before it keeps its place."""
    node = at(parse(text), pointer)
    assert node is not None
    eol = "\r\n" if "\r\n" in text else "\n"
    inner = text[node.start + 1 : node.end - 1]
    inline = "\n" not in inner and bool(node.items or (inner.strip() == "" and _is_inline(text)))
    outer = _indent(text, node)
    indent = _inner_indent(text, node, outer)
    member = _written(key, value, indent, _unit(text), eol, inline and not _spaced(text), inline)
    if node.items:
        return _append(text, node, member, "" if inline else eol + indent), Insertion(
            pointer, key, value
        )
    if inline:
        position = node.start + 1
        return text[:position] + member + text[position:], Insertion(pointer, key, value)
    position = _skip(text, node.start + 1)
    space = len(text[node.start + 1 : position]) - len(text[node.start + 1 : position].rstrip())
    position -= space
    tail = "" if "\n" in text[position : position + space] else eol + outer
    result = text[:position] + eol + indent + member + tail + text[position:]
    return result, Insertion(pointer, key, value, tail)


def _append(text: str, node: Node, member: str, lead: str) -> str:
    """Put a member behind the last. The comma goes right behind that, the member behind what else
    stands in its line."""
    end = node.items[-1][1].end
    after_comma = text.index(",", _skip(text, end)) + 1 if node.trailing else end
    line = after_comma
    if lead:
        comment = re.compile(r"(?:[^\S\n]*(?://[^\n]*|/\*[^\n]*?\*/))*").match(text, after_comma)
        line = comment.end() if comment else after_comma
        while line > after_comma and text[line - 1] in "\r \t":
            line -= 1
    lead = lead or (" " if _spaced(text) else "")
    comma = "" if node.trailing else ","
    closing = "," if node.trailing else ""
    return text[:end] + comma + text[end:line] + lead + member + closing + text[line:]


def _written(
    key: str | None, value: Any, indent: str, unit: str, eol: str, tight: bool, inline: bool
) -> str:
    if inline:
        body = json.dumps(
            value, ensure_ascii=False, separators=(",", ":") if tight else (", ", ": ")
        )
    else:
        body = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", eol + indent)
    if key is None:
        return body
    return json.dumps(key, ensure_ascii=False) + (":" if tight else ": ") + body


def _is_inline(text: str) -> bool:
    """Return whether all of a text with members stands in one line."""
    root = parse(text)
    return bool(root.items) and "\n" not in text[root.start : root.end]


def _spaced(text: str) -> bool:
    """Return whether a space stands behind the first colon."""
    root = parse(text)
    if root.kind != "object" or not root.items:
        return True
    return text[root.items[0][1].start - 1] != ":"


def _indent(text: str, node: Node) -> str:
    """Return the white space that begins the line in which a container opens."""
    begin = text.rfind("\n", 0, node.start) + 1
    match = re.compile(r"[ \t]*").match(text, begin)
    return match.group() if match else ""


def _inner_indent(text: str, node: Node, outer: str) -> str:
    """Return the white space before the members of a container: that of the last that begins a
    line, else one unit more than its own line has."""
    for head in reversed(node.heads):
        before = text[text.rfind("\n", 0, head) + 1 : head]
        if before.strip(" \t") == "" and "\n" in text[node.start : head]:
            return before
    return outer + _unit(text)


def _unit(text: str) -> str:
    """Return one step of indentation: that of the first member of all, else two spaces."""
    root = parse(text)
    if root.heads:
        before = text[text.rfind("\n", 0, root.heads[0]) + 1 : root.heads[0]]
        if before and before.strip(" \t") == "" and "\n" in text[root.start : root.heads[0]]:
            return before.removeprefix(_indent(text, root)) or "  "
    return "  "


# -- taking out ------------------------------------------------------------------------------------


def remove(text: str, pointer: Pointer, tail: str = "") -> str:
    """Return the text without the value at a pointer: without the white space before it, one comma,
    and the white space that was put behind it."""
    node = at(parse(text), pointer[:-1])
    assert node is not None
    index = max(i for i, (name, _) in enumerate(node.items) if name == pointer[-1])
    head, end = node.heads[index], node.items[index][1].end
    start = _lead(text, head)
    gap = text[node.items[index - 1][1].end if index else node.start + 1 : start]
    is_last = index == len(node.items) - 1
    after = _skip(text, end)
    if not is_last or node.trailing:
        return text[:start] + _rest(gap, text[end:after] + text[after + 1 :])
    if index == 0:
        remainder = text[end:]
        remainder = remainder[len(tail) :] if tail and remainder.startswith(tail) else remainder
        return text[:start] + _rest(gap, remainder)
    before = node.items[index - 1][1].end
    comma = text.index(",", _skip(text, before))
    return text[:comma] + text[comma + 1 : start] + _rest(gap, text[end:])


def _lead(text: str, head: int) -> int:
    """Return where the white space before a member begins."""
    while head > 0 and text[head - 1] in " \t\r\n":
        head -= 1
    return head


def _rest(gap: str, rest: str) -> str:
    """Return what follows a cut; in a new line where what stands before it ends in a comment that
    takes the whole line."""
    comments = list(re.finditer(r"//[^\n]*|/\*.*?\*/", gap, re.DOTALL))
    is_open = (
        bool(comments) and comments[-1].group().startswith("//") and comments[-1].end() == len(gap)
    )
    if is_open and not re.match(r"[ \t\r]*(\n|\Z)", rest):
        return "\n" + rest
    return rest


def at(node: Node, pointer: Pointer) -> Node | None:
    """Return the value at a pointer, None where nothing is."""
    for key in pointer:
        child = node.get(key)
        if child is None:
            return None
        node = child
    return node
