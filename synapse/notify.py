"""Who is told of what: routing to deliveries (pure), and following the log by its cursor.

A notification is a hint and may be lost; the cursor is the truth. A follower misses nothing and is
told nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator

from synapse.authority import is_merged, visible, wakes
from synapse.errors import StoreCorrupt
from synapse.model import namespace as ns
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.records import Record, entry_of
from synapse.model.results import Event
from synapse.system.signal import NotificationPipe
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.model.agents import Agent
    from synapse.store import Store


RECONCILE = 0.25
AHEAD = 500  # so far it looks for a record's void before it tells of it
# How soon a conversation is told: at once; before its next turn; or beside that turn, where the
# entry concerns what it works at.
NOW, SOON, BESIDE = "now", "soon", "beside"


class Delivery(NamedTuple):
    """An entry on its way to an agent: `now` to a live session, `next` at the start of the next
    one.
    """

    agent: str
    entry: str
    tier: str


def route(entry: Entry, agents: Iterable[Agent]) -> list[Delivery]:
    """Return to whom an entry goes, and how soon; entries of priority info go to nobody. Pure."""
    deliveries = []
    for agent in agents:
        if entry.author == agent.id or entry.staged or not visible(entry, agent):
            continue
        if wakes(entry, agent):
            deliveries.append(Delivery(agent.id, entry.id, "now"))
        elif entry.priority != "info":
            deliveries.append(Delivery(agent.id, entry.id, "next"))
    return deliveries


def tier(entry: Entry, agent: Agent, seen: Collection[str] = ()) -> str | None:
    """Return how soon a conversation of the agent is told of an entry that came after it began;
    None where it is not. It was shown the entries whose ids it has seen. Pure.
    """
    if wakes(entry, agent):
        return NOW
    if entry.of_run_of(agent.id) or entry.staged or not visible(entry, agent):
        return None
    if entry.trust == "unverified" or is_merged(entry) or entry.when:
        return None
    # what the operator says to all is for each of them
    addressed = entry.addressees != ("all",) or entry.author == OPERATOR
    return SOON if addressed or any(id in seen for id in entry.replaces) else BESIDE


class Follower:
    """One agent's ear at the log; `poll` looks once. Whether an entry is tainted is asked late, as
    far as it is known, unless there is a doubt.
    """

    def __init__(
        self, store: Store, agent: Callable[[], Agent | None], cursor: int, critical: bool = False
    ) -> None:
        self.log = log = store.log
        self.store = store
        self.doubtful = False
        self.agent = agent
        self.cursor = cursor
        self.critical = critical
        self.turn = self._turn()
        self.doubts = log.doubts
        self.proof = log.proof(cursor)
        self.looked: object = None  # where the log stood when there was no more to read

    def poll(self) -> Generator[Event]:
        """Yield every event after the cursor, which moves on with each record, told of or not."""
        state = self.log.mark(), self.log.doubts
        if state == self.looked:
            return
        agent = self.agent()
        self._rejoin()
        while True:
            batch, proof = self.log.batch(self.cursor, AHEAD, self.proof)
            if not batch:
                self.looked = state
                return
            # one that is tainted later is not told of; beyond a full batch that is looked up
            self.doubtful = len(batch) >= AHEAD or any(r.kind == "taint" for r in batch)
            voids = {record.fields["seq"] for record in batch if record.kind == "void"}
            try:
                for record in batch:
                    event = None if record.seq in voids else self._event(record, agent)
                    self.cursor = record.seq
                    if event is not None:
                        yield event
            finally:  # whoever stops in the middle has seen so much, and no more
                self.proof = proof if self.cursor == batch[-1].seq else self.log.proof(self.cursor)

    def _rejoin(self) -> None:
        """Go on from where the two part if the log is another one than was followed, as after a
        checkout.
        """
        self.log.mark()
        doubts, turn = self.log.doubts, self._turn()
        if (doubts, turn) == (self.doubts, self.turn):
            return
        if not self.log.holds(self.proof):
            fork = self.store.index.fork(self.turn)
            if fork is None:
                raise StoreCorrupt("the journal is another one than was followed: follow it anew")
            self.cursor = min(self.cursor, fork)
            self.proof = self.log.proof(self.cursor)
        self.doubts, self.turn = doubts, turn

    def _turn(self) -> int:
        """Return how often the log turned out to be another one, as far as that was noticed."""
        with self.store.snapshot() as snap:
            return snap.turn

    def _event(self, record: Record, agent: Agent | None) -> Event | None:
        fields = record.fields
        if record.kind == "entry":
            if fields.get("staged") or (self.critical and fields.get("priority") != "critical"):
                return None
            if _out_of_reach(record, agent):
                return None
            return self._for_reader(record.seq, "entry", entry_of(record), agent)
        if record.kind in ("approve", "vouch"):
            entry = self.store.entry(fields["entry"])
            if record.kind == "vouch" or not self.critical or entry.priority == "critical":
                return self._for_reader(
                    record.seq, record.kind, entry._replace(staged=False), agent
                )
        return None

    def _for_reader(self, seq: int, kind: str, entry: Entry, agent: Agent | None) -> Event | None:
        if self.critical and entry.priority != "critical":
            return None
        if not is_news(entry, agent):
            return None
        late = not (self.doubtful or entry.derived_from or "cites" in entry.more)
        with self.store.snapshot(late=late) as snap:
            if snap.is_tainted(entry.id):
                return None
        return Event(seq, kind, entry)


def is_news(entry: Entry, agent: Agent | None) -> bool:
    """Return whether a follower tells this agent of an entry of which it tells the operator, who is
    an agent of None.
    """
    return agent is None or (entry.author != agent.id and visible(entry, agent))


def _out_of_reach(record: Record, agent: Agent | None) -> bool:
    """Return whether the fields alone say that the agent cannot see it: most records of a busy log
    end here.
    """
    if agent is None:
        return False
    if record.by == agent.id:
        return True
    said_to_all = "addressees" not in record.fields
    return said_to_all and not ns.matches_any(agent.reads, record.fields["namespace"])


def follow(
    follower: Follower, pipes: str | None, refresh: Callable[[], None], timeout: float | None = None
) -> Iterator[Event]:
    """Yield events as they come. Rung or not, it looks again four times a second; `refresh` runs
    before such a look.
    """
    pipe = NotificationPipe(pipes) if pipes else None
    until = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            yield from follower.poll()
            remaining = RECONCILE if until is None else min(RECONCILE, until - time.monotonic())
            if remaining <= 0:
                return
            if pipe is None:
                time.sleep(min(remaining, 0.01))
            elif not pipe.wait(remaining):
                refresh()
    finally:
        if pipe:
            pipe.close()
