"""One run of a framework's agent at the memory: what stands in its prompts, and what it leaves.

The view stands in the first request and stays as it is; what comes later is told once, behind what
was said before, so that each request begins with the one before it. The memory may be slow, or
gone: no request waits for it longer than the deadline, a fault is logged once, and the run goes on.
Called by the adapters, from any thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from logging import getLogger
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from synapse.adapters import prompts
from synapse.errors import InvalidQuery, ReadOnly
from synapse.notify import NOW, SOON, tier
from synapse.tools import BRIEFING, blocker_of

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.client.memory import RemoteMemory
    from synapse.model.entry import Entry

    AnyMemory = AgentMemory | RemoteMemory

T = TypeVar("T")
BUDGET = BRIEFING[1]  # tokens of the view
DEADLINE = 0.3  # seconds that one request waits for the memory
AT_ONCE = 8  # entries that are told before one request; the others wait for the next
LONGEST = 600  # characters of what a run leaves
LOG = getLogger("synapse.adapters")


class Conversation:
    """What one run knows of the memory. `about` is its task: what the memory has on it stands in
    the view. How the run ends is written to its `project`, or to the one that its agent is in.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        budget: int = BUDGET,
        about: str = "",
        project: str | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self.memory, self.budget, self.about = memory, budget, about
        self.project, self.deadline = project, deadline
        self.requests = self.tokens_in = self.tokens_out = 0
        self._key = uuid4().hex
        self._view: str | None = None
        self._cursor: int | None = None
        self._seen: set[str] = set()
        self._texts: deque[str] = deque()  # read, and not given yet
        self._placed: list[tuple[int, str]] = []
        self._asking, self._reading = RLock(), Lock()
        self._is_faulty = False

    def view(self) -> str:
        """Return the view, the same at each call. Empty where the memory did not answer in time:
        the view is among the news then.
        """
        with self._asking:
            if self._view is None:
                self._view = self._next()
            return self._view

    def news(self) -> str:
        """Return what came since the view, or since the last call, and concerns this run."""
        with self._asking:
            return self._next() if self._view is not None else self.view()[:0]

    def placed(self, items: Sequence[T], message: Callable[[str], T]) -> list[T]:
        """Return the items of a request with all that was told so far, each where it was told
        first: for frameworks that forget what they were given.
        """
        with self._asking:
            if text := self.news():
                self._placed.append((len(items), text))
            result = list(items)
            for count, (position, text) in enumerate(self._placed):
                result.insert(position + count, message(text))
            return result

    def spent(self, tokens_in: int, tokens_out: int) -> None:
        """Count one request to a model, and its tokens."""
        self.requests += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out

    def done(self, text: str) -> None:
        """Write what came of the run: its result, or what blocks it, where the text begins with
        `Blocked:`. A second call writes nothing.
        """
        blocker = blocker_of(text)
        folder, priority = ("status", "info") if blocker is None else ("blockers", "critical")
        body = f"Done: {text.strip()}" if blocker is None else f"Blocked: {blocker}"
        if len(body) > LONGEST:  # at a space: of half an address nobody would see what it is
            body = f"{body[: LONGEST - 1].rpartition(' ')[0]}…"
        used = f"{self.requests} requests, {self.tokens_in} tokens in, {self.tokens_out} out"

        def write(done: Event) -> None:
            agent = self.memory.agent
            projects = [self.project] if self.project else [*(agent.projects if agent else ())]
            if len(projects) == 1:
                namespace, key = f"{folder}/{projects[0]}", f"{self._key}/ended"
                self.memory.append(
                    body, namespace, priority=priority, tags="run", evidence=used, once=key
                )

        self._within(write, daemon=False)  # a process that ends waits until it is written

    def _next(self) -> str:
        """Return what was read by the deadline. What comes later is kept for the next request."""
        if self._reading.acquire(blocking=False):  # else an earlier read has not come back yet
            self._within(self._read)
        return "\n".join(self._texts.popleft() for _ in range(len(self._texts)))

    def _read(self, done: Event) -> None:
        try:
            ids, how = self._read_view() if self._cursor is None else self._read_news()
        finally:
            self._reading.release()
        done.set()
        if ids and self._cursor is not None:
            try:
                self.memory.writer.shown(ids, len(ids), self._cursor, how)
            except ReadOnly:  # who may only read is shown them all the same
                pass

    def _read_view(self) -> tuple[Sequence[str], str]:
        self._agent = self.memory.agent
        if self._agent is None:
            raise InvalidQuery("the operator has no prompt: take the memory of an agent")
        # loading a tokenizer alone takes as long as a request waits
        view = self.memory.briefing(self.budget, about=self.about, commands=False, quick=True)
        self._texts.append(prompts.view(self._agent.id, view.text))
        self._seen.update(view.shown)
        self._cursor = view.cursor
        return view.shown, "briefing"

    def _read_news(self) -> tuple[Sequence[str], str]:
        """Read the entries behind the cursor that concern the run and still stand."""
        assert self._agent is not None
        arrived: list[tuple[Entry, str]] = []
        cursor = self._cursor
        for event in self.memory.follow(cursor, timeout=0):
            entry, soon = event.entry, tier(event.entry, self._agent, self._seen)
            is_new = soon in (NOW, SOON) and entry.id not in self._seen
            if soon and is_new and self.memory.fate(entry.id) is None:
                if len(arrived) == AT_ONCE:
                    break
                arrived.append((entry, soon))
            cursor = event.cursor
        ids = [entry.id for entry, _ in arrived]
        if arrived:
            self._texts.append(prompts.news(self._agent.id, arrived))
        self._seen.update(ids)
        self._cursor = cursor
        return ids, "read"

    def _within(self, act: Callable[[Event], object], daemon: bool = True) -> None:
        """Begin an act on a thread of its own, and wait until it is done, or for the deadline."""
        done = Event()

        def guarded() -> None:
            try:
                act(done)
            except Exception as error:
                self._report(error)
            done.set()

        Thread(target=guarded, name="synapse-adapter", daemon=daemon).start()
        if not done.wait(self.deadline):
            self._report(f"it did not answer within {self.deadline:g} s")

    def _report(self, fault: object) -> None:
        if not self._is_faulty:
            self._is_faulty = True
            LOG.warning("the run goes on without the shared memory, for now: %s", fault)
