"""The room in the head of an entry that is made of others: its lists have to fit, however many
there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from synapse.formats.front_matter import MAX_FRONT
from synapse.model.entry import Entry
from synapse.model.entry_fields import DETAILS
from synapse.system.yaml import quoted

_details = attrgetter(*DETAILS)
_REST = 1_024  # bytes for all that is short: author, times, priority, scope


def fitting(texts: Iterable[str], room: int) -> tuple[str, ...]:
    """Return the first texts of a list that fit into so many bytes, each once."""
    fitted = []
    for text in dict.fromkeys(texts):
        room -= _cost(text)
        if room < 0:
            break
        fitted.append(text)
    return tuple(fitted)


def room_beside(entry: Entry) -> int:
    """Return the bytes left for lists in the head of an entry of this place and these
    addressees."""
    fixed = (*entry.addressees, entry.namespace, *filter(None, _details(entry)))
    return max(MAX_FRONT - _REST - sum(map(_cost, fixed)), 0)


def portions(alike: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Return entries of one place in portions, in order, each as large as one head can name as its
    sources."""
    room = room_beside(alike[0]) // 2
    size = room // max(_cost(entry.id) for entry in alike)
    return [alike[start : start + size] for start in range(0, len(alike), size)] if size > 1 else []


def _cost(text: str) -> int:
    return len(quoted(text).encode(errors="replace")) + 2
