"""Subscriptions to resources, in the form of each revision of the protocol.

Up to 2025-11-25 a client subscribes to one address after another, and is told on its connection's
own channel; from 2026-07-28 on it opens a stream that is answered for as long as it listens. Either
way what the caller may not see is not subscribed to, and asked again at each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError
from synapse.mcp.changes import Subscriber, Watch
from synapse.mcp.resources import Target, demand, target_of
from synapse.store import Store

Context = ServerRequestContext[Any, Any]
MOST = 1_000  # addresses of one connection, and streams of a server


class Watches:
    """The watch of each log that somebody listens to."""

    def __init__(self) -> None:
        self._of: dict[Store, Watch] = {}

    def of(self, store: Store) -> Watch:
        return self._of.setdefault(store, Watch(store))

    def close(self) -> None:
        for watch in self._of.values():
            watch.close()


class Channel:
    """A connection of the older revisions: what it subscribed to, and one task that tells it. An
    address that changes again before it was told is told once."""

    def __init__(self, session: ServerSession, watches: Watches) -> None:
        self._session = session
        self._watches = watches
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._subscribers: dict[object, Subscriber] = {}
        self._waiting: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, agent_memory: AgentMemory, target: Target) -> None:
        """Subscribe to an address. Runs in a thread of its own: it looks at the log."""
        demand(agent_memory, target)
        with self._lock:
            if sum(len(present.targets) for present in self._subscribers.values()) >= MOST:
                raise MCPError(
                    types.INVALID_REQUEST,
                    f"this connection has {MOST} subscriptions: end some first",
                )
            subscriber = self._subscribers.get(_memory_key(agent_memory))
            if subscriber is None:
                subscriber = self._subscribers[_memory_key(agent_memory)] = Subscriber(
                    agent_memory, (target,), self._on_change
                )
                self._watches.of(agent_memory.store).add(subscriber)
            subscriber.targets.add(target)

    def drop(self, agent_memory: AgentMemory, target: Target) -> None:
        with self._lock:
            subscriber = self._subscribers.get(_memory_key(agent_memory))
            if subscriber is not None:
                subscriber.targets.discard(target)
                if not subscriber.targets:
                    self._watches.of(agent_memory.store).remove(
                        self._subscribers.pop(_memory_key(agent_memory))
                    )

    def close(self) -> None:
        with self._lock:
            for subscriber in self._subscribers.values():
                self._watches.of(subscriber.agent_memory.store).remove(subscriber)
            self._subscribers.clear()

    def _on_change(self, uri: str) -> None:
        _call_on(self._loop, lambda: self._wait(uri))

    def _wait(self, uri: str) -> None:
        self._waiting[uri] = None
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            uri = next(iter(self._waiting))
            del self._waiting[uri]
            await self._session.send_resource_updated(uri)


class Stream:
    """The bus behind one stream of the newer revision: the SDK's handler listens to it."""

    def __init__(
        self, agent_memory: AgentMemory, targets: Iterable[Target], watches: Watches
    ) -> None:
        self._agent_memory = agent_memory
        self._targets = tuple(targets)
        self._watch = watches.of(agent_memory.store)
        self._loop = asyncio.get_running_loop()
        self._listener: Callable[[ServerEvent], None] | None = None
        self._subscriber = Subscriber(agent_memory, self._targets, self._on_change)
        self._early: list[str] = []

    def begin(self) -> None:
        """Follow the log from now on. Runs in a thread of its own."""
        self._watch.add(self._subscriber)

    async def publish(self, event: ServerEvent) -> None:
        """Ignore events: subscribers hear only what the log holds."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._listener = listener
        for uri in self._early:
            listener(ResourceUpdated(uri))
        return self.end

    def end(self) -> None:
        self._watch.remove(self._subscriber)

    def _on_change(self, uri: str) -> None:
        _call_on(self._loop, lambda: self._deliver(uri))

    def _deliver(self, uri: str) -> None:
        if self._listener is None:
            self._early.append(uri)
        else:
            self._listener(ResourceUpdated(uri))


class Subscriptions:
    """Both ways to subscribe, for all connections of one server."""

    def __init__(self) -> None:
        self._watches = Watches()
        self._channels: dict[object, Channel] = {}
        self._streams = 0

    def channel(self, context: Context) -> Channel:
        """Return the channel of a request's connection, which closes with it."""
        # The SDK has no public name for a request's connection, nor another way to hear of its end.
        connection = context.session._connection
        subscribed = self._channels.get(connection)
        if subscribed is None:
            subscribed = self._channels[connection] = Channel(context.session, self._watches)
            connection.exit_stack.callback(self._close, connection)
        return subscribed

    def _close(self, connection: object) -> None:
        self._channels.pop(connection).close()

    def close(self) -> None:
        self._watches.close()

    async def listen(
        self,
        context: Context,
        params: types.SubscriptionsListenRequestParams,
        agent_memory: AgentMemory,
        targets: list[Target],
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of these targets until its client hangs up."""
        if self._streams >= MOST:
            raise MCPError(types.INTERNAL_ERROR, f"{MOST} streams are open: end some first")
        stream = Stream(agent_memory, targets, self._watches)
        granted = types.SubscriptionFilter(
            resource_subscriptions=[target.uri for target in targets]
        )
        self._streams += 1
        try:
            await asyncio.to_thread(stream.begin)
            return await ListenHandler(stream)(
                context, params.model_copy(update={"notifications": granted})
            )
        finally:
            stream.end()
            self._streams -= 1


def allowed(agent_memory: AgentMemory, uris: Iterable[str]) -> list[Target]:
    """Return what of these addresses an agent memory may see; the others are passed over, as if
    they never changed.
    """
    targets: list[Target] = []
    for uri in list(uris)[:MOST]:
        try:
            target = target_of(uri)
            demand(agent_memory, target)
            targets.append(target)
        except SynapseError:
            continue
    return targets


def _memory_key(agent_memory: AgentMemory) -> object:
    """Return a key that two connections of one agent in one run share."""
    return (agent_memory.store, agent_memory.id, agent_memory.writer.run, agent_memory.writer.epoch)


def _call_on(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Run an act on the event loop, unless it is closed: then nobody listens."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        pass
