"""When two tasks are the same: the key by which a duplicate spawn is found, and how alike two tasks
sound. Pure.

The same key is the same work, and the earlier result serves. Mere likeness proves nothing and only
warns.
"""

from __future__ import annotations

import unicodedata
from hashlib import sha256

ALIKE = 0.8  # from here on, two tasks are alike enough to warn
_SHINGLE = 2


def intent_of(
    text: str, *, project: str | None, agent: str, intent: str | None = None
) -> str:
    """The key of a task: its project, agent and words; or the intent that is given, whatever the
    words and agent.
    """
    named = ("task", agent, text) if intent is None else ("intent", "", intent)
    parts = (project or "", *named[:2], " ".join(words(named[2])))
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def words(text: str) -> list[str]:
    """The words, without case, accents' spelling, punctuation at their ends or spacing; `v1.2` and
    `a/b` stay whole.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    found = (word.strip("\"'`.,;:!?()[]{}<>*_-–—…“”‘’") for word in folded.split())
    return [word for word in found if word]


def similar(a: str, b: str) -> float:
    """How alike two tasks sound, 0 to 1: the part of their words and pairs of words that they
    share.
    """
    ours, theirs = _shingles(a), _shingles(b)
    if not ours or not theirs:
        return 1.0 if ours == theirs else 0.0
    return len(ours & theirs) / len(ours | theirs)


def _shingles(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {
        tuple(found[start : start + size])
        for size in (1, _SHINGLE)
        for start in range(len(found) - size + 1)
    }
