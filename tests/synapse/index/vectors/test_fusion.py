import pytest

from synapse.index.vectors.fusion import WEIGHT, fused


def seqs(*asked):
    return [seq for seq, _ in fused(*asked)]


def test_what_both_find_comes_before_what_one_does():
    words, meaning = [(1, 9.0), (2, 8.0)], {2: 0.8, 3: 0.9}
    assert seqs(words, meaning, [3, 2]) == [2, 1, 3]


def test_a_score_is_a_share_of_the_best():
    found = dict(fused([(1, 40.0), (2, 10.0)], {2: 0.5, 3: 0.25}, [2, 3]))
    assert found == pytest.approx({1: 1.0, 2: 0.25 + WEIGHT, 3: WEIGHT / 2})


def test_the_measures_do_not_matter_only_the_shares():
    words, meaning = [(1, 3.0), (2, 2.0), (3, 1.0)], {3: 0.9, 2: 0.3}
    scaled = [(seq, score * 1e-6) for seq, score in words]
    assert seqs(words, meaning, [3, 2]) == seqs(
        scaled, {seq: c / 3 for seq, c in meaning.items()}, [3, 2]
    )


def test_one_ranking_alone_is_itself():
    assert seqs([(5, 3.0), (4, 2.0)], {}, []) == [5, 4]
    assert seqs([], {5: 0.2, 4: 0.1}, [5, 4]) == [5, 4]
    assert seqs([], {}, []) == []


def test_of_equals_the_newest_comes_first():
    assert seqs([(1, 2.0), (9, 2.0), (4, 2.0)], {}, []) == [9, 4, 1]


def test_scores_of_nothing_or_less_are_no_merit():
    assert fused([(1, 0.0), (2, -1.0)], {1: -0.3}, []) == [(2, 0.0), (1, 0.0)]
