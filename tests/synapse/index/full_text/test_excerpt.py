"""The part of a text that a hit shows: where most of the words stand, and where in it they do."""

import pytest

from synapse.index.full_text.search import excerpt

BODY = " ".join(f"w{n:03d}" for n in range(100))  # 499 characters, five for each word


def words(first, last):
    return " ".join(f"w{n:03d}" for n in range(first, last + 1))


@pytest.mark.parametrize(
    ("sought", "text", "marks"),
    [
        ((50, 52), f"…{words(46, 61)} …", [(21, 25), (31, 35)]),
        ((0,), f"{words(0, 15)} …", [(0, 4)]),
        ((3,), f"{words(0, 15)} …", [(15, 19)]),
        ((5,), f"…{words(1, 16)} …", [(21, 25)]),
        ((99,), f"… {words(84, 99)}", [(77, 81)]),
        ((), f"{words(0, 15)} …", []),
        ((10, 60, 62, 64), f"…{words(56, 71)} …", [(21, 25), (31, 35), (41, 45)]),
        ((10, 12, 60, 62), f"…{words(6, 21)} …", [(21, 25), (31, 35)]),
    ],
)
def test_a_long_text_is_cut_where_most_of_the_words_stand(sought, text, marks):
    names = frozenset(f"w{n:03d}" for n in sought)
    assert excerpt(BODY, names, 80) == (text, tuple(marks))
    assert {text[start:end] for start, end in marks} <= names


@pytest.mark.parametrize("width", [11, 80])
def test_a_short_text_is_there_whole_on_one_line(width):
    text, marks = excerpt("one\n  two\tone", frozenset(["one"]), width)
    assert (text, marks) == ("one two one", ((0, 3), (8, 11)))


def test_a_word_that_the_end_cuts_is_not_marked():
    text, marks = excerpt(BODY, frozenset(["w000", "w001"]), 8)
    assert (text, marks) == ("w000 w00…", ((0, 4),))
