"""One subscriber of a stream: where it is, what waits to be sent to it, and why it ends.

It is behind at first, and reads the log by itself as `follow` does; once it has caught up, the hub
tells it. What waits for it is bounded: a subscriber that is told faster than it reads is behind
again. All methods are the event loop's but `_read`, which runs in a thread. Called by the hub and
by the routes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread

from synapse.agent_memory import AgentMemory, start_cursor
from synapse.errors import SynapseError
from synapse.model.agents import Agent
from synapse.model.dates import When
from synapse.model.entry import Entry
from synapse.server.callers import Caller
from synapse.server.stream.following import Following
from synapse.server.stream.frames import (
    ALIVE,
    CURRENT,
    START,
    Frame,
    Wanted,
    control,
    frame_of,
    problem,
)

WAITING = 500  # frames that wait for a subscriber
WAITING_BYTES = 1 << 20
PAGE = 500  # events that one that is behind reads at once
POLICY, FAULT, ENDS, LATER = 1008, 1011, 1012, 1013  # codes of a close


# An agent as registered, and the entries that it is told of with their frames.
News = tuple[Agent | None, list[tuple[Entry, Frame]]]


@dataclass(frozen=True)
class Pace:
    """How often something is sent, whether the caller may still listen is asked, and how long a
    reader may keep a frame waiting, in seconds.
    """

    alive: float = 15.0
    check: float = 2.0
    stall: float = 10.0


class End(NamedTuple):
    """Why a stream ends: the code of its close, the reason, and the error where there is one."""

    code: int
    why: str
    error: SynapseError | None = None

    def reason(self, cursor: int) -> str:
        """Return the reason of the close, which has room for little."""
        resume = "" if self.code == POLICY else f"; resume with since={cursor}"
        return self.why[:80] + resume


CHANGED = End(ENDS, "the agent's registration changed")
ENDING = End(ENDS, "the server ends")
FAILED = End(FAULT, "the log cannot be read now")
STALLED = End(LATER, "too slow")


def gone(error: SynapseError) -> End:
    """Return the end of a stream whose caller may not listen any more."""
    return End(POLICY, "this agent may not listen any more", error)


class Subscription:
    """A stream of what one caller may see and asked for, from a cursor or a time on. `check` raises
    where the caller may not listen any more; `form` is `websocket` or `sse`. Its rights are those
    that it began with: it ends where they change. Made in a thread: it looks at the log.
    """

    def __init__(
        self,
        caller: Caller,
        memory: AgentMemory,
        wanted: Wanted,
        since: When,
        check: Callable[[], None],
        form: str,
    ) -> None:
        self.caller = caller
        self.memory = memory
        self.form = form
        self._known = start_cursor(memory.store)  # up to here `agent` is declared
        self.agent = memory.access.agent()
        # up to here everything was sent, or waits to be
        self.cursor = start_cursor(memory.store, since)
        self.ended: End | None = None
        self._wanted = wanted
        self._check = check
        self._follower = self._following()
        self._behind = True
        self._current = False  # whether it was sent that it is current
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    def wake(self) -> None:
        self._news.set()

    def end(self, end: End) -> None:
        """End the stream. What waits is not sent: it is there after the cursor of the end."""
        if self.ended is None:
            self.ended = end
        self._news.set()

    def offer(self, start: int, end: int, news: News | None, *, replaced: bool) -> None:
        """Take what came after one cursor, up to another, for an agent with these rights; None
        where that is not known. Where it does not fit, it is behind, and reads it itself.
        """
        if news is not None and news[0] != self.agent:
            self.end(CHANGED)
        if self._behind or self.ended is not None:
            return
        if replaced:
            self.cursor = min(self.cursor, start)
        if news is None or start > self.cursor or not self._take(news[1]):
            self._fall_behind()
            return
        self.cursor = max(self.cursor, end)
        if self._waiting:
            self._news.set()

    def _take(self, news: list[tuple[Entry, Frame]]) -> bool:
        """Queue the frames to be sent, each once; return whether there was room for all."""
        for entry, frame in news:
            if frame.cursor <= self.cursor:
                continue
            if self._wanted.takes(entry):
                if len(self._waiting) >= WAITING or self._bytes >= WAITING_BYTES:
                    return False
                self._put(frame)
            self.cursor = frame.cursor
        return True

    def _put(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self._bytes += len(frame.text)

    def _fall_behind(self) -> None:
        self._behind = True
        self._follower = self._following()
        self._news.set()

    def _following(self) -> Following:
        return Following(self.memory.store, self.agent, self.cursor, self._known)

    # -- what is sent ------------------------------------------------------------------------------

    async def frames(
        self, position: Callable[[], int | None], reading: CapacityLimiter, pace: Pace
    ) -> AsyncGenerator[Frame]:
        """Yield what is to be sent, until the stream ends. `position` is where the hub is;
        `reading` bounds how many read the log at once.
        """
        now = asyncio.get_running_loop().time
        checked = sent_at = now()
        sent = self.cursor
        yield control(START, sent)
        while True:
            if now() - checked >= pace.check:
                self._recheck()
                checked = now()
            if self.ended is not None:
                break
            if self._waiting:
                frame = self._waiting.popleft()
                self._bytes -= len(frame.text)
            elif self._behind:
                await self._catch_up(position, reading)
                continue
            elif now() - sent_at >= pace.alive:
                frame = control(ALIVE, self.cursor)
            else:
                await self._pause(min(checked + pace.check, sent_at + pace.alive))
                continue
            sent, sent_at = frame.cursor, now()
            yield frame
        if self.ended.error is not None:
            yield problem(self.ended.error, sent)
        elif self.ended.code == ENDS:
            yield control(ALIVE, sent if self._waiting else self.cursor)

    async def _pause(self, until: float) -> None:
        """Wait for news, or until a moment."""
        self._news.clear()
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            pass

    def _recheck(self) -> None:
        try:
            self._check()
        except SynapseError as error:
            self.end(gone(error))

    async def _catch_up(self, position: Callable[[], int | None], reading: CapacityLimiter) -> None:
        """Read a page of the log. At its end, the hub tells what comes, if it was there before."""
        try:
            frames, done = await to_thread.run_sync(
                self._read, limiter=reading, abandon_on_cancel=True
            )
        except SynapseError:
            self.end(FAILED)
            return
        changed = self._follower.declared.get(self.caller.agent)
        self.cursor = self._follower.cursor if changed is None else changed
        for frame in frames:
            if changed is None or frame.cursor < changed:
                self._put(frame)
        if changed is not None:
            self.end(CHANGED)
        if not done:
            return
        if not self._current:
            self._current = True
            self._put(control(CURRENT, self.cursor))
        end = position()
        if end is not None and self.cursor >= end:
            self._behind = False
        elif end is None and not self._waiting:
            await self._pause(asyncio.get_running_loop().time() + 0.05)

    def _read(self) -> tuple[list[Frame], bool]:
        """Return the next page, and whether the log has no more now. Runs in a thread."""
        frames: list[Frame] = []
        access, size = self.memory.access, 0
        with closing(self._follower.poll()) as events:
            for count, event in enumerate(events, 1):
                if self._wanted.takes(event.entry):
                    frames += map(frame_of, access.following(iter((event,))))
                    size += len(frames[-1].text)
                if count >= PAGE or size >= WAITING_BYTES:
                    return frames, False
        return frames, True
