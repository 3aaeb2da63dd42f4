"""Our members of a JSON document that others write too: put in, found again, and taken out.

Pure. Called by `merge`; `jsonc` finds and cuts the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.plugin.install.files import jsonc
from orchestrator.plugin.install.files.jsonc import Insertion, Key, Node, Pointer


class Clash(ValueError):
    """Somebody else's value stands where ours has to; `line` is where."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class Members(NamedTuple):
    """A text with our members in it, and what was put in."""

    text: str
    pieces: tuple[Insertion, ...]


def put(text: str, members: Mapping[str, Any]) -> Members:
    """Return the text with our members in it. Nobody else's value is changed: Clash says which
    would have to be."""
    root = jsonc.parse(text)
    if root.kind != "object":
        raise Clash("the file holds no object", jsonc.line_of(text, root.start))
    return _put(text, (), members)


def _put(text: str, pointer: Pointer, members: Mapping[str, Any]) -> Members:
    pieces: list[Insertion] = []
    for key, value in members.items():
        node = jsonc.at(jsonc.parse(text), pointer)
        assert node is not None
        if node.count(key) > 1:
            line = jsonc.line_of(text, node.start)
            raise Clash(
                f"{_dotted((*pointer, key))} stands there twice: leave one of the two", line
            )
        theirs = node.get(key)
        if theirs is None:
            text, piece = jsonc.insert(text, pointer, key, value)
            pieces.append(piece)
        elif isinstance(value, Mapping) and theirs.kind == "object":
            text, nested = _put(text, (*pointer, key), value)
            pieces += nested
        elif isinstance(value, list) and theirs.kind == "list":
            for item in value:
                if jsonc.plain(item) not in [node.value for _, node in theirs.items]:
                    text, piece = jsonc.insert(text, (*pointer, key), None, item)
                    pieces.append(piece)
        elif theirs.value != jsonc.plain(value):
            line = jsonc.line_of(text, theirs.start)
            their_text = text[theirs.start : theirs.end].replace("\n", " ")[:40]
            raise Clash(
                f"{_dotted((*pointer, key))} is {their_text}, and it has to be {value!r:.40}", line
            )
    return Members(text, tuple(pieces))


def has_all(node: Node | None, members: Any) -> bool:
    """Tell whether a document holds all of our members as they are to be."""
    if node is None:
        return False
    if isinstance(members, Mapping) and node.kind == "object":
        return all(has_all(node.get(key), value) for key, value in members.items())
    if isinstance(members, list) and node.kind == "list":
        values = [item.value for _, item in node.items]
        return all(jsonc.plain(item) in values for item in members)
    return bool(node.value == jsonc.plain(members))


def count_marks(node: Node, mark: str) -> int:
    """Return how many strings of a document hold the mark."""
    if node.kind == "value":
        return int(isinstance(node.scalar, str) and mark in node.scalar)
    return sum(count_marks(item, mark) + _is_marked(key, mark) for key, item in node.items)


def _is_marked(key: Key, mark: str) -> bool:
    """Tell whether the name of a member holds the mark."""
    return isinstance(key, str) and mark in key


def take_out(text: str, pieces: Sequence[Insertion], mark: str) -> str:
    """Return the text without what was put in, however the rest was edited since, and without
    what else holds the mark."""
    for piece in reversed(pieces):
        for pointer, tail in _of_piece(jsonc.parse(text), piece, mark):
            text = jsonc.remove(text, pointer, tail)
    root = jsonc.parse(text)
    for pointer in reversed(_inside(root, (), None, mark, is_root=True)):
        text = jsonc.remove(text, pointer)
    return text


def _of_piece(root: Node, piece: Insertion, mark: str) -> list[tuple[Pointer, str]]:
    """Return the pointers of what is left of a piece, the last first."""
    container = jsonc.at(root, piece.pointer)
    if container is None:
        return []
    value = jsonc.plain(piece.value)
    if piece.key is None:
        places = [key for key, node in container.items if node.value == value][-1:]
        return [((*piece.pointer, key), piece.tail) for key in places if container.kind == "list"]
    node = container.get(piece.key)
    if node is None or container.kind != "object":
        return []
    pointer = (*piece.pointer, piece.key)
    if _is_marked(piece.key, mark) or _is_ours(node, value, mark):
        return [(pointer, piece.tail)]
    return [(inner, "") for inner in reversed(_inside(node, pointer, value, mark))]


def _inside(
    node: Node, pointer: Pointer, value: Any, mark: str, is_root: bool = False
) -> list[Pointer]:
    """Return the pointers of what is ours below a value, in the order of the text."""
    pointers: list[Pointer] = []
    for key, item in node.items:
        ours = value.get(key) if isinstance(value, dict) else None
        is_listed = isinstance(value, list) and item.value in value
        in_list = node.kind == "list"
        if is_listed or _is_marked(key, mark) or _is_ours(item, ours, mark, in_list=in_list):
            pointers.append((*pointer, key))
        else:
            pointers += _inside(item, (*pointer, key), ours, mark)
    return pointers


def _is_ours(node: Node, value: Any, mark: str, in_list: bool = False) -> bool:
    """Tell whether a value is ours as a whole: the very value that we put in, or one in which the
    mark stands for all that it does."""
    if value is not None and node.value == value:
        return True
    if node.kind == "value":
        return isinstance(node.scalar, str) and mark in node.scalar
    if not node.items:
        return isinstance(value, dict | list) and bool(value)
    if node.kind == "list":
        our_items = value if isinstance(value, list) else []
        return all(
            item.value in our_items or _is_ours(item, None, mark, True) for _, item in node.items
        )
    if any(_holds_mark(item, mark) for _, item in node.items):
        return True
    verdicts = [
        _is_marked(key, mark)
        or _is_ours(item, value.get(key) if isinstance(value, dict) else None, mark)
        for key, item in node.items
        if item.kind != "value" or not in_list
    ]
    return bool(verdicts) and all(verdicts)


def _holds_mark(node: Node, mark: str) -> bool:
    """Tell whether a member is a string with the mark, or a list in which one is: an object with
    such a member runs our program."""
    strings = (
        [node] if node.kind == "value" else [item for _, item in node.items if node.kind == "list"]
    )
    return any(isinstance(item.scalar, str) and mark in item.scalar for item in strings)


def _dotted(pointer: Pointer) -> str:
    return ".".join(map(str, pointer))
