"""The words of a text, for a cheap look before patterns are tried, and the mark of a text in which
nothing was found. `secrets`, `personal` and `records` ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from synapse.system.typed import Any, NamedTuple

LONG = 16  # letters and digits of a word that may be a key by itself
_BYTES = range(256)
_APART = bytes(c if c > 127 or chr(c).isalnum() else 32 for c in _BYTES)
_LONG, _WORD = b"x" * LONG, bytes(32 if c == 32 else 120 for c in _BYTES)


class Words(NamedTuple):
    """The words of a text, which are its runs of letters and digits in small letters; that text in
    small letters; and whether a word is long.
    """

    small: str
    each: list[str]
    long: bool


class Harmless(str):
    """A text in which no secret and no personal data was found. What is made of it is a plain
    text, so that a text which was changed is looked at again.
    """

    __slots__ = ()


def words_of(text: str) -> Words:
    """Return the words of a text."""
    small = text.lower()
    raw = bytes_of(small).translate(_APART)
    words = raw.decode("utf-8", "surrogatepass").split()
    long = _LONG in raw.translate(_WORD)
    if long and not text.isascii():  # whose letters have more than one byte
        long = max(map(len, words), default=0) >= LONG
    return Words(small, words, long)


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text, half surrogate pairs included, to be mapped to classes of
    characters: that takes a tenth of what it takes for a text.
    """
    return text.encode("utf-8", "surrogatepass")


def has(text: str, parts: Iterable[str]) -> bool:
    """Return whether a text has one of these parts."""
    return any(map(text.__contains__, parts))


def strings(value: Any) -> list[str]:
    """Return every text in a value as JSON has them, names included."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, Mapping):
            for name, inner in [*item.items()][::-1]:
                waiting += (inner, name)
        elif isinstance(item, list | tuple):
            waiting += item[::-1]
    return texts


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value as JSON has them with every text in it changed, names too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        names = names_apart(map(change, value))
        return {
            name: each_text(item, change) for name, item in zip(names, value.values(), strict=True)
        }
    if isinstance(value, list | tuple):
        return [each_text(item, change) for item in value]
    return value


def names_apart(names: Iterable[str]) -> list[str]:
    """Return names with a number behind those that were there before: two that were masked alike
    are still two.
    """
    unique: dict[str, None] = {}
    for name in names:
        new, number = name, 2
        while new in unique:
            new, number = f"{name} {number}", number + 1
        unique[new] = None
    return list(unique)
