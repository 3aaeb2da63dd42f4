"""Changes of resources: which ones a record touches, and a thread that notifies their subscribers.

One `Watch` follows one log for all subscribers, from before the first of them was answered. The
cursor is the truth and a notification a hint, as with every follower. Knows no SDK.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from threading import Lock, Thread

from synapse.agent_memory import AgentMemory
from synapse.authority import visible
from synapse.errors import Forbidden, NotFound, StoreCorrupt, SynapseError
from synapse.mcp.resources import ENTRY, VIEW, Target
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import Entry
from synapse.model.records import Record, touched_by
from synapse.model.results import Event
from synapse.notify import RECONCILE, Follower
from synapse.store import Store
from synapse.system.signal import NotificationPipe

# What changes a view or an entry. Marks, deliveries and runs change neither.
KINDS = frozenset(
    "entry approve reject vouch resolve archive restore undo taint untaint agent settings".split()
)
PAUSE = 1.0  # after a look that failed
TRIES = 60  # so often is told of again what could not be told

log = logging.getLogger(__name__)


class Subscriber:
    """Somebody who is told when something changes that its agent memory may see. `tell` is called
    in the watch's thread.
    """

    def __init__(
        self, agent_memory: AgentMemory, targets: Iterable[Target], tell: Callable[[str], None]
    ) -> None:
        self.agent_memory = agent_memory
        self.targets = set(targets)
        self.tell = tell


class Changes(Follower):
    """A follower that gathers the records which change a resource, whosever they are."""

    def __init__(self, store: Store) -> None:
        store.refresh()
        with store.snapshot() as snap:
            cursor = snap.cursor
        super().__init__(store, lambda: None, cursor)
        self._gathered: list[Record] = []

    def look(self) -> list[Record]:
        """Return what has come since the last look."""
        for _ in self.poll():
            pass
        gathered, self._gathered = self._gathered, []
        return gathered

    def _event(self, record: Record, agent: Agent | None) -> Event | None:
        if record.kind in KINDS:
            self._gathered.append(record)
        return None


class Watch:
    """Follows a log as long as there is a subscriber. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = Lock()
        self._subscribers: list[Subscriber] = []
        self._changes: Changes | None = None
        self._thread: Thread | None = None
        # what a look found that failed before all were told
        self._untold: list[Record] = []
        self._tries = 0

    def add(self, subscriber: Subscriber) -> None:
        """Tell it of every change after this call."""
        with self._lock:
            self._subscribers.append(subscriber)
            if self._thread is None:
                self._changes = Changes(self.store)
                self._thread = Thread(target=self._follow, name="mcp-changes", daemon=True)
                self._thread.start()

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

    def close(self) -> None:
        """Tell nobody any more, and end the thread that follows the log."""
        with self._lock:
            self._subscribers.clear()
            thread = self._thread
        if thread is not None:
            thread.join(4 * RECONCILE)

    def _follow(self) -> None:
        pipe = NotificationPipe(self.store.log.pipes) if self.store.log.pipes else None
        try:
            while self._has_listeners():
                try:
                    self._look()
                    if pipe is None:
                        time.sleep(0.01)
                    elif not pipe.wait(RECONCILE):
                        self.store.refresh()
                except Exception as error:
                    # a fault of the disk or the log: it may pass
                    self._handle_failure(error)
        finally:
            if pipe:
                pipe.close()

    def _has_listeners(self) -> bool:
        """Return whether anybody still subscribes; without subscribers the thread ends."""
        with self._lock:
            if not self._subscribers:
                self._thread = self._changes = None
            return bool(self._subscribers)

    def _handle_failure(self, error: Exception) -> None:
        log.warning("changes are not seen: %s: %s", type(error).__name__, error)
        if self._tries >= TRIES:
            self._untold, self._tries = [], 0
        time.sleep(PAUSE)
        # another journal: whatever they know may be wrong
        if isinstance(error, StoreCorrupt):
            try:
                self._changes = Changes(self.store)
            except SynapseError:
                return
            for subscriber in self._listeners():
                for target in tuple(subscriber.targets):
                    subscriber.tell(target.uri)

    def _listeners(self) -> list[Subscriber]:
        with self._lock:
            return list(self._subscribers)

    def _look(self) -> None:
        assert self._changes is not None
        self._untold += self._changes.look()
        if not self._untold:
            return
        self._tries += 1
        entries = self._entries(self._untold)
        # after the look: who came before it is among them
        for subscriber in self._listeners():
            try:
                uris = _targets_concerned(subscriber, self._untold, entries)
            except (NotFound, Forbidden):
                continue  # its agent, or its run, is no more
            for uri in sorted(uris):
                subscriber.tell(uri)
        self._untold, self._tries = [], 0

    def _entries(self, records: Iterable[Record]) -> dict[str, Entry]:
        """Return the entries that the records touch, as they are now."""
        entries: dict[str, Entry] = {}
        for id in dict.fromkeys(id for record in records for id in ids_of(record)):
            try:
                entries[id] = self.store.entry(id)
            except NotFound:
                continue
        return entries


def ids_of(record: Record) -> list[str]:
    """Return the entries that a record changes: one that is written, and those that it replaces."""
    fields = record.fields
    if record.kind in ("undo", "untaint"):
        return touched_by(record)
    own = [record.id] if record.id else []
    return [
        *own,
        *fields.get("replaces", ()),
        *fields.get("ids", ()),
        *filter(None, [fields.get("entry")]),
    ]


def _targets_concerned(
    subscriber: Subscriber, records: Iterable[Record], entries: dict[str, Entry]
) -> set[str]:
    """Return the addresses that changed for this subscriber, among those that it asked for. What
    it may not see changes nothing for it."""
    concerned: set[str] = set()
    targets = tuple(subscriber.targets)
    declared = [record for record in records if record.kind in ("agent", "settings")]
    for target in targets:
        if target.kind == VIEW:
            declared_anew = any(
                record.kind == "settings" or _is_declaration(record, target.name)
                for record in declared
            )
            if declared_anew or _is_in_view(subscriber.agent_memory, target.name, entries.values()):
                concerned.add(target.uri)
        elif (
            target.kind == ENTRY
            and target.name in entries
            and _may_see(subscriber.agent_memory, target.name)
        ):
            concerned.add(target.uri)
    return concerned


def _is_declaration(record: Record, id: str) -> bool:
    agent = record.fields.get("agent")
    return isinstance(agent, dict) and agent.get("id") == id


def _is_in_view(agent_memory: AgentMemory, name: str, entries: Iterable[Entry]) -> bool:
    """Return whether an agent may see one of the entries. A run sees what its project's members
    see."""
    agent = agent_memory.agent if name == agent_memory.id else agent_memory.store.agents.get(name)
    if agent is None and name != OPERATOR:
        return False
    return any(not entry.staged and visible(entry, agent) for entry in entries)


def _may_see(agent_memory: AgentMemory, id: str) -> bool:
    try:
        return bool(agent_memory.get(id))
    except NotFound:
        return False
