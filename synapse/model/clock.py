"""Time as microseconds since the epoch, and as text. The only place below the shell that reads a
clock."""

from __future__ import annotations

import time
from functools import lru_cache

from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.entry import SECOND, parse_ttl

DAY = 86_400 * SECOND  # microseconds
# so far before the last record's time a clock counts as a little behind
AHEAD = 600 * SECOND
_FLOOR = 1_577_836_800 * SECOND  # 2020: a clock before it was never set

_DAYS: dict[int, int] = {
    0: 0,
    1: 31,
    2: 59,
    3: 90,
    4: 120,
    5: 151,
    6: 181,
    7: 212,
    8: 243,
    9: 273,
    10: 304,
    11: 334,
}
_LONGEST = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def now() -> int:
    return time.time_ns() // 1_000


def stamp(now: int, last: int) -> int:
    """Return the time of receipt of the record after one that was received at `last`. A clock that
    is a little behind, or was never set, is held at that time. One that is behind by more is
    believed: the clock that stamped the last record was ahead.
    """
    if now > last or (last - now > AHEAD and now >= _FLOOR):
        return now
    return last + 1


def iso(us: int) -> str:
    """Return `2026-02-01T01:00:00.000000Z`; the text sorts as the time does."""
    return f"{_second(us // 1_000_000)}.{us % 1_000_000:06d}Z"


def seconds(us: int) -> str:
    """Return `2026-02-01T01:00:00Z`, the form of an entry's timestamp."""
    return f"{_second(us // 1_000_000)}Z"


def day(us: int) -> str:
    """Return `2026-02-01`, the day in UTC."""
    return _date(us // DAY)


@lru_cache(64)  # records of one day follow each other
def _date(days: int) -> str:
    return _second(days * 86_400)[:10]


@lru_cache(64)  # a busy writer asks for the same second hundreds of times
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def micros(text: str) -> int:
    """Return the microseconds of an ISO time: a date, seconds or fractions, `Z`, an offset or
    nothing (UTC)."""
    if len(text) == 27 and text[26] == "Z" and text[10] == "T" and text[19] == ".":
        # The form that `iso` writes, without a datetime: this runs once for every line of the log.
        try:
            hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
            if hour <= 23 and minute <= 59 and second <= 59:
                seconds = _midnight(text[:10]) + hour * 3_600 + minute * 60 + second
                return seconds * 1_000_000 + int(text[20:26])
        except (ValueError, KeyError):
            pass
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidEntry(
            f"time {text!r} is not valid: write 2026-02-01 or 2026-02-01T01:00:00Z", time=text
        ) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


@lru_cache(64)  # records of one day follow each other
def _midnight(text: str) -> int:
    """Return the second at which a day begins."""
    year, month, date = int(text[:4]), int(text[5:7]) - 1, int(text[8:10])
    leap = month > 1 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    before = year - 1
    days = (
        before * 365
        + before // 4
        - before // 100
        + before // 400
        - 719_162
        + _DAYS[month]
        + leap
        + date
        - 1
    )
    if not 0 < date <= _LONGEST[month]:
        raise ValueError("left to a datetime, which knows every month's end")
    return days * 86_400


def parse_since(text: str | int | None, now: int) -> int | None:
    """Return the moment of an ISO time, or of a span such as `24h` or `7d`, which counts back from
    now."""
    if text is None or isinstance(text, int):
        return text
    try:
        span = parse_ttl(text)
    except InvalidEntry:
        span = None
    if span is not None:
        return now - span
    try:
        return micros(text)
    except InvalidEntry as error:
        raise InvalidQuery(
            f"{text!r} is neither a span such as 24h or 7d nor a time", since=text
        ) from error
