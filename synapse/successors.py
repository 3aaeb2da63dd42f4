"""Entries that were proposed in the place of others: whether they may still be, and what an
approval does then.

The consolidator proposes, somebody above the sources approves. Until then nothing has changed; what
is approved has its sources filed away, as a night files them, and is taken back in the same way.
"""

from __future__ import annotations

from synapse.authority import may_close
from synapse.errors import Conflict, NotFound
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import NEVER, SECOND, Entry
from synapse.model.records import Pending
from synapse.store import Store
from synapse.writer import Writer


def outdated(store: Store, entry: Entry) -> str | None:
    """Why a proposal can no longer take the place of its sources: one of them has changed since."""
    now = store.clock()
    with store.snapshot() as snap:
        for id in entry.derived_from:
            source = snap.entry(id, now)
            fate = source and snap.fate(source, now)
            if source is None or fate is not None or source.disputed:
                return f"{id} is {fate.reason if fate else 'in dispute'} since"
    return None


def approve(store: Store, pen: Writer, agent: Agent, entry: Entry) -> None:
    """Let it take effect, for as long as the longest of its sources would have, and file these
    away.
    """
    if reason := outdated(store, entry):
        raise Conflict(
            f"{entry.id} cannot take the place of its sources: {reason}; reject it",
            id=entry.id,
        )
    sources = [store.current(id) for id in entry.derived_from]
    for source in sources:
        may_close(agent, source, store.settings, "file away")
    until, now = max(source.expires for source in sources), store.clock()
    ttl = "never" if until == NEVER else f"{max(-((now - until) // SECOND), 1)}s"
    pen.act("approve", entry=entry.id, trust=entry.trust, ttl=ttl)
    fields = {
        "phase": "merge",
        "night": _night(store, entry),
        "reason": "merged",
        "heirs": [entry.id],
    }
    filed = Pending("archive", CONSOLIDATOR, fields | {"ids": list(entry.derived_from)})
    store.log.append(filed, once=f"approved:{entry.id}")


def _night(store: Store, entry: Entry) -> str:
    """The night that proposed it."""
    try:
        return str(store.log.get(entry.id).fields.get("night", ""))
    except (KeyError, NotFound):
        return ""
