"""Phrases for times: `last tuesday`, `yesterday`, `since 2026-02-01`, `2026-02`. Pure; all in UTC.

A phrase means a span: from a microsecond on, up to another one. An open end is None. Reads take it
for `since`, so nothing heavy is imported before a phrase needs it.
"""

from __future__ import annotations

from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.clock import DAY, micros
from synapse.model.entry import SECOND, parse_ttl
from synapse.system.typed import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import re
    from datetime import date

    # a phrase, microseconds since the epoch, a day or a datetime
    When: TypeAlias = str | int | date | None
else:
    When = object  # only annotations name it

_EPOCH = 719_163  # the ordinal of 1970-01-01
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = tuple(
    (
        "january february march april may june july august september october november december"
    ).split()
)
_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_AGO = (
    r"(?:(?:the )?(?:last|past) )?(\d{1,6}|an?|one)"
    r" ?(second|minute|hour|day|week|month|year)s?(?: ago)?"
)
_MONTH = r"(\d{4})-(\d{2})|(?:(last|this|in) )?([a-z]{3,9})(?: (\d{4}))?"
_DAY = (
    r"(?:(\d{1,2})(?:st|nd|rd|th)? (?:of )?([a-z]{3,9})|([a-z]{3,9})"
    r" (\d{1,2})(?:st|nd|rd|th)?),?(?: (\d{4}))?"
)
MAX = 100  # characters
EXAMPLES = (
    "write 24h, 7d, 2026-02-01, yesterday, last tuesday, last week, february 2026, 'since"
    " monday', 'A to B'"
)


class Span(NamedTuple):
    """A stretch of time: from `start` on, up to `end`, which is not in it."""

    start: int | None
    end: int | None


def span(phrase: str, now: int) -> Span:
    """Return the span that a phrase means; InvalidQuery with examples where it means nothing."""
    text = " ".join(phrase[:MAX].lower().split())
    head, _, remainder = text.partition(" ")
    if head in ("since", "from", "after") and " to " not in text and " until " not in text:
        meaning = span(remainder, now)
        return Span(meaning.end if head == "after" else meaning.start, None)
    if head in ("until", "till", "before"):
        meaning = span(remainder, now)
        return Span(None, meaning.start if head == "before" else meaning.end)
    text = text.removeprefix("from ").removeprefix("between ")
    for joint in (" to ", " until ", " till ", " and ", "..", " - "):
        first, found_joint, last = text.partition(joint)
        if found_joint:
            return Span(span(first, now).start, span(last, now).end)
    return _point(text.removeprefix("on "), phrase, now)


def since(when: When, now: int) -> int | None:
    """Return the start of what a phrase means; `24h` counts back from now."""
    moment = _microseconds(when)
    return moment if not isinstance(when, str) else span(when, now).start


def until(when: When, now: int) -> int | None:
    """Return the end of what a phrase means: `until yesterday` takes that day in."""
    moment = _microseconds(when)
    if not isinstance(when, str):
        return moment
    meaning = span(when, now)
    return meaning.end if meaning.end is not None else meaning.start


