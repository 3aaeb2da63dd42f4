"""Answers that several nouns give, and the forms that most of them have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from synapse.acts.act import Answer
from synapse.formats.codec import entry_json
from synapse.wire import parse

T = TypeVar("T")


def rows(
    shape: str, name: str, form: Callable[[T], Any], back: Callable[[Any], T]
) -> Answer[list[T]]:
    """Return the answer that has a list under a name."""
    return Answer(
        shape,
        lambda values: {name: [form(value) for value in values]},
        lambda values: [back(value) for value in values[name]],
    )


def field(
    shape: str, name: str, back: Callable[[Any], T], form: Callable[[T], Any] = lambda value: value
) -> Answer[T]:
    """Return the answer that has one value under a name."""
    return Answer(shape, lambda value: {name: form(value)}, lambda values: back(values[name]))


ENTRY = Answer("Entry", entry_json, parse.entry, "entries")
ENTRIES = rows("Entries", "entries", entry_json, parse.entry)
IDS = field("Ids", "ids", list[str])
