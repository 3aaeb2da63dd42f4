"""Two rankings of the same entries as one. Pure: seqs and scores in, seqs and scores out.

bm25 and cosines have no common measure, so each counts as a share of its own best. What only one of
them found has nothing of the other. Measured on conversations, this finds more than either; adding
up ranks finds less than words do alone, because the tail of the nearest, which is chance, then
counts nearly as much as their head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WEIGHT = 0.7  # of meaning, where words have one


def fused(
    words: Sequence[tuple[int, float]], meaning: Mapping[int, float], near: Sequence[int]
) -> list[tuple[int, float]]:
    """Return every seq of the words' ranking, and of those near, with its score: the best first, of
    equals the newest. `meaning` has the cosines of both, as far as they are known.
    """
    scores = dict(words)
    most = max(scores.values(), default=0.0)
    nearest = max(meaning.values(), default=0.0)
    scored = {
        seq: _share(scores.get(seq, 0.0), most) + WEIGHT * _share(meaning.get(seq, 0.0), nearest)
        for seq in {*scores, *near}
    }
    return sorted(scored.items(), key=lambda item: (-item[1], -item[0]))


def _share(score: float, best: float) -> float:
    return max(score, 0.0) / best if best > 0 else 0.0
