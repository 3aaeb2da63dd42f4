"""Who reads what is written: the namespaces whose entries reach none of some agents. Reads the
index; writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from synapse.authority import visible
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent

LOOKED_AT = 1_000  # of the newest entries


def unread(
    snap: Snapshot, agents: Collection[Agent], now: int, *, alone: bool = True
) -> dict[str, int]:
    """Return the namespaces in which live entries for everybody stand that none of these agents may
    read, each with how many of the newest entries those are. An agent's own place is its own. What
    its author alone may read counts as read, unless `alone` is False.
    """
    entries = snap.page(None, Filter(limit=LOOKED_AT), now)
    counts = Counter(
        entry.namespace
        for entry in entries
        if entry.addressees == ("all",)
        and entry.namespace.split("/", 1)[0] != "agents"
        and not any(visible(entry, agent) for agent in agents if alone or agent.id != entry.author)
    )
    return dict(sorted(counts.items()))
