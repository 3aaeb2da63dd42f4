"""The entries that came for a conversation, and that it was not given yet.

Reads the log and the state of a session; changes neither. Called by the hooks, which give the
entries, and by the wakes of idle sessions.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.plugin.sessions.state import Worker
from orchestrator.sessions.wake import News, NewsFeed, Reader
from synapse.model.agents import Agent
from synapse.store import Store

NO_QUOTA = 1 << 30  # a client's own turns limit how much is told


def read_news(
    store: Store, worker: Worker, agent: Agent, about: Sequence[str] = (), woken: bool = False
) -> tuple[list[News], int]:
    """Return the entries behind the worker's cursor that concern it, and the cursor behind them."""
    feed = NewsFeed(store, quota=NO_QUOTA, cursor=worker.cursor)
    ids = frozenset(worker.seen)
    reader = Reader(agent, tuple(about), ids, worker.cursor, woken)
    news = [
        News(entry, 0, tier)
        for _, entry, tier in feed.news({worker.run: reader})
        if entry.id not in ids
    ]
    return news, feed.cursor


def waiting_news(store: Store, worker: Worker) -> list[News]:
    """Return the entries that were read for the worker earlier, and that still wait."""
    now = store.clock()
    news = []
    with store.snapshot(late=True) as snap:
        for item in worker.due:
            tier, _, id = item.partition(" ")
            entry = None if id in worker.seen else snap.entry(id, now)
            if entry is not None:
                news.append(News(entry, 0, tier))
    return news
