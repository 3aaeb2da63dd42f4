"""What a text says about a subject, as an agent reads it: the value, and the authority and time of
whoever says so.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from scenarios.play.heads import heads

_VALUE = r"([A-Za-z0-9][A-Za-z0-9_-]*)"


_DISPUTE = "disputed with "
_BLOCKS = re.compile(r"(?m)^(?=- )")
UNNAMED = -1  # the authority of what nobody is named for


@lru_cache(8_192)
def statements(text: str, subject: str) -> tuple[tuple[int, str, str], ...]:
    """Return what a text says about a subject: authority and time of whoever says it, and the
    value. UNNAMED is the authority where no author is named."""
    if subject not in text and subject[:1].upper() + subject[1:] not in text:
        return ()
    place = re.escape(subject)
    pattern = (
        rf"(?i:\b{place}(?: is(?: now)?|:) {_VALUE})|(?i:\buse {_VALUE}[^.\n]{{0,12}}?"
        rf" for {place}\b)"
    )
    found = []
    for match in _matches(re.compile(pattern), text, subject.lower()):
        known = heads(text)
        before = bisect_right(known, match.start(), key=lambda head: head.end)
        head = known[before - 1] if before else None
        rank = UNNAMED if head is None else head.authority if head.trusted else 0
        found.append((rank, head.at if head else "", match[1] or match[2]))
    return tuple(found)


def in_dispute(text: str, value: str) -> bool:
    """Return whether every entry of a text that holds this value is said to be in dispute with
    another.
    """
    if _DISPUTE not in text:
        return False
    holders = [block for block in _BLOCKS.split(text) if value in block]
    return bool(holders) and all(
        _DISPUTE in block.partition("\n")[0] for block in holders
    )


def _matches(
    pattern: re.Pattern[str], text: str, subject: str
) -> Iterator[re.Match[str]]:
    """Where it matches: on lines that name the subject, for the texts may be long and few of their
    lines do.
    """
    lowered, end = _lowered(text), -1
    while (place := lowered.find(subject, end + 1)) >= 0:
        begin, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        end = len(text) if end < 0 else end
        yield from pattern.finditer(text, begin, end)


@lru_cache(64)
def _lowered(text: str) -> str:
    """In small letters, each in its place: the few that become two letters stay as they are."""
    lowered = text.lower()
    return (
        lowered
        if len(lowered) == len(text)
        else "".join(low if len(low := c.lower()) == 1 else c for c in text)
    )
