"""Conditions: the moment that an entry is for (`when: run git push`), and whether a call is that
moment. Pure.

Four forms, one or several with commas between: `tool:NAME`, `run WORDS`, `edit GLOB`, `spawn`.
Called where entries are admitted and shown, and by whoever carries out calls.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from synapse.errors import InvalidEntry
from synapse.model.entry import Draft, Entry
from synapse.model.kinds import ENTRY
from synapse.system.typed import Any, NamedTuple

SPAWN = "spawn_agent"
# The arguments of a tool in which a command stands.
COMMANDS = frozenset("command cmd commands script shell argv args line code".split())
_EXAMPLES = "tool:NAME, run git push, edit api/**, spawn; or several with commas between"
_CUT = re.compile(r"[;&|\n]+")
_LONGEST = 4_096  # characters of a path


class Condition(NamedTuple):
    """One moment: its form, and the name, the words or the parts of the glob."""

    form: str
    words: tuple[str, ...] = ()


@lru_cache(1_024)
def parse(text: str) -> tuple[Condition, ...]:
    """Return the moments that `when` names; InvalidEntry says what to write."""
    if not text.isprintable():
        raise InvalidEntry(f"when {text!r:.80} is not valid: write {_EXAMPLES}", when=text)
    return tuple(_condition(condition.strip(), text) for condition in text.split(","))


def _condition(condition: str, text: str) -> Condition:
    form, _, argument = condition.partition(" ")
    if condition == "spawn":
        return Condition("spawn")
    if condition.startswith("tool:") and len(condition.split()) == 1 and condition != "tool:":
        return Condition("tool", (condition.removeprefix("tool:"),))
    if form == "run" and argument.split():
        return Condition("run", tuple(argument.split()))
    if form == "edit" and len(argument.split()) == 1:
        return Condition("edit", tuple(argument.strip().removeprefix("./").split("/")))
    raise InvalidEntry(f"when {text!r:.80} is not valid: write {_EXAMPLES}", when=text)


def check(draft: Draft) -> None:
    """Refuse a draft whose `when` names no moment. Mail and knowledge keep a time there."""
    if draft.when is not None and draft.kind == ENTRY:
        parse(draft.when)


def is_for_a_moment(entry: Entry) -> bool:
    """Return whether an entry is shown at its moment alone: it has a `when`, and is not
    critical.
    """
    if entry.when is None or entry.kind != ENTRY or entry.priority == "critical":
        return False
    try:
        return bool(parse(entry.when))
    except InvalidEntry:
        return False  # of an older version, which took any text


def is_due(entry: Entry, call: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call of a tool is a moment that an entry is for."""
    if entry.when is None or entry.kind != ENTRY:
        return False
    try:
        return any(_meets(condition, call, arguments) for condition in parse(entry.when))
    except InvalidEntry:
        return False


def _meets(condition: Condition, call: str, arguments: Mapping[str, Any]) -> bool:
    form, values = condition
    if form == "spawn":
        return call == SPAWN
    if form == "tool":
        return values == (call,)
    if form == "run":
        return any(_in_order(values, command) for command in _commands(arguments))
    return any(_is_within(values, path) for path in _paths(arguments.values()))


def _commands(arguments: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the words of each command in a call's arguments."""
    for name, value in arguments.items():
        if name.lower() not in COMMANDS:
            continue
        if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
            value = " ".join(value)
        if isinstance(value, str):
            for command in _CUT.split(value):
                yield [word.strip("\"'()`$") for word in command.split()]


def _in_order(words: Sequence[str], command: Sequence[str]) -> bool:
    remaining = iter(command)
    return all(word in remaining for word in words)


def _paths(values: Any) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            if value and len(value) <= _LONGEST and not any(map(str.isspace, value)):
                yield value
        elif isinstance(value, Mapping):
            yield from _paths(value.values())
        elif isinstance(value, list | tuple):
            yield from _paths(value)


def _is_within(glob: Sequence[str], path: str) -> bool:
    """Return whether a path matches a glob, from its root or from any folder in it on."""
    segments = posixpath.normpath(path.replace("\\", "/")).split("/")
    starts = range(len(segments)) if glob[0] else range(1)
    return any(_matches(glob, segments[start:]) for start in starts)


def _matches(glob: Sequence[str], segments: Sequence[str]) -> bool:
    """Return whether parts of a path match those of a glob, one by one; `**` is any number."""
    # how much of the path the glob so far may cover
    rows = [True, *[False] * len(segments)]
    for pattern in glob:
        if pattern == "**":
            reached = rows.index(True) if True in rows else len(rows)
            rows = [at >= reached for at in range(len(rows))]
        else:
            rows = [
                False,
                *(rows[at] and _fits(pattern, segment) for at, segment in enumerate(segments)),
            ]
    return rows[-1]


def _fits(pattern: str, text: str) -> bool:
    """Return whether a part matches a pattern with `*` in it."""
    first, *middle = pattern.split("*")
    if not middle:
        return first == text
    last, position = middle.pop(), len(first)
    if not text.startswith(first) or not text.endswith(last) or len(text) < position + len(last):
        return False
    end = len(text) - len(last)
    for piece in middle:
        position = text.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True
