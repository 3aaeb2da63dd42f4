"""Supervisors that are told of news in other ways than the shipped one: by notifications that fail,
or of everything.

In the product each write notifies the supervisor, which looks at the log then, and by itself every
second; a notification may be lost, and its news be delivered twice. Under virtual time nothing is
notified by itself: here every act does that which writes, through a line with these faults. What is
told, and to whom, is the product's.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, ParamSpec, TypeVar

from orchestrator import Supervisor
from orchestrator.sessions.memory_thread import MemoryThread
from orchestrator.sessions.wake import News
from synapse.core import Memory
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.records import entry_of

P = ParamSpec("P")
R = TypeVar("R")


class Line(NamedTuple):
    """The shares of notifications that are lost and of news that come twice, and their dice."""

    lost: float
    twice: float
    random: Random


class _NotifyingThread(MemoryThread):
    """A memory thread that notifies after all that it did."""

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__(inline=True)
        self._ring = ring

    async def __call__(self, act: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        try:
            return await super().__call__(act, *args, **named)
        finally:
            self._ring()


class LossyNotifications(Supervisor):
    """A supervisor whose notifications are lost or repeated."""

    def __init__(self, memory: Memory, line: Line, **options: Any) -> None:
        super().__init__(memory, **options)
        self.memory_thread = _NotifyingThread(self.ring)
        self._line = line
        self._mark = memory.store.log.mark()
        self._delivered: set[tuple[str, str]] = set()  # run and entry
        self._again: list[tuple[str, News]] = []

    def ring(self) -> None:
        """Notify once of all that was written since the last time."""
        mark = self.run_store.store.log.mark()
        if mark != self._mark:
            self._mark = mark
            if self._line.random.random() >= self._line.lost:
                self._notify()

    async def _hear(self) -> None:
        """Deliver a second time what is to be delivered twice."""
        waiting, self._again = self._again, []
        for run, news in waiting:
            session = self.sessions.get(run)
            if session is not None and news.entry.id in session.inbox:
                self._again.append((run, news))
            elif session is not None:
                session.offer(news)
        await super()._hear()
        for run, session in self.sessions.items():
            for id, news in session.inbox.items():
                if (run, id) not in self._delivered:
                    self._delivered.add((run, id))
                    if self._line.random.random() < self._line.twice:
                        self._again.append((run, news))


class Telling(Supervisor):
    """One that tells every session, between two of its turns, all that others have written since
    and that is more than information: one message for all of it, and nothing is interrupted for it,
    so that no tokens are spent in vain.
    """

    def __init__(self, memory: Memory, **options: Any) -> None:
        super().__init__(memory, **options)
        self._agent_memory = memory.as_agent(OPERATOR)
        self._cursor = 0
        self._entries: list[Entry] = []
        self._passed: dict[str, int] = {}  # of each run, entries that were looked at

    async def _hear(self) -> None:
        """Put what is new into the inboxes of all sessions but its author's."""
        await super()._hear()
        store = self.run_store.store
        for record in store.log.since(self._cursor):
            self._cursor = record.seq
            if record.kind == "entry" and (entry := entry_of(record)).priority != "info":
                self._entries.append(entry)
        for id, session in self.sessions.items():
            for entry in self._entries[self._passed.get(id, 0) :]:
                if (
                    entry.author != session.run.agent
                    and entry.id not in session.seen
                    and self._stands(entry)
                ):
                    session.seen.add(entry.id)
                    session.inbox[entry.id] = News(entry, self.run_store.store.clock())
                    session.changed.set()
            self._passed[id] = len(self._entries)

    def _stands(self, entry: Entry) -> bool:
        """Return whether the entry still holds."""
        return self._agent_memory.fate(entry.id) is None
