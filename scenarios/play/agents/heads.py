"""Who says what stands in a text of the memory: the heads of entries, as an agent reads them in
views and capsules.

Only what stands at the margin is a head. What an entry says is quoted, so whatever poses as one in
it is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from synapse.model.entry import TRUST, minted

_ENTRY = re.compile(
    (
        r"^- \S+ (?:`synapse read )?(?P<id>[^\s`]+)`? \((?:\"[^\"\n]*\"|[^\s\",]+), authority"
        r" (?P<authority>\d+)(?:, (?P<trust>[a-z]+)\b)?(?:, (?P<at>\d[\d:TZ-]+))?"
    ),
    re.MULTILINE,
)
# A capsule says once, in its first line, what most of its items share, and of each in what it
# differs.
_CAPSULE = re.compile(r"\(version \d+; (?P<common>.*); (?P<year>\d{4}) UTC\)\n")
_ITEM = re.compile(
    (
        r"^- (?P<id>\S+)@[0-9a-f]+ (?:\"[^\"\n]*\"|\S+) (?P<at>\S+)(?:"
        r" \((?P<own>.*?)\))?(?: disputed with .*)?$"
    ),
    re.MULTILINE,
)
_AUTHORITY = re.compile(r"\bauthority (\d+)\b")
_TRUST = re.compile(rf"\b({'|'.join(TRUST)})\b")
_DAY = re.compile(r"syn-(\d{4}-\d\d-\d\d)-")


class Head(NamedTuple):
    """Where a head ends, and what it says of its entry: how much its author counts for, and when it
    was said, or the place of its id among those of the day.
    """

    end: int
    authority: int
    trusted: bool
    at: str


@lru_cache(64)
def heads(text: str) -> list[Head]:
    """Return the heads of all entries in a text, in their order."""
    if capsule := _CAPSULE.match(text):
        return list(_items(text, capsule["common"], capsule["year"]))
    return [
        Head(
            match.end(),
            int(match["authority"]),
            match["trust"] != "unverified",
            _place(match["id"]) or match["at"] or "",
        )
        for match in _ENTRY.finditer(text)
    ]


def _place(id: str) -> str | None:
    """Return the day of an id and its number of that day, as text that sorts; None where it has
    none.
    """
    day = minted(id)
    return f"{day[0]}T{day[1]:09}" if day else None


def _items(text: str, common: str, year: str) -> Iterator[Head]:
    for match in _ITEM.finditer(text):
        own = match["own"] or ""
        authority, trust = (
            pattern.search(own) or pattern.search(common) for pattern in (_AUTHORITY, _TRUST)
        )
        rank = int(authority[1]) if authority else 0
        trusted = trust is None or trust[1] != "unverified"
        yield Head(match.end(), rank, trusted, _time(match["id"], match["at"], year))


def _time(id: str, at: str, year: str) -> str:
    """Return a time in full: a capsule leaves out the day of the id, and the usual year."""
    if len(at) > len("00:00"):
        return at if at[:4].isdigit() else f"{year}-{at}"
    day = _DAY.match(id)
    return f"{day[1]}T{at}" if day else at
