"""News for live sessions: which entries of the log concern a session, and how soon it gets them.
Calls no engine; the run store polls it.

The cursor is the truth, a notification only hurries. An agent without a session gets its news at
the start of the next one: it is in that view.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from synapse import notify
from synapse.authority import visible
from synapse.model.agents import Agent
from synapse.model.condense import specifics
from synapse.model.entry import SECOND, Entry
from synapse.model.results import Event
from synapse.notify import BESIDE as BESIDE
from synapse.notify import NOW as NOW
from synapse.notify import SOON as SOON
from synapse.notify import Follower
from synapse.store import Store
from synapse.system.signal import NotificationPipe
from synapse.view.block import Block, pointer, whole
from synapse.view.recall import Question, concerns, questions
from synapse.view.requests import clauses, forms

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from orchestrator.engines.protocol import Message

QUOTA = 10  # wakes that one author causes in a minute; what is over is told late
LATE_TURNS = 10  # entries over the quota for which one run takes a turn of its own
# entries that one author addresses to one run and that are told it, where it has no more authority
TALK = 10
LOOK_EVERY = 0.25
LONG = 1_200  # characters of an entry that is told whole without waking anybody
SHARED = 2  # words of a task that a clause has which says something of it
AT_ONCE = 8  # entries that wake nobody and are told before one turn; the others wait for the next
# How soon news is told, beside what `synapse.notify` says: now is in mid-turn where that can be,
# soon before the run ends, and late as soon, for what is critical and over its author's quota.
LATE = "late"
_MINUTE = 60 * SECOND


class News(NamedTuple):
    """An entry for a live session, when it was put in its inbox, and how soon it is told."""

    entry: Entry
    offered: int
    tier: str = NOW


class Reader(NamedTuple):
    """Who is told: its agent, what it works at (`about`, texts), and the entries it was shown.
    Where `woken`, it is told of what wakes it, and of nothing else.
    """

    agent: Agent
    about: tuple[str, ...] = ()
    seen: Collection[str] = ()
    since: int = 0  # the place in the log as of which its prompt was made
    woken: bool = False


def topics_of(store: Store, readers: Iterable[Reader]) -> dict[str, list[Question]]:
    """Return what each of the texts that these readers work at asks of the memory, as of now."""
    texts = dict.fromkeys(text for reader in readers for text in reader.about)
    if not texts:
        return {}
    with store.snapshot(words=True) as snap:
        return {text: questions(snap, text) for text in texts}


def tier(
    entry: Entry, reader: Reader, seq: int, topics: Mapping[str, Sequence[Question]] = {}
) -> str | None:
    """Return how soon a running session is told of an entry that came to be seen at this place of
    the log; None where it does not concern it, or its prompt was made in view of it. What it works
    at asks this of the memory (`topics_of`).
    """
    soon = notify.tier(entry, reader.agent, reader.seen)
    if soon is None or soon == NOW:
        return soon
    if reader.woken or seq <= reader.since:
        return None
    if soon == BESIDE and not any(concerns(topics[text], entry) for text in reader.about):
        return None
    return soon


class NewsFeed:
    """A supervisor's ear at the log. `news` looks once, on the thread that owns the memory."""

    def __init__(self, store: Store, quota: int = QUOTA, cursor: int | None = None) -> None:
        """Listen from a cursor on, by default from now."""
        # The mark comes before it listens: what is written in between is looked at.
        self._mark: object = None if cursor is not None else store.log.mark()
        self.store = store
        self.quota = quota
        self.held: list[str] = []  # entries whose author had used up its wakes
        # both are kept where a look fails on the way: the cursor has passed them
        self._came: deque[Event] = deque()
        self._news: list[tuple[str, Entry, str]] = []
        self._woken: dict[str, deque[int]] = defaultdict(deque)
        # of each run: entries that an author addressed to it
        self._talk: dict[str, Counter[str]] = defaultdict(Counter)
        with store.snapshot() as snap:
            start = snap.cursor if cursor is None else cursor
        self._follower = Follower(store, lambda: None, start)

    @property
    def cursor(self) -> int:
        """Return the place in the log up to which it has listened."""
        return self._follower.cursor

    def news(self, readers: Mapping[str, Reader]) -> list[tuple[str, Entry, str]]:
        """Return what has come that concerns one of these runs, in the order of the log: the run,
        the entry, and how soon it is told."""
        mark = self.store.log.mark()
        if mark == self._mark:
            return []
        for event in self._follower.poll():
            self._came.append(event)
        topics = topics_of(self.store, readers.values()) if self._came else {}
        while self._came:
            event = self._came.popleft()
            tiers = {run: self._tier(event, run, reader, topics) for run, reader in readers.items()}
            if {NOW, SOON}.isdisjoint(tiers.values()) or self._may_wake(event.entry):
                self._news += [(run, event.entry, soon) for run, soon in tiers.items() if soon]
            else:  # its author had used up its wakes: it interrupts nobody
                if NOW in tiers.values():
                    self.held.append(event.entry.id)
                self._news += [
                    (run, event.entry, LATE if soon == NOW else BESIDE)
                    for run, soon in tiers.items()
                    if soon
                ]
        self._mark = mark
        for run in self._talk.keys() - readers.keys():
            del self._talk[run]
        news, self._news = self._news, []
        return news

    def _tier(
        self, event: Event, run: str, reader: Reader, topics: Mapping[str, Sequence[Question]]
    ) -> str | None:
        """Return how soon a run is told. Two that answer each other come to an end: of what an
        author addresses to a run, the first few entries are told, unless it has more authority.
        """
        entry, soon = event.entry, tier(event.entry, reader, event.cursor, topics)
        if soon != SOON or entry.replaces or entry.authority > reader.agent.rank:
            return soon
        self._talk[run][entry.author] += 1
        if self._talk[run][entry.author] <= TALK:
            return soon
        self.held.append(entry.id)
        return None

    def _may_wake(self, entry: Entry) -> bool:
        """Return whether its author has wakes left in this minute."""
        woken = self._woken[entry.author]
        while woken and not entry.at - _MINUTE < woken[0] <= entry.at:
            woken.popleft()  # a minute ago, or stamped by a clock that was ahead
        if len(woken) >= self.quota:
            return False
        woken.append(entry.at)
        return True


