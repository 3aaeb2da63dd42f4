"""What a question finds in an entry beside its text: its author's name and the words for its day.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from synapse.index.full_text.terms import form, root
from synapse.model.clock import DAY
from synapse.model.dates import MONTHS, WEEKDAYS, day_of

_PIECE = re.compile(r"[^\W_]+")
_MONTHS_RU = (
    "январ", "феврал", "март", "апрел", "ма", "июн", "июл", "август", "сентябр", "октябр",
    "ноябр", "декабр",
)  # fmt: skip
_WEEKDAYS_RU = ("понедельник", "вторник", "сред", "четверг", "пятниц", "суббот", "воскресен")

_NEAR = {0: ("today", "сегодн"), 1: ("yesterday", "вчер")}
_CALLED = frozenset(
    (
        *MONTHS,
        *(month[:3] for month in MONTHS),
        *WEEKDAYS,
        *_MONTHS_RU,
        *_WEEKDAYS_RU,
        *_NEAR[0],
        *_NEAR[1],
    )
)


def by_piece(authors: Iterable[tuple[int, str]]) -> dict[str, frozenset[int]]:
    """Return the numbers of the authors whose names hold a word, by that word."""
    by_word: dict[str, set[int]] = {}
    for number, name in authors:
        for piece in _PIECE.findall(name.lower()):
            if len(piece) > 1:
                by_word.setdefault(root(piece), set()).add(number)
    return {piece: frozenset(numbers) for piece, numbers in by_word.items()}


def named(words: Sequence[str], authors: Mapping[str, frozenset[int]]) -> dict[int, int]:
    """Return, for each author that the words name, by which of them: a bit each."""
    bits: dict[int, int] = {}
    for position, term in enumerate(words):
        for number in authors.get(form(term), ()):
            bits[number] = bits.get(number, 0) | 1 << position
    return bits


class Days:
    """Which words of a question are words for a day: its number, month, year, weekday, and how it
    lies to now.
    """

    def __init__(self, words: Sequence[str], now: int) -> None:
        self.words = words if any(term.isdigit() or term in _CALLED for term in words) else ()
        self.today = now // DAY
        self.known: dict[int, int] = {}

    def bits(self, at: int) -> int:
        if not self.words:
            return 0
        day = at // DAY
        if day not in self.known:
            day_words = _called(day, self.today)
            self.known[day] = sum(
                1 << position for position, term in enumerate(self.words) if term in day_words
            )
        return self.known[day]


def _called(day: int, today: int) -> frozenset[str]:
    date = day_of(day * DAY)
    month, weekday = MONTHS[date.month - 1], WEEKDAYS[date.weekday()]
    near = _NEAR.get(today - day, ())
    names = (
        str(date.day),
        f"{date.day:02d}",
        str(date.year),
        month,
        month[:3],
        weekday,
        _MONTHS_RU[date.month - 1],
        _WEEKDAYS_RU[date.weekday()],
        *near,
    )
    return frozenset(names)
