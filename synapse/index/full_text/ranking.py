"""What makes one entry answer a question better than another. Pure: numbers in, numbers out.

Each word of the question counts by its rarity, once: how often an entry says it makes no
difference, but whether its neighbours in the thread say it too does, and whether it names the
author or the day. Words are bits of a mask, in the order of their rarity; an entry's mask says
which of them it holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from operator import mul
from sys import byteorder

# what the messages before an entry add: an answer follows its question
BEFORE = (0.6, 0.3)
AFTER = (0.4, 0.2)
ABOUT = 0.5  # what its author's name and its day add
K = 1.2  # how soon saying a word again in the neighbourhood stops to count
LONG = 64  # words; a text twice as long says any word more cheaply
SCALE = 2_000  # what an entry says itself, as a whole number
MOST = 3  # of that, what it and all that stands beside it add up to
REACH = len(BEFORE)  # neighbours that count, on either side
NOBODY = (0, 0, 0, 0)


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
        self.before.update(zip(stretch[1:], stretch, strict=False))
        self.after.update(pairwise(stretch))

    def seqs(self) -> set[int]:
        """Return all of whom was told."""
        return self.before.keys() | self.after.keys()

    def near(self, seq: int) -> tuple[int, int, int, int]:
        """Return the two before it and the two after it, the nearer first."""
        before, after = self.before.get(seq, 0), self.after.get(seq, 0)
        return before, self.before.get(before, 0), after, self.after.get(after, 0)


def says(length: int) -> float:
    """Return what a text of so many words says of a word, where a short one says all of it."""
    return (K + 1) / (1 + K / _share(length))


def _share(length: int) -> float:
    return 1 / (1 + math.log2(length / LONG) / 2) if length > LONG else 1.0


@cache
def _table() -> list[float]:
    """Return what saying a word so often in the neighbourhood counts, in parts of `SCALE`."""
    return [often * (K + 1) / (often + K * SCALE) for often in range(MOST * SCALE + 1)]


class Scores:
    """Scores for one question. A word counts once in a text, and the less the longer the text is;
    what a neighbour says counts the less, the longer either of the two is, or, where answers are
    wanted, the longer the neighbour is.

    How often each word is said is added up for all words at once, in one number with a lane of 16
    bits for each.
    """

    def __init__(
        self,
        rarities: Sequence[float],
        masks: Mapping[int, int],
        lengths: Mapping[int, int],
        answers: bool = False,
    ) -> None:
        self.rarities = rarities
        self.answers = answers
        self.table = _table().__getitem__
        self.said = _Said(masks, lengths)
        self.owns: dict[tuple[int, float], float] = {}

    def own(self, seq: int) -> float:
        """Return the score of an entry by what it says itself."""
        said = self.said[seq]
        own = self.owns.get(said)
        if own is None:
            own = self.owns[said] = self._worth(said[0] * int(said[1] * SCALE))
        return own

    def _worth(self, total: int) -> float:
        often = memoryview(total.to_bytes(2 * len(self.rarities), byteorder)).cast("H")
        worth: float = sum(map(mul, self.rarities, map(self.table, often)))
        return worth

    def of(self, seq: int, near: tuple[int, int, int, int], about: int) -> float:
        """Return the score of an entry beside these, that is about these words beside its text."""
        if near == NOBODY and not about:
            return self.own(seq)
        said = self.said
        one, two, three, four = near
        words, own = said[seq]
        words_1, share_1 = said[one]
        words_2, share_2 = said[two]
        words_3, share_3 = said[three]
        words_4, share_4 = said[four]
        beside = SCALE if self.answers else own * own * SCALE
        total = (
            words * int(own * SCALE)
            + words_1 * int(beside * BEFORE[0] * share_1)
            + words_2 * int(beside * BEFORE[1] * share_2)
            + words_3 * int(beside * AFTER[0] * share_3)
            + words_4 * int(beside * AFTER[1] * share_4)
        )
        if about:
            total += _lanes(about) * int(own * SCALE * ABOUT)
        return self._worth(total)


class _Said(dict[int, tuple[int, float]]):
    """The words of each entry, a one in the lane of each, and how much they count in its length."""

    def __init__(self, masks: Mapping[int, int], lengths: Mapping[int, int]) -> None:
        self.masks = masks
        self.lengths = lengths
        self[0] = 0, 0.0

    def __missing__(self, seq: int) -> tuple[int, float]:
        share = _share(self.lengths.get(seq, 0))
        said = self[seq] = _lanes(self.masks.get(seq, 0)), share
        return said


@lru_cache(4_096)
def _lanes(mask: int) -> int:
    """Return a number with a one in the lane of each word in a mask."""
    places = range(mask.bit_length())
    return sum(1 << 16 * place for place in places if mask >> place & 1)
