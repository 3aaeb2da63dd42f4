"""Questions about knowledge beside its entries: links between atoms, how often items were asked
for, and which ids begin alike.
"""

from __future__ import annotations

from synapse.index.snapshot import Snapshot
from synapse.system.typed import NamedTuple


class Link(NamedTuple):
    """That one atom causes, enables, precedes or goes with another, as somebody last said it."""

    cause: str
    effect: str
    type: str
    strength: float
    by: str
    at: int


def links(snap: Snapshot, id: str) -> list[Link]:
    """Return the links from and to an atom, in the order in which they were made. For whoever may
    see both ends.
    """
    return [Link(*row) for row in snap.db.run("links_of", {"id": id})]


def uses(snap: Snapshot, id: str) -> int:
    """About how often an item was asked for."""
    row = snap.db.run("uses_of", {"id": id}).fetchone()
    return int(row[0]) if row else 0


def alike(snap: Snapshot, start: str) -> list[str]:
    """Return the ids that begin so. For whoever asks of each whether its reader may see it."""
    return [row[0] for row in snap.db.run("ids_alike", {"start": start, "end": f"{start}g"})]
