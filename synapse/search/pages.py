"""The pages of a plain read: the filters, checked, and the time until which a page stays true.
Called by `AgentMemory`, which keeps the pages.
"""

from __future__ import annotations

from synapse.errors import InvalidQuery
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent
from synapse.model.clock import DAY
from synapse.model.dates import since as parse_since
from synapse.model.entry import NEVER, check_priority, words
from synapse.model.namespace import check_globs
from synapse.model.results import Page
from synapse.store import Store
from synapse.system.typed import Any


def page(
    store: Store, agent: Agent | None, snap: Snapshot, now: int, *asked: Any
) -> tuple[Page, int]:
    """Return the page, and the microsecond until which it stays true if nothing is written."""
    conditions, since = filters(now, *asked), asked[0]
    entries = snap.page(agent, conditions, now)
    lapses = [entry.expires for entry in entries]
    lapses += [store.entry(id).expires for entry in entries for id in entry.disputed]
    floor = conditions.since
    if floor is not None and isinstance(since, str) and floor != parse_since(since, now + 1):
        lapses += [entry.at + (now - floor) for entry in entries[-1:]]
    if isinstance(since, str):
        lapses.append((now // DAY + 1) * DAY)  # `yesterday` is another day from then on
    until = min([snap.next_change(now), *lapses], default=NEVER)
    return Page(entries, snap.cursor, lambda: snap.count(agent, conditions, now)), until


def filters(
    now: int,
    since: str | int | None,
    priority: str | tuple[str, ...],
    namespace: str | tuple[str, ...],
    author: str | None,
    tag: str | None,
    limit: int | None,
    archived: bool,
) -> Filter:
    """Return what a page is asked for, checked."""
    priorities = tuple(sorted(map(check_priority, words(priority))))
    if limit is not None and limit < 0:
        raise InvalidQuery(f"limit {limit} is negative", limit=limit)
    globs = check_globs(words(namespace))
    return Filter(priorities, globs, author, tag, archived, parse_since(since, now), limit)
