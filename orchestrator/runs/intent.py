"""The key of a task, by which a duplicate spawn is found, and the similarity of two tasks. Pure;
the run store asks both before a run begins.

Two tasks with one key are the same work, and the earlier result serves. Similarity proves nothing:
it only causes a warning.
"""

from __future__ import annotations

import unicodedata

from synapse.system.digest import sha256

ALIKE = 0.8  # from here on, two tasks are alike enough to warn
_SHINGLE = 2


def intent_of(text: str, *, project: str | None, agent: str, intent: str | None = None) -> str:
    """Return the key of a task: its project, agent and words; or the intent that is given, whatever
    the words and agent.
    """
    identity = ("task", agent, text) if intent is None else ("intent", "", intent)
    fields = (project or "", *identity[:2], " ".join(words(identity[2])))
    return sha256("\0".join(fields).encode("utf-8", "surrogatepass"))[:32]


def words(text: str) -> list[str]:
    """Return the words, without case, accents' spelling, punctuation at their ends or spacing;
    `v1.2` and `a/b` stay whole.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    stripped = (word.strip("\"'`.,;:!?()[]{}<>*_-–—…“”‘’") for word in folded.split())
    return [word for word in stripped if word]


def similar(a: str, b: str) -> float:
    """Return how similar two tasks sound, from 0 to 1: the share of words and word pairs in
    common.
    """
    ours, theirs = _shingles(a), _shingles(b)
    union = ours | theirs
    return len(ours & theirs) / len(union) if union else 1.0


def _shingles(text: str) -> set[tuple[str, ...]]:
    tokens = words(text)
    return {
        tuple(tokens[start : start + size])
        for size in (1, _SHINGLE)
        for start in range(len(tokens) - size + 1)
    }
