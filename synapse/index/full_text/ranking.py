"""What makes one entry answer a question better than another. Pure: numbers in, numbers out.

Each word of the question counts by its rarity, once: how often an entry says it makes no
difference, but whether its neighbours in the thread say it too does, and whether it names the
author or the day. Words are bits of a mask, in the order of their rarity; an entry's mask says
which of them it holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

# what the messages before an entry add: an answer follows its question
BEFORE = (0.6, 0.3)
AFTER = (0.4, 0.2)
ABOUT = 0.5  # what its author's name and its day add
K = 1.2  # how soon saying a word again in the neighbourhood stops to count
LONG = 64  # words; a text twice as long says any word more cheaply
_WEIGHTS = (1.0, ABOUT, *BEFORE, *AFTER)
# neighbours that are asked for: those that count, and those that count for them
REACH = 2 * len(BEFORE)


def rarity(count: int, of: int) -> float:
    """Return how much a word tells that so many entries hold, of so many that there are."""
    return math.log(1 + (max(of, count) - count + 0.5) / (count + 0.5))


class Threads:
    """Who stands beside whom, as far as stretches of threads were told. 0 is nobody."""

    def __init__(self) -> None:
        self.before: dict[int, int] = {}
        self.after: dict[int, int] = {}

    def tell(self, stretch: Sequence[int]) -> None:
        """Note messages of one thread that follow each other, in their order."""
        for earlier, later in pairwise(stretch):
            self.before[later], self.after[earlier] = earlier, later

    def near(self, seq: int) -> tuple[int, int, int, int]:
        """Return the two before it and the two after it, the nearer first."""
        before, after = self.before.get(seq, 0), self.after.get(seq, 0)
        return before, self.before.get(before, 0), after, self.after.get(after, 0)


def seeds(
    masks: Mapping[int, int],
    prios: Mapping[int, int],
    rarities: Sequence[float],
    limit: int,
) -> list[int]:
    """Return the entries whose own words are the rarest, of equals the weightiest, then the
    newest.
    """
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for seq, mask in masks.items():
        groups[mask].append(seq)
    worth = {
        mask: sum(rare for bit, rare in enumerate(rarities) if mask >> bit & 1)
        for mask in groups
    }
    chosen: list[int] = []
    for mask in sorted(groups, key=worth.__getitem__, reverse=True):
        equals, room = groups[mask], limit - len(chosen)
        chosen += equals if len(equals) <= room else _weightiest(equals, prios, room)
        if len(chosen) >= limit:
            break
    return chosen


def _weightiest(seqs: Sequence[int], prios: Mapping[int, int], room: int) -> list[int]:
    """Return so many of these, the weightiest, of these the newest. They come newest first as a
    rule, which makes the sorting of each priority one look at it.
    """
    by_priority: tuple[list[int], ...] = ([], [], [])
    for seq in seqs:
        by_priority[prios.get(seq, 0)].append(seq)
    chosen: list[int] = []
    for equals in by_priority:
        equals.sort(reverse=True)
        chosen += equals[: room - len(chosen)]
    return chosen


class Scores:
    """Scores for one question. Few neighbourhoods differ, so each is worked out once."""

    def __init__(self, rarities: Sequence[float], masks: Mapping[int, int]) -> None:
        self.rarities = rarities
        self.masks = masks
        self.known: dict[tuple[int, ...], float] = {}

    def of(
        self, seq: int, near: tuple[int, int, int, int], about: int, length: int
    ) -> float:
        """Return the score of an entry beside these, that is about these words beside its text, and
        so many words long.
        """
        mask = self.masks.get
        one, two, three, four = near
        key = (
            mask(seq, 0),
            about,
            mask(one, 0),
            mask(two, 0),
            mask(three, 0),
            mask(four, 0),
            length,
        )
        score = self.known.get(key)
        if score is None:
            score = self.known[key] = self._score(key[:-1], length)
        return score

    def _score(self, masks: tuple[int, ...], length: int) -> float:
        stretched = K * (1 + math.log2(length / LONG) / 2) if length > LONG else K
        weighted = [
            (mask, weight) for mask, weight in zip(masks, _WEIGHTS, strict=True) if mask
        ]
        total, bit = 0.0, 1
        for rare in self.rarities:
            frequency = 0.0
            for mask, weight in weighted:
                if mask & bit:
                    frequency += weight
            if frequency:
                total += rare * frequency * (K + 1) / (frequency + stretched)
            bit <<= 1
        return total
