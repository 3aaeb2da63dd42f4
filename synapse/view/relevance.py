"""What a task is about, by the words of its clauses, and whether another text concerns it. Pure.

There is no index and no model here. The view searches the index for each clause; news of running
work, which comes one entry at a time, is judged by `concerns` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from synapse.index.full_text import terms

CLAUSES = 24  # of a text, that are looked at
LENGTH = 65_536  # characters of a text, that are looked at
# what a word with a digit weighs: of service 3 and service 5, one is meant
SPECIFIC = 2.0
NEAR = 0.65  # of a clause's weight, what a text has to hold to concern it

_END = re.compile(r"[\n;]+|(?<=[.!?:])\s+")


def clauses(text: str) -> tuple[str, ...]:
    """Return the clauses of a text that say what it is about, in their order, each once."""
    pieces = (" ".join(piece.split()) for piece in _END.split(text[:LENGTH]))
    telling = (piece for piece in pieces if _tells(forms(piece)))
    return tuple(dict.fromkeys(telling))[:CLAUSES]


@lru_cache(4_096)
def forms(text: str) -> frozenset[str]:
    """Return the roots of the words that say what a text is about."""
    return terms.forms(text[:LENGTH])


def coverage(
    wanted: Mapping[str, float] | frozenset[str], said: frozenset[str]
) -> float:
    """Return the share of the wanted words that were said, by their weights; by what each tells of
    itself where none are given."""
    weights = (
        wanted
        if isinstance(wanted, Mapping)
        else {term: weight(term) for term in wanted}
    )
    total = sum(weights.values())
    return (
        sum(value for term, value in weights.items() if term in said) / total
        if total
        else 0.0
    )


def weight(word: str) -> float:
    """Return what a word tells, where nothing is known of how rare it is."""
    return SPECIFIC if is_specific(word) else 1.0


def is_specific(word: str) -> bool:
    """Return whether a word is a number or an identifier with one in it."""
    return any(character.isdigit() for character in word)


def concerns(task: str, text: str) -> bool:
    """Return whether a text is about what a clause of the task is about. Where the clause names
    numbers, the text has to name one of them."""
    text_forms = forms(text)
    return any(_is_near(clause_forms, text_forms) for clause_forms in _wanted(task))


@lru_cache(2_048)
def _wanted(task: str) -> tuple[frozenset[str], ...]:
    return tuple(map(forms, clauses(task)))


def _is_near(wanted: frozenset[str], said: frozenset[str]) -> bool:
    specific = frozenset(filter(is_specific, wanted))
    if specific and specific.isdisjoint(said):
        return False
    shared = len(wanted & said)
    return shared >= min(2, len(wanted)) and coverage(wanted, said) >= NEAR


def _tells(words: frozenset[str]) -> bool:
    """Return whether a clause says enough to be looked for: two words, or one that is an identifier
    and not merely a number."""
    return len(words) > 1 or any(
        is_specific(term) and not term.isdecimal() for term in words
    )
