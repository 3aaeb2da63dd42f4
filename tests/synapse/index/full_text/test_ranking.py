"""The worth of an entry: pure, in numbers."""

import pytest

from synapse.index.full_text.ranking import LONG, NOBODY, Scores, Threads, rarity, says


def threads(*stretches):
    found = Threads()
    for stretch in stretches:
        found.tell(stretch)
    return found


def test_the_rarer_word_tells_more():
    assert rarity(1, 100) > rarity(50, 100) > rarity(100, 100) > 0
    assert rarity(0, 0) > 0


def test_two_words_beat_one_and_rare_ones_common_ones():
    scores = Scores((3.0, 1.0), {1: 0b11, 2: 0b01, 3: 0b10}, {})
    of = [scores.of(seq, NOBODY, 0) for seq in (1, 2, 3, 4)]
    assert of == sorted(of, reverse=True)
    assert of[3] == 0


def test_neighbours_count_the_nearer_and_the_earlier_more():
    scores = Scores((1.0,), {7: 1}, {})
    near, far = scores.of(1, (7, 0, 0, 0), 0), scores.of(2, (0, 7, 0, 0), 0)
    after = scores.of(3, (0, 0, 7, 0), 0)
    own = scores.of(7, NOBODY, 0)
    assert own > near > after > far > 0


def test_a_word_said_again_nearby_counts_little():
    scores = Scores((1.0,), {1: 1, 2: 1, 3: 1}, {})
    alone, twice = scores.of(1, NOBODY, 0), scores.of(1, (2, 0, 3, 0), 0)
    assert alone < twice < 2 * alone


def test_a_long_text_says_any_word_more_cheaply():
    scores = Scores((1.0,), {1: 1, 2: 1, 3: 1}, {1: LONG, 2: 4 * LONG})
    of = [scores.of(seq, NOBODY, 0) for seq in (1, 2, 3)]
    assert of[1] < of[0] == of[2]


def test_what_stands_beside_counts_less_the_longer_either_text_is():
    long = {2: 4 * LONG, 4: 4 * LONG}
    scores = Scores((1.0,), {3: 1, 4: 1}, long)
    beside = [
        scores.of(seq, (neighbour, 0, 0, 0), 0)
        for seq, neighbour in ((1, 3), (1, 4), (2, 3), (2, 4))
    ]
    assert beside == sorted(beside, reverse=True)
    assert beside[0] > 5 * beside[3] > 0


def test_where_answers_are_wanted_their_own_length_does_not_count():
    scores = Scores((1.0,), {3: 1, 4: 1}, {2: 4 * LONG, 4: 4 * LONG}, answers=True)
    short, long = scores.of(1, (3, 0, 0, 0), 0), scores.of(2, (3, 0, 0, 0), 0)
    assert short == long > scores.of(1, (4, 0, 0, 0), 0) > 0


def test_the_author_counts_beside_the_text():
    scores = Scores((1.0,), {1: 1}, {})
    assert 0 < scores.of(2, NOBODY, 1) < scores.of(1, NOBODY, 0) < scores.of(1, NOBODY, 1)


def test_as_many_words_as_a_question_may_have_are_counted():
    words = 48
    scores = Scores((1.0,) * words, dict.fromkeys(range(1, 6), (1 << words) - 1), {})
    most = scores.of(3, (2, 1, 4, 5), (1 << words) - 1)
    assert most == pytest.approx(words * 3 * 2.2 / 4.2)


def test_stretches_of_a_thread_make_one_row():
    found = threads([1, 4, 6, 9], [6, 9, 12, 15])
    assert found.near(9) == (6, 4, 12, 15)
    assert found.near(1) == (0, 0, 4, 6)
    assert found.near(99) == NOBODY


@pytest.mark.parametrize(
    ("count", "of", "told"),
    [(0, 0, 0.693147), (1, 100, 4.209655), (50, 100, 0.693147), (7, 3, 0.064539)],
)
def test_what_a_word_tells_is_the_usual_measure(count, of, told):
    assert rarity(count, of) == pytest.approx(told, abs=1e-6)


def test_a_score_is_saturated_by_saying_it_again():
    masks = {1: 0b01, 2: 0b10, 3: 0b11, 4: 0b10, 5: 0b01}
    scores = Scores((2.0, 1.0), masks, {4: 4 * LONG, 5: 4 * LONG})
    # each word: its rarity, times (K + 1) f / (f + K); in a long text f is a share
    assert scores.of(1, NOBODY, 0) == pytest.approx(2.0)
    assert scores.of(3, NOBODY, 0) == pytest.approx(3.0)
    assert scores.of(1, (1, 0, 0, 0), 0) == pytest.approx(2 * 1.6 * 2.2 / 2.8)
    assert scores.of(1, (0, 1, 0, 0), 0) == pytest.approx(2 * 1.3 * 2.2 / 2.5)
    assert scores.of(1, (0, 0, 1, 0), 0) == pytest.approx(2 * 1.4 * 2.2 / 2.6)
    assert scores.of(1, (0, 0, 0, 1), 0) == pytest.approx(2 * 1.2 * 2.2 / 2.4)
    assert scores.of(2, NOBODY, 0b01) == pytest.approx(1 + 2 * 0.5 * 2.2 / 1.7)
    assert scores.of(4, NOBODY, 0) == pytest.approx(0.5 * 2.2 / 1.7)
    # 0.6 of the one before, halved for its length, and quartered for that of the text
    assert scores.of(4, (5, 0, 0, 0), 0) == pytest.approx(0.5 * 2.2 / 1.7 + 2 * 0.075 * 2.2 / 1.275)


@pytest.mark.parametrize("length", [1, LONG, 2 * LONG, 300, 10_000])
def test_what_an_entry_says_itself_is_its_score_alone(length):
    scores = Scores((2.0, 1.0), {1: 0b01, 2: 0b11}, {1: length, 2: length})
    for seq, worth in ((1, 2.0), (2, 3.0)):
        assert scores.of(seq, NOBODY, 0) == scores.own(seq)
        assert scores.own(seq) == pytest.approx(worth * says(length), rel=5e-3)
