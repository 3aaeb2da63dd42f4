"""What semantic search asks of the index: which texts are to be embedded, what of the near ones a
reader may see.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from synapse.index.full_text.search import Search
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent
from synapse.model.entry import NEVER, SEALED
from synapse.system.typed import Any


def texts(snap: Snapshot, floor: int, cursor: int, limit: int) -> tuple[dict[int, str], int]:
    """Return the texts of the next entries after a place, by seq, and how far that goes. What is
    sealed has none.
    """
    values = {"floor": floor, "cursor": cursor, "never": NEVER, "limit": limit}
    rows = snap.db.run("embeddable", values).fetchall()
    by_seq = {
        seq: text
        for seq, head, body in rows
        if (text := text_of(json.loads(head), body)) is not None
    }
    return by_seq, rows[-1][0] if len(rows) == limit else cursor


def text_of(head: dict[str, Any], body: str) -> str | None:
    """Return what is embedded of an entry: who says it, and what. None for what is sealed: it is to
    be nowhere else.
    """
    if head.get("scope") in SEALED or head.get("pii"):
        return None
    return f"{head['author']}: {body}"


def count(snap: Snapshot, floor: int) -> int:
    """Return how many entries after a place may have to be embedded."""
    return int(snap.db.run("embeddable_count", {"floor": floor, "never": NEVER}).fetchone()[0])


def refiled(snap: Snapshot, floor: int) -> bool:
    """Return whether entries were filed away, brought back or changed after a place in the log."""
    return snap.db.run("refiled", {"floor": floor}).fetchone() is not None


def among(
    snap: Snapshot, seqs: Sequence[int], agent: Agent | None, wanted: Filter, now: int
) -> dict[int, tuple[int, int, int]]:
    """Return those of these entries that the agent may see and the filter lets through, each as
    seq, rec and rev.
    """
    rows = Search(snap, agent, wanted, now).rows(seqs)
    return {row[0]: row[:3] for row in rows if row[-1]}
