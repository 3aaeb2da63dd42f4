"""The ranking of one word by its definition, the slow way: every entry read, cut into words and
scored.

Shares no code with the index. Good for plain ASCII text, which is all that the workload holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from synapse.model.entry import PRIORITIES, Entry

K, LONG = 1.2, 64
SETTLED = 32  # so many are scored at all, and put in order by authority too
_WORD = re.compile("[0-9a-z]+")


class Score(NamedTuple):
    seq: int
    id: str
    value: float
    priority: int = 0
    authority: int = 0

    @property
    def rank(self) -> tuple[float, int, int]:
        """What decides between two entries; where it is equal, the newer one comes first."""
        return -round(self.value, 9), self.priority, -self.authority


def ranking(everything: Iterable[Entry], seen: Container[int], word: str) -> list[Score]:
    """The entries with the word that may be seen, best first."""
    scores = [_score(entry) for entry in _holding(everything, seen, word)]
    scores.sort(key=lambda score: (*score.rank[:2], -score.seq))
    best = sorted(scores[:SETTLED], key=lambda score: (*score.rank, -score.seq))
    return best + scores[SETTLED:]


def _holding(everything: Iterable[Entry], seen: Container[int], word: str) -> list[Entry]:
    return [entry for entry in everything if entry.seq in seen and word in _words(text_of(entry))]


def text_of(entry: Entry) -> str:
    return " ".join((entry.body, *entry.tags, entry.topic or "", entry.namespace))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _score(entry: Entry) -> Score:
    """A word counts once, and less in a long text."""
    length = max(len(re.findall("[ \n]", text_of(entry))), LONG)
    value = (K + 1) / (1 + K * (1 + math.log2(length / LONG) / 2))
    return Score(entry.seq, entry.id, value, PRIORITIES.index(entry.priority), entry.authority)


def differs(found: Sequence[str], expected: Sequence[Score], limit: int = 10) -> str | None:
    """What is wrong with a ranking, None where nothing is. Entries of one rank may change
    places.
    """
    if len(found) != min(limit, len(expected)):
        return f"{len(found)} found, not {min(limit, len(expected))}"
    if len(set(found)) != len(found):
        return "an entry was found twice"
    ranks = {score.id: score.rank for score in expected}
    for place, id in enumerate(found):
        rank = ranks.get(id)
        if rank is None:
            return f"{id} does not match, or may not be seen"
        if rank != expected[place].rank:
            return f"{id} has rank {place + 1}, which belongs to {expected[place].id}"
    return None