def is_known(entry: Entry, about: Iterable[str], texts: Iterable[str]) -> bool:
    """Return whether these texts say already what an entry says of what somebody works at. That of
    info alone: what is important is never taken for known."""
    if entry.priority != "info":
        return False
    tasks, texts = tuple(about), tuple(texts)
    relevant = [
        clause
        for clause in clauses(entry.body)
        if any(len(forms(task) & forms(clause)) >= SHARED for task in tasks)
    ]
    return bool(relevant) and all(any(_says(text, clause) for text in texts) for clause in relevant)


def _says(text: str, clause: str) -> bool:
    """Return whether a line of a text has all the words of a clause, which has a name or a
    figure.
    """
    name = max(specifics(clause), key=len, default="")
    lines = (line for line in text.split("\n") if name in line) if name and name in text else ()
    return any(forms(clause) <= forms(line) for line in lines)


def divided(
    inbox: Iterable[News], about: Sequence[str], messages: Iterable[Message]
) -> tuple[list[News], list[News]]:
    """Return the news to be told now and those for later. What wakes is told at once; of the rest,
    the oldest few are; what adds nothing to a conversation is in neither.
    """
    texts = [message.text for message in messages]
    now: list[News] = []
    later: list[News] = []
    room = AT_ONCE
    for news in sorted(inbox, key=lambda news: news.tier == BESIDE):
        if news.tier == NOW:
            now.append(news)
        elif not room:
            later.append(news)
        elif news.tier != BESIDE or not is_known(news.entry, about, texts):
            now.append(news)
            room -= 1
    return now, later


def blocks(entries: Sequence[Entry], news: Iterable[News], commands: bool) -> list[Block]:
    """Return how each of the entries is told: what wakes whole; of the rest, what is long as a line
    with its id."""
    tiers = {item.entry.id: item.tier for item in news}
    return [
        pointer(entry, commands)
        if tiers[entry.id] in (SOON, BESIDE) and len(entry.body) > LONG
        else whole(entry, commands)
        for entry in entries
    ]


def answers(news: News, question: str, blocker: str) -> bool:
    """Return whether news may answer what blocks a run: it replaces the blocker, wakes the run, or
    has words of the question in it. What blocks others does not.
    """
    entry = news.entry
    if blocker in entry.replaces:
        return True
    shared = forms(question) & forms(f"{entry.topic or ''}\n{entry.body}")
    return not entry.namespace.startswith("blockers/") and (news.tier != BESIDE or len(shared) > 1)


def standing(store: Store, news: Iterable[News], reader: Agent) -> list[Entry]:
    """Return the entries of the news that still stand and may be seen, each as it is by now: of
    what it is in dispute with, its own record knows nothing.
    """
    with store.snapshot() as snap:
        now = store.clock()
        entries = (snap.entry(item.entry.id, now, reader) for item in news)
        return [
            entry
            for entry in entries
            if entry is not None
            and visible(entry, reader)
            and snap.fate(entry, now, reader) is None
        ]


class Listener:
    """A thread that calls back when the log may have grown. It reads nothing itself."""

    def __init__(self, store: Store, called: Callable[[], None]) -> None:
        self._store = store
        self._called = called
        self._over = threading.Event()
        self._pipe = None if store.log.pipes is None else NotificationPipe(store.log.pipes)
        self._thread = threading.Thread(target=self._listen, name="synapse-ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._pipe is not None:
            self._pipe.wake()
        self._thread.join(2.0)

    def _listen(self) -> None:
        if self._pipe is None:  # in memory nothing notifies: poll the log's mark
            mark = self._store.log.mark()
            while not self._over.wait(0.005):
                now = self._store.log.mark()
                if now != mark:
                    mark = now
                    self._called()
            return
        try:
            while not self._over.is_set():
                self._pipe.wait(LOOK_EVERY)
                if not self._over.is_set():
                    self._called()
        finally:
            self._pipe.close()


def soon(loop: AbstractEventLoop, act: Callable[[], None]) -> None:
    """Call this on the loop, from another thread. A loop that has ended hears nothing any more."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        pass
