"""The entries that wait for review: how many may, how long each does, and the end of their time.
Rulings on them are in `review`.
"""

from __future__ import annotations

from contextlib import suppress

from synapse.errors import Conflict, QueueFull
from synapse.model.entry import NEVER, Entry, parse_ttl
from synapse.model.records import Guard, sum_below
from synapse.store import Store

KEY = "staging"  # of the records of these entries, by which they are counted


def room(store: Store) -> Guard:
    """Return the guard that holds where one more entry may wait."""
    return sum_below(KEY, store.settings.staging_limit)


def refusal(store: Store, conflict: Conflict) -> Conflict | QueueFull:
    """Return the error of a write that this guard was one of: what it refused, or as it is."""
    if conflict.details.get("key") != KEY:
        return conflict
    limit = store.settings.staging_limit
    return QueueFull(f"{limit} entries wait for review; approve or reject some first", limit=limit)


def waits_until(store: Store, entry: Entry) -> int:
    """Return the microsecond at which a staged entry's time is up."""
    span = parse_ttl(store.settings.staging_ttl)
    return NEVER if span is None else entry.at + span


def expire(store: Store) -> None:
    """Turn away what waited for review longer than the settings allow."""
    if store.readonly:
        return
    with store.snapshot() as snap:
        waiting = snap.staged()
    now = store.clock()
    for entry in waiting:
        if waits_until(store, entry) <= now:
            why = "nobody reviewed it in time"
            with suppress(Conflict):  # somebody just did
                store.commit.act("reject", "log", entry=entry.id, reason=why)
