"""Times as people say them, at noon of a Wednesday."""

import pytest

from synapse.errors import InvalidQuery
from synapse.model.clock import micros, seconds
from synapse.model.dates import since, span, until

NOW = micros("2026-02-04T12:00:00Z")


def day(text):
    return None if text is None else micros(text)


@pytest.mark.parametrize(
    ("phrase", "start", "end"),
    [
        ("today", "2026-02-04", "2026-02-05"),
        ("yesterday", "2026-02-03", "2026-02-04"),
        ("the day before yesterday", "2026-02-02", "2026-02-03"),
        ("last tuesday", "2026-02-03", "2026-02-04"),
        ("Wednesday", "2026-02-04", "2026-02-05"),
        ("last wednesday", "2026-01-28", "2026-01-29"),
        ("last week", "2026-01-26", "2026-02-02"),
        ("this week", "2026-02-02", "2026-02-09"),
        ("last month", "2026-01-01", "2026-02-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("2025", "2025-01-01", "2026-01-01"),
        ("2026-02", "2026-02-01", "2026-03-01"),
        ("february", "2026-02-01", "2026-03-01"),
        ("last february", "2025-02-01", "2025-03-01"),
        ("in march", "2025-03-01", "2025-04-01"),
        ("feb 2025", "2025-02-01", "2025-03-01"),
        ("2026-02-01", "2026-02-01", "2026-02-02"),
        ("on 1 feb", "2026-02-01", "2026-02-02"),
        ("May 8th, 2023", "2023-05-08", "2023-05-09"),
        ("8 May", "2025-05-08", "2025-05-09"),
        ("3 days ago", "2026-02-01", "2026-02-02"),
        ("an hour ago", "2026-02-04T11:00:00Z", None),
        ("last 3 days", "2026-02-01T12:00:00Z", None),
        ("24h", "2026-02-03T12:00:00Z", None),
        ("since 2026-02-01", "2026-02-01", None),
        ("since last tuesday", "2026-02-03", None),
        ("after 2026-02-01", "2026-02-02", None),
        ("before yesterday", None, "2026-02-03"),
        ("until yesterday", None, "2026-02-04"),
        ("monday to yesterday", "2026-02-02", "2026-02-04"),
        ("between 2026-01-01 and 2026-01-15", "2026-01-01", "2026-01-16"),
        ("2026-01-01..2026-01-02", "2026-01-01", "2026-01-03"),
        ("2026-02-01T10:00:00Z", "2026-02-01T10:00:00Z", "2026-02-01T10:00:01Z"),
    ],
)
def test_a_phrase_is_a_span(phrase, start, end):
    found = span(phrase, NOW)
    assert found == (day(start), day(end)), [value and seconds(value) for value in found]


@pytest.mark.parametrize(
    "phrase",
    [
        "",
        "foo",
        "last foo",
        "30 feb",
        "0",
        "9999",
        "since",
        "december 9999",
        "since " * 5_000,
        "\0",
        "🧠",
        "to to to",
    ],
)
def test_what_is_no_time_is_refused_with_examples(phrase):
    with pytest.raises(InvalidQuery, match="last tuesday"):
        span(phrase, NOW)


def test_bounds_are_a_span_s_ends():
    assert since(None, NOW) is None
    assert until(7, NOW) == since(7, NOW) == 7
    assert since("yesterday", NOW) == micros("2026-02-03")
    assert until("yesterday", NOW) == micros("2026-02-04")
    assert until("2h", NOW) == micros("2026-02-04T10:00:00Z")
