"""Limits of requests, and what counts against them: how often a caller asks, what its questions
cost, and how many are worked on at once.

Counters alone, in the event loop; who is counted, and what is refused, is in `limited`. They hold
the ids of tokens and addresses, never a token.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from synapse.server.problems import TooMany

MOST = 10_000  # buckets that are kept at once; the one that was asked longest ago goes first


@dataclass(frozen=True)
class Limits:
    """What requests may take. Rates are requests in a second, 0 for as many as come; a bucket holds
    those of `burst` seconds.
    """

    body: int = 4 << 20
    rate: float = 200.0
    wrong: float = 5.0  # of one address without a good token
    deliveries: float = 50.0  # to one hook, of one address
    burst: float = 4.0
    cost: float = 100.0  # requests that count for a second of work, beyond `free`
    free: float = 0.1
    at_once: int = 3  # of one caller; others of it wait their turn
    queue: int = 250  # of one caller that wait
    upload: float = 20.0  # seconds until the body is there
    seconds: float = 30.0  # until an answer begins


class Buckets:
    """Tokens to spend, refilled as time goes by, for each key."""

    def __init__(
        self, rate: float, burst: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.room, self._now = rate, max(1.0, rate * burst), now
        self._levels: dict[str, tuple[float, float]] = {}

    def wait(self, key: str) -> float:
        """Take one, and return 0; where there is none, return the seconds until there is."""
        if self.rate <= 0:
            return 0.0
        level = self._level(key)
        wait = 0.0 if level >= 1 else (1 - level) / self.rate
        self._levels[key] = (level if wait else level - 1, self._now())
        return wait

    def spend(self, key: str, count: float) -> None:
        """Take so many, whether they are there or not."""
        if self.rate > 0:
            self._levels[key] = (max(self._level(key) - count, -self.room), self._now())

    def _level(self, key: str) -> float:
        """Return how many there are; the key is the one that was asked last."""
        now = self._now()
        level, at = self._levels.pop(key, (self.room, now))
        while len(self._levels) >= MOST:
            del self._levels[next(iter(self._levels))]
        return min(self.room, level + (now - at) * self.rate)


class Turns:
    """Turns to be worked on, so many at once of each key; the others wait, the first come first."""

    def __init__(self, at_once: int, queue: int) -> None:
        self._at_once, self._most = at_once, at_once + queue
        self._counts: Counter[str] = Counter()
        self._free: dict[str, asyncio.Semaphore] = {}

    async def take(self, key: str) -> Turn:
        """Wait for a turn, and return it. TooMany where too many wait."""
        if self._counts[key] >= self._most:
            raise too_many(1.0)
        self._counts[key] += 1
        free = self._free.setdefault(key, asyncio.Semaphore(self._at_once))
        try:
            await free.acquire()
        except BaseException:
            self._leave(key)
            raise
        return Turn(self, key)

    def release(self, key: str) -> None:
        self._free[key].release()
        self._leave(key)

    def _leave(self, key: str) -> None:
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key], self._free[key]


class Turn:
    """One request's turn. It ends once, whoever says so first."""

    def __init__(self, turns: Turns, key: str) -> None:
        self._turns, self._key = turns, key
        self._began = time.monotonic()
        self._over = False

    def end(self) -> float:
        """End the turn, and return the seconds that it took; 0 where it was over."""
        if self._over:
            return 0.0
        self._over = True
        self._turns.release(self._key)
        return time.monotonic() - self._began


def too_many(wait: float) -> TooMany:
    """Return the error for a caller that has to wait."""
    seconds = int(wait) + 1
    return TooMany(f"too many requests: try again in {seconds} s", retry_after=seconds)
