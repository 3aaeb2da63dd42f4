"""The ranking of full text by its definition, the slow way: every entry read, cut into words and scored.

Shares no code with the index. Good for plain ASCII text, which is all that the workload holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from synapse.entry import Entry

K1, B = 1.2, 0.75
LABEL_WEIGHT = 2.0
SAME = 1e-9
_WORD = re.compile("[0-9a-z]+")


class Score(NamedTuple):
    seq: int
    id: str
    value: float


def ranking(everything: Iterable[Entry], seen: Container[int], word: str, newest: int | None = None) -> list[Score]:
    """The entries with the word that may be seen, best first; of those only the newest where that is said.

    Rarity and average length are taken over everything, as the index does, whoever asks.
    """
    found: list[tuple[Entry, float, int]] = []
    texts = words = holding = 0
    for entry in everything:
        body, label = _words(entry.body), _words(label_of(entry))
        texts, words = texts + 1, words + len(body) + len(label)
        often = body.count(word) + LABEL_WEIGHT * label.count(word)
        holding += often > 0
        if often and entry.seq in seen:
            found.append((entry, often, len(body) + len(label)))
    rarity = max(math.log((texts - holding + 0.5) / (holding + 0.5)), 1e-6) if texts else 0.0
    found.sort(key=lambda item: -item[0].seq)
    scores = [
        Score(entry.seq, entry.id, _score(often, length, words / texts, rarity))
        for entry, often, length in found[:newest]
    ]
    return sorted(scores, key=lambda score: (-score.value, -score.seq))


def label_of(entry: Entry) -> str:
    return " ".join((*entry.tags, entry.topic or "", entry.namespace))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _score(often: float, length: int, average: float, rarity: float) -> float:
    return rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * length / average))


def differs(found: Sequence[str], expected: Sequence[Score], limit: int = 10) -> str | None:
    """What is wrong with a ranking, None where nothing is. Entries of one score may change places."""
    if len(found) != min(limit, len(expected)):
        return f"{len(found)} found, not {min(limit, len(expected))}"
    if len(set(found)) != len(found):
        return "an entry was found twice"
    values = {score.id: score.value for score in expected}
    for place, id in enumerate(found):
        value = values.get(id)
        if value is None:
            return f"{id} does not match, or may not be seen"
        if abs(value - expected[place].value) > SAME * max(1.0, abs(value)):
            return f"{id} has rank {place + 1}, which belongs to {expected[place].id}"
    return None
