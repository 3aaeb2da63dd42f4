"""Searching: from what a reader asks, in words and filters, to what full text finds."""

from __future__ import annotations

from synapse.errors import InvalidQuery
from synapse.index.full_text import search as full_text
from synapse.index.snapshot import Filter
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.dates import When, since, span, until
from synapse.model.entry import check_priority, words
from synapse.model.namespace import check_globs
from synapse.model.results import Hits
from synapse.store import Store
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 1_000  # hits of one search


class Asked(NamedTuple):
    """What a search is asked for beside its words, as people write it."""

    limit: int = 10
    namespace: str | Iterable[str] | None = None
    kind: str | Iterable[str] | None = None
    author: str | None = None
    priority: str | Iterable[str] | None = None
    tag: str | None = None
    since: When = None
    until: When = None
    when: str | None = None
    archived: bool = False


def find(
    store: Store, agent: Agent | None, text: str, asked: Asked, mode: str | None = None
) -> Hits:
    """Return the entries of every kind that answer best, by words or by meaning, among those that
    the agent may see.
    """
    if asked.limit < 0:
        raise InvalidQuery(f"limit {asked.limit} is negative", limit=asked.limit)
    now = store.clock()
    query, limit = _filter(asked, now), min(asked.limit, MOST)
    usual = mode is None and not (store.settings.semantic.embedder or store.embeddings.has_vectors)
    if mode == "words" or usual:
        with store.snapshot(words=True) as snap:
            return full_text.search(snap, agent, text, query, now, limit)
    from synapse.search import semantic

    return semantic.search(store, agent, text, query, now, limit, mode)


def _filter(asked: Asked, now: int) -> Filter:
    start, end = since(asked.since, now), until(asked.until, now)
    if asked.when is not None:
        if start is not None or end is not None:
            raise InvalidQuery("`when` says since and until: give it, or those", when=asked.when)
        start, end = span(asked.when, now)
    return Filter(
        priorities=tuple(sorted(map(check_priority, words(asked.priority)))),
        namespaces=check_globs(words(asked.namespace)),
        author=asked.author,
        tag=asked.tag,
        archived=asked.archived,
        since=start,
        until=end,
        kinds=tuple(sorted(map(_kind, words(asked.kind)))),
    )


def _kind(name: str) -> str:
    if name not in kinds.KINDS:
        raise InvalidQuery(f"kind {name!r} is not one of {', '.join(kinds.KINDS)}", kind=name)
    return name
