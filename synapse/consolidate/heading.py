"""The head of an entry that is made of others, which has to stay within its size, whatever they
list. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synapse.formats.front_matter import MAX_FRONT
from synapse.model.entry import Entry
from synapse.system.yaml import quoted

_REST = 1_024  # bytes for all that is short: author, times, priority, scope


def fitting(texts: Iterable[str], room: int) -> tuple[str, ...]:
    """As many of a list's first texts as there is room for, in bytes; each once."""
    fitted = []
    for text in dict.fromkeys(texts):
        room -= _cost(text)
        if room < 0:
            break
        fitted.append(text)
    return tuple(fitted)


def room_beside(entry: Entry) -> int:
    """The bytes for lists in the head of one that takes over where this one stands and to whom it
    is said.
    """
    fixed = (*entry.addressees, entry.namespace, entry.evidence or "", entry.when or "")
    return max(MAX_FRONT - _REST - sum(map(_cost, fixed)), 0)


def portions(alike: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Entries of one place, in their order, by as many as one head can name as its sources."""
    room = room_beside(alike[0]) // 2
    size = room // max(_cost(entry.id) for entry in alike)
    return (
        [alike[start : start + size] for start in range(0, len(alike), size)]
        if size > 1
        else []
    )


def _cost(text: str) -> int:
    return len(quoted(text).encode(errors="replace")) + 2
