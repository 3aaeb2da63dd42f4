"""Merged and summarised entries that wait for approval in the place of their sources.

The consolidator proposes them, and an agent above the sources approves. Until then nothing changes.
An approval files the sources away, as a nightly run does, and is undone in the same way. Called by
the agent memory and by the consolidation's staging.
"""

from __future__ import annotations

from synapse.access.writer import Writer
from synapse.authority import may_close
from synapse.errors import Conflict, NotFound
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import NEVER, SECOND, Entry
from synapse.model.records import Record
from synapse.store import Store


def outdated(store: Store, entry: Entry, agent: Agent | None = None) -> str | None:
    """Return why a proposal can no longer take the place of its sources, because one of them has
    changed, as far as an agent sees it; None where it can."""
    now = store.clock()
    with store.snapshot() as snap:
        for id in entry.derived_from:
            source = snap.entry(id, now, agent)
            fate = source and snap.fate(source, now, agent)
            if source is None or fate is not None or source.disputed:
                return f"{id} is {fate.reason if fate else 'in dispute'} since"
    return None


def approve(store: Store, writer: Writer, agent: Agent | None, entry: Entry) -> None:
    """Approve a proposal: it is shown for as long as the longest of its sources, and these are
    filed away. An agent of None is the operator, who may file away anything."""
    if reason := outdated(store, entry, agent):
        raise Conflict(
            f"{entry.id} cannot take the place of its sources: {reason}; reject it", id=entry.id
        )
    sources = [store.entry(id) for id in entry.derived_from]
    if agent is not None:
        for source in sources:
            may_close(agent, source, store.settings, "file away")
    until, now = max(source.expires for source in sources), store.clock()
    ttl = "never" if until == NEVER else f"{max(-((now - until) // SECOND), 1)}s"
    writer.act("approve", entry=entry.id, trust=entry.trust, ttl=ttl)
    try:
        nightly_run = str(store.commit.get(entry.id).fields.get("night", ""))
    except (KeyError, NotFound):
        nightly_run = ""
    fields = {"phase": "merge", "night": nightly_run, "reason": "merged", "heirs": [entry.id]}
    filed = Record.new("archive", CONSOLIDATOR, fields | {"ids": list(entry.derived_from)})
    store.commit.append(filed, once=f"approved:{entry.id}")
