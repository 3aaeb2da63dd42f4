"""The hub of all streams: one thread that follows the log, and tells each subscriber of its events.

It wakes by the log's notification and reads each record once, however many listen. What an agent
is told of is asked of `synapse.notify`; nothing here decides it. Called by the routes of this
package; `application` closes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from threading import Event as Flag
from threading import Lock, Thread
from typing import NamedTuple

from anyio import CapacityLimiter
from starlette.requests import HTTPConnection

from synapse.access.gate import Access
from synapse.agent_memory import start_cursor
from synapse.errors import NotFound, StoreError
from synapse.model.agents import Agent
from synapse.model.results import Event
from synapse.notify import RECONCILE, is_news
from synapse.server.problems import TooMany
from synapse.server.stream.following import Following
from synapse.server.stream.frames import Frame, frame_of
from synapse.server.stream.subscription import (
    CHANGED,
    ENDING,
    FAILED,
    End,
    News,
    Pace,
    Subscription,
    gone,
)
from synapse.store import Store
from synapse.system.signal import NotificationPipe

CHUNK = 200  # events that are told at once
MOST = 2_000  # open streams
MOST_OF_ONE = 500  # open streams of one token, or browser
READERS = 4  # streams that read the log by themselves at once
CLOSING = 0.8  # seconds that streams have to end
PAUSE = 1.0  # after a look that failed
log = logging.getLogger(__name__)


class Chunk(NamedTuple):
    """What came after one cursor, up to another: the news of each agent that listens, and why and
    where the streams of some end.
    """

    start: int
    end: int
    replaced: bool  # whether the journal was replaced, from `start` on
    news: dict[str, News]
    ended: dict[str, tuple[End, int]]


class Hub:
    """All streams of a server. The methods are the event loop's; the thread calls them there, one
    after the other.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pace = Pace()
        self.reading = CapacityLimiter(READERS)
        self.streams: Counter[str] = Counter()  # open ones, by `websocket` and `sse`
        self.closed = False
        self._position: int | None = None
        self._subscriptions: set[Subscription] = set()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._pipe: NotificationPipe | None = None

    def position(self) -> int | None:
        """Return up to where it has told of the log; None where it does not follow it yet."""
        return self._position

    def add(self, subscription: Subscription) -> None:
        """Add a subscription, to be told of what comes; TooMany beyond the limits."""
        if self.closed:
            raise StoreError("the server ends: ask again")
        key = subscription.caller.key
        of_one = sum(present.caller.key == key for present in self._subscriptions)
        if len(self._subscriptions) >= MOST or of_one >= MOST_OF_ONE:
            raise TooMany(
                "so many streams are open already: end some first", action="open a stream"
            )
        self.streams[subscription.form] += 1
        with self._lock:
            self._subscriptions.add(subscription)
            if self._thread is None:
                self._position = None
                loop = asyncio.get_running_loop()
                self._thread = Thread(
                    target=self._follow, args=(loop,), name="streams", daemon=True
                )
                self._thread.start()

    def remove(self, subscription: Subscription) -> None:
        self.streams[subscription.form] -= 1
        with self._lock:
            self._subscriptions.discard(subscription)

    async def close(self) -> None:
        """End all streams, each with the cursor to resume from, and the thread."""
        self.closed = True
        for subscription in tuple(self._subscriptions):
            subscription.end(ENDING)
        until = time.monotonic() + CLOSING
        while self._subscriptions and time.monotonic() < until:
            await asyncio.sleep(0.01)
        with self._lock:
            self._subscriptions.clear()
            thread, pipe = self._thread, self._pipe
        if pipe is not None:
            pipe.wake()
        if thread is not None:
            await asyncio.to_thread(thread.join, 4 * RECONCILE)

    # -- on the event loop, called by the thread ---------------------------------------------------

    def _begin(self, cursor: int) -> None:
        self._position = cursor
        for subscription in self._subscriptions:
            subscription.wake()

    def _deliver(self, chunk: Chunk) -> None:
        self._position = chunk.end
        for subscription in self._subscriptions:
            agent = subscription.caller.agent
            news = chunk.news.get(agent)
            why, end = chunk.ended.get(agent, (None, chunk.end))
            subscription.offer(chunk.start, end, news, replaced=chunk.replaced)
            if why is not None:
                subscription.end(why)

    def _fail(self) -> None:
        self._position = None
        for subscription in self._subscriptions:
            subscription.end(FAILED)

    # -- in the thread -----------------------------------------------------------------------------

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        store = self.store
        pipe = self._pipe = NotificationPipe(store.log.pipes) if store.log.pipes else None
        follower: Following | None = None
        try:
            while self._has_listeners():
                try:
                    if follower is None:
                        end = start_cursor(store)
                        follower = Following(store, None, end, end)
                        self._call(loop, partial(self._begin, follower.cursor))
                    for chunk in self._look(follower):
                        self._call(loop, partial(self._deliver, chunk))
                    if pipe is None:
                        time.sleep(0.01)
                    elif not pipe.wait(RECONCILE):
                        store.refresh()
                except _LoopClosed:
                    return
                except Exception as error:  # the disk, or the log: it may pass
                    log.warning("streams end: %s: %s", type(error).__name__, error)
                    follower = None
                    self._call(loop, self._fail)
                    time.sleep(PAUSE)
        except _LoopClosed:
            return
        finally:
            if pipe is not None:
                pipe.close()

    def _has_listeners(self) -> bool:
        with self._lock:
            if not self._subscriptions:
                self._thread = self._pipe = None
            return bool(self._subscriptions)

    def _call(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        """Run a call on the event loop, and wait for its end: one chunk at most is on its way."""
        done = Flag()

        def run() -> None:
            try:
                act()
            finally:
                done.set()

        try:
            loop.call_soon_threadsafe(run)
        except RuntimeError:
            raise _LoopClosed from None
        while not done.wait(1.0):
            if loop.is_closed() or not loop.is_running():
                raise _LoopClosed

    def _look(self, follower: Following) -> Iterator[Chunk]:
        """Yield what has come since the last look, a part at a time."""
        with self._lock:
            groups = Groups(tuple(self._subscriptions))
        if groups.gone or groups.differ:
            position = follower.cursor
            ended = {name: (end, position) for name, end in groups.gone.items()}
            yield Chunk(position, position, False, groups.news((), {}), ended)
        with closing(follower.poll()) as events:
            while True:
                start, follower.fork = follower.cursor, None
                follower.declared.clear()
                news = groups.news(islice(events, CHUNK), follower.declared)
                replaced = follower.fork is not None
                if follower.fork is not None:
                    start = follower.fork
                if follower.cursor == start and not replaced:
                    return
                ended = groups.drop(follower.declared)
                yield Chunk(start, follower.cursor, replaced, news, ended)


class Groups:
    """The agents that listen, each once, as they are registered when a look begins."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self.gone: dict[str, End] = {}
        self.differ = False  # whether one listens that was registered otherwise
        self._agents: dict[str, tuple[Access, Agent | None]] = {}
        for subscription in subscriptions:
            name, access = subscription.caller.agent, subscription.memory.access
            if name not in self._agents and name not in self.gone:
                try:
                    self._agents[name] = access, access.agent()
                except NotFound as error:
                    self.gone[name] = gone(error)
            if name in self._agents and self._agents[name][1] != subscription.agent:
                self.differ = True

    def drop(self, declared: Mapping[str, int]) -> dict[str, tuple[End, int]]:
        """Remove these agents; return where and why their streams end."""
        return {
            name: (CHANGED, seq) for name, seq in declared.items() if self._agents.pop(name, None)
        }

    def news(self, events: Iterable[Event], declared: Mapping[str, int]) -> dict[str, News]:
        """Return the news of each agent. One that is declared anew is told of nothing behind that;
        `declared` grows as the events are drawn.
        """
        news: dict[str, News] = {name: (agent, []) for name, (_, agent) in self._agents.items()}
        for event in events:
            plain: Frame | None = None
            for name, (access, agent) in self._agents.items():
                if name in declared or not is_news(event.entry, agent):
                    continue
                (opened,) = access.following(iter((event,)))
                if opened == event:
                    plain = frame = plain or frame_of(event)
                else:
                    frame = frame_of(opened)
                news[name][1].append((opened.entry, frame))
        return news


class _LoopClosed(Exception):
    """The event loop ended: nobody listens."""


def hub_of(connection: HTTPConnection) -> Hub:
    hub = connection.app.state.hub
    assert isinstance(hub, Hub)
    return hub