def day_of(at: int) -> date:
    """Return the day of a moment."""
    from datetime import date

    return date.fromordinal(at // DAY + _EPOCH)


def _microseconds(when: When) -> int | None:
    """Return what is no phrase as microseconds; InvalidQuery where it is no time at all."""
    if when is None or isinstance(when, str) or type(when) is int:
        return when if type(when) is int else None
    try:
        return micros(when.isoformat())  # type: ignore[union-attr]
    except (AttributeError, InvalidEntry):
        raise InvalidQuery(
            f"{when!r} is no time: {EXAMPLES}, or give a datetime", when=str(when)
        ) from None


def _match(pattern: str, text: str) -> re.Match[str] | None:
    import re

    return re.fullmatch(pattern, text)


def _point(text: str, phrase: str, now: int) -> Span:
    try:
        length = parse_ttl(text) if text else None
        if length is not None:
            return Span(now - length, None)
    except InvalidEntry:
        pass
    result = _iso(text) or _relative(text, now) or _calendar(text, now)
    if result is None:
        raise InvalidQuery(f"{phrase!r} is no time: {EXAMPLES}", when=phrase)
    return result


def _iso(text: str) -> Span | None:
    try:
        start = micros(text.upper())
    except (InvalidEntry, OverflowError):
        return None
    return Span(start, start + (DAY if len(text) <= 10 else SECOND))


def _relative(text: str, now: int) -> Span | None:
    today = day_of(now)
    near = {"today": 0, "yesterday": 1, "the day before yesterday": 2, "now": 0}.get(text)
    if near is not None:
        return _days(today.toordinal() - near, 1) if text != "now" else Span(now, None)
    which, _, unit = text.rpartition(" ")
    if unit in WEEKDAYS and which in ("", "last", "this"):
        back = (today.weekday() - WEEKDAYS.index(unit)) % 7
        return _days(today.toordinal() - (back or (7 if which == "last" else 0)), 1)
    if which in ("last", "this") and unit in ("week", "month", "year"):
        return _stretch(today, which == "last", unit)
    ago = _match(_AGO, text)
    return _ago(ago, now) if ago else None


def _ago(match: re.Match[str], now: int) -> Span:
    """Return the span of `3 days ago`, which is that day, or of `the last 3 days`, which reaches up
    to now."""
    count = int(match[1]) if match[1].isdigit() else 1
    days = {"month": 30, "year": 365}.get(match[2])
    length = (days * count * DAY) if days else parse_ttl(f"{count}{_UNITS[match[2]]}") or 0
    if match[0].endswith("ago") and match[2] in ("day", "week"):
        return _days((now - length) // DAY + _EPOCH, 1)
    return Span(now - length, None)


def _stretch(today: date, last: bool, unit: str) -> Span:
    if unit == "week":
        return _days(today.toordinal() - today.weekday() - 7 * last, 7)
    if unit == "year":
        return _month(today.year - last, 1, 12) or Span(None, None)
    year, month = (today.year, today.month - last) if today.month > last else (today.year - 1, 12)
    return _month(year, month) or Span(None, None)


def _calendar(text: str, now: int) -> Span | None:
    """Return the span of a month or a day by its name. Without a year it is the latest that has
    begun."""
    today = day_of(now)
    if text.isdigit() and len(text) == 4:
        return _month(int(text), 1, 12)
    match = _match(_DAY, text)
    if match and (month := _number(match[2] or match[3])):
        return _named_day(today, month, int(match[1] or match[4]), match[5])
    match = _match(_MONTH, text)
    if match is None:
        return None
    if match[1]:
        return _month(int(match[1]), int(match[2]))
    month = _number(match[4])
    if not month:
        return None
    current = month == today.month and match[3] != "last"
    return _month(int(match[5] or today.year - (month >= today.month and not current)), month)


def _named_day(today: date, month: int, day: int, year: str | None) -> Span | None:
    from datetime import date

    try:
        day_of_year = date(int(year or today.year), month, day)
        return _days(
            (
                day_of_year
                if year or day_of_year <= today
                else day_of_year.replace(year=today.year - 1)
            ).toordinal(),
            1,
        )
    except ValueError:
        return None


def _number(name: str) -> int:
    """Return the number of a month by its name or the first three letters of it; 0 for any other
    word."""
    return next((n for n, month in enumerate(MONTHS, 1) if name == month or name == month[:3]), 0)


def _month(year: int, month: int, months: int = 1) -> Span | None:
    from datetime import date

    try:
        first = date(year, month, 1)
        after = month + months - 1
        following = date(year + after // 12, after % 12 + 1, 1)
    except ValueError:
        return None
    return _days(first.toordinal(), following.toordinal() - first.toordinal())


def _days(ordinal: int, count: int) -> Span:
    start = (ordinal - _EPOCH) * DAY
    return Span(start, start + count * DAY)
