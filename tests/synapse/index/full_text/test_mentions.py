"""What a question finds beside the text: authors and days."""

from synapse.index.full_text.mentions import Days, by_piece, named
from synapse.model.clock import micros

NOW = micros("2026-02-04T12:00:00Z")


def test_words_name_authors_by_any_piece():
    authors = by_piece([(1, "eng-backend"), (2, "eng-qa"), (3, "a")])
    assert named(["backend", "deploy", "eng"], authors) == {1: 0b101, 2: 0b100}
    assert named(["qa"], authors) == {2: 0b1}
    assert named(["a"], authors) == {}


def test_words_call_days():
    days = Days(["february", "3", "2026", "deploy", "tuesday", "yesterday", "феврал"], NOW)
    assert days.bits(micros("2026-02-03T23:59:00Z")) == 0b1110111
    assert days.bits(micros("2026-02-10T00:00:00Z")) == 0b1010101
    assert days.bits(micros("2025-06-01T00:00:00Z")) == 0


def test_a_question_without_such_words_asks_for_no_day():
    assert Days(["deploy"], NOW).bits(NOW) == 0
