"""News: what comes into the log, for the sessions that run now and that it concerns. The cursor is
the truth, a bell only hurries.

Whoever has no session gets it at the start of the next one: it is in that view. Nothing here calls
an engine.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestrator.engine import Message
from synapse.authority import is_merged, visible, wakes
from synapse.bell import Bell
from synapse.block import Block, pointer, whole
from synapse.condense import specifics
from synapse.entry import SECOND, Entry
from synapse.notify import Follower
from synapse.relevance import concerns
from synapse.store import Store
from synapse.workspace import Agent

QUOTA = 10  # wakes that one author causes in a minute; what is over waits for the next session
LOOK_EVERY = 0.25
LONG = 1_200  # characters of an entry that is told whole beside a turn
AT_ONCE = 8  # entries that are told beside a turn; the others wait for the next
# How soon news is told: at once, in mid-turn where that can be; before the run ends, if there is no
# turn before; or beside the next turn, and never for its own sake.
NOW, SOON, BESIDE = "now", "soon", "beside"
_MINUTE = 60 * SECOND


class News(NamedTuple):
    """An entry for a live session, when it was put in its inbox, and how soon it is told."""

    entry: Entry
    offered: int
    tier: str = NOW


class Reader(NamedTuple):
    """Who is told: its agent, what it works at (`about`, texts), and the entries it was shown. Where
    `woken`, it is told of what wakes it, and of nothing else."""

    agent: Agent
    about: tuple[str, ...] = ()
    seen: Collection[str] = ()
    since: int = 0  # the place in the log as of which its prompt was made
    woken: bool = False


def tier(entry: Entry, reader: Reader, seq: int) -> str | None:
    """Return how soon a running session is told of an entry that came to be seen at this place of the
    log; None where it does not concern it, or its prompt was made in view of it."""
    agent = reader.agent
    if wakes(entry, agent):
        return NOW
    if reader.woken or seq <= reader.since or entry.author == agent.id or entry.staged or not visible(entry, agent):
        return None
    if entry.trust == "unverified" or is_merged(entry) or entry.when:
        return None
    named = entry.addressees != ("all",)
    if named or any(id in reader.seen for id in entry.replaces):
        return SOON
    said = f"{entry.topic or ''}\n{entry.body}"
    return BESIDE if any(concerns(text, said) for text in reader.about) else None


class Ear:
    """A supervisor's ear at the log. `news` looks once, on the thread that owns the memory."""

    def __init__(self, store: Store, quota: int = QUOTA) -> None:
        self._mark = store.log.mark()  # before it listens: what comes in between is looked at
        store.index.catch_up()
        self.store = store
        self.quota = quota
        self.held: list[str] = []  # entries whose author had used up its wakes
        self._news: list[tuple[str, Entry, str]] = []  # kept where a look fails on the way: the cursor has passed it
        self._woken: dict[str, deque[int]] = defaultdict(deque)
        self._follower = Follower(store.log, lambda: None, store.current, store.index.cursor())

    @property
    def cursor(self) -> int:
        """How far it has listened."""
        return self._follower.cursor

    def news(self, readers: Mapping[str, Reader]) -> list[tuple[str, Entry, str]]:
        """Return what has come that concerns one of these runs, in the order of the log: the run,
        the entry, and how soon it is told."""
        mark = self.store.log.mark()
        if mark == self._mark:
            return []
        for event in self._follower.poll():
            told = {run: tier(event.entry, reader, event.cursor) for run, reader in readers.items()}
            if NOW in told.values() and not self._may_wake(event.entry):
                self.held.append(event.entry.id)
            else:
                self._news += [(run, event.entry, soon) for run, soon in told.items() if soon]
        self._mark = mark
        news, self._news = self._news, []
        return news

    def _may_wake(self, entry: Entry) -> bool:
        """Whether its author has wakes left in this minute."""
        woken = self._woken[entry.author]
        while woken and woken[0] <= entry.at - _MINUTE:
            woken.popleft()
        if len(woken) >= self.quota:
            return False
        woken.append(entry.at)
        return True


def is_known(entry: Entry, texts: Iterable[str]) -> bool:
    """Return whether each name and figure of an entry stands in one of these texts already; an entry
    without any is not known."""
    names = specifics(entry.body)
    known = {name for text in texts for name in names if name in text}
    return bool(names) and known == names


def divided(inbox: Iterable[News], messages: Iterable[Message]) -> tuple[list[News], list[News]]:
    """Return the news to be told now and those for later. Of what is told beside a turn, the oldest
    few are; what adds nothing to a conversation is in neither."""
    said = [message.text for message in messages]
    new = [news for news in inbox if news.tier != BESIDE or not is_known(news.entry, said)]
    later = [news for news in new if news.tier == BESIDE][AT_ONCE:]
    return [news for news in new if news not in later], later


def blocks(entries: Sequence[Entry], news: Iterable[News], commands: bool) -> list[Block]:
    """Return how each of the entries is told: whole, but what is beside the point and long is a line
    with its id."""
    tiers = {each.entry.id: each.tier for each in news}
    return [
        pointer(entry, commands) if tiers[entry.id] == BESIDE and len(entry.body) > LONG else whole(entry, commands)
        for entry in entries
    ]


def standing(store: Store, news: Iterable[News], reader: Agent) -> list[Entry]:
    """The entries of the news, each with what it is in dispute with by now: of that its own record knows nothing."""
    store.index.catch_up()
    now, found = store.clock(), [each.entry for each in news]
    known = [store.index.entry(entry.id, now, reader) or entry for entry in found]
    return [entry._replace(disputed=as_is.disputed) for entry, as_is in zip(found, known, strict=True)]


class Listener:
    """A thread that calls back when the log may have grown. It reads nothing itself."""

    def __init__(self, store: Store, called: Callable[[], None]) -> None:
        self._store = store
        self._called = called
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="synapse-ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(2.0)

    def _listen(self) -> None:
        if self._store.bells is None:
            self._watch()
            return
        bell = Bell(self._store.bells)
        try:
            while not self._over.is_set():
                bell.wait(LOOK_EVERY)
                self._called()
        finally:
            bell.close()

    def _watch(self) -> None:
        """In memory nothing rings: look at the mark."""
        mark = self._store.log.mark()
        while not self._over.wait(0.005):
            now = self._store.log.mark()
            if now != mark:
                mark = now
                self._called()


def soon(loop: AbstractEventLoop, act: Callable[[], None]) -> None:
    """From another thread. A loop that has ended hears nothing any more."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        pass
