"""Text that can be stored: what becomes of half a surrogate pair, which JSON and file names can say
and UTF-8 cannot.

There is one rule. An argument of a caller is refused, with its name: the caller can mend it. What a
model, a tool, a client or a file system gave is stored with U+FFFD in its place: nobody is there to
ask, and the rest of it is worth keeping.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse.system.typed import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def encodes(text: str) -> bool:
    """Return whether a text can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair."""
    if encodes(text):
        return text
    halves = {ord(char): REPLACEMENT for char in text if "\ud800" <= char <= "\udfff"}
    return text.translate(halves)


def storable_all(value: Any) -> Any:
    """Return a value of JSON, or a named tuple, with every text in it made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable_all(key): storable_all(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(storable_all, value))
    if isinstance(value, list | tuple):
        return type(value)(map(storable_all, value))
    return value
