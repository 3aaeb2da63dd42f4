"""What a text says about a subject, as an agent reads it: the value, and the authority and time of
whoever says so.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from scenarios.play.agents.heads import heads

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
    pattern_of_subject = re.escape(subject)
    pattern = (
        rf"(?i:\b{pattern_of_subject}(?: is(?: now)?|:) {_VALUE})|(?i:\buse"
        rf" {_VALUE}[^.\n]{{0,12}}? for {pattern_of_subject}\b)"
    )
    result = []
    for match in _matches(re.compile(pattern), text, subject.lower()):
        authors = heads(text)
        before = bisect_right(authors, match.start(), key=lambda head: head.end)
        head = authors[before - 1] if before else None
        rank = UNNAMED if head is None else head.authority if head.trusted else 0
        result.append((rank, head.at if head else "", match[1] or match[2]))
    return tuple(result)


def in_dispute(text: str, value: str) -> bool:
    """Return whether every entry of a text that holds this value is said to be in dispute with
    another.
    """
    if _DISPUTE not in text:
        return False
    holders = [block for block in _BLOCKS.split(text) if value in block]
    return bool(holders) and all(_DISPUTE in block.partition("\n")[0] for block in holders)


def _matches(pattern: re.Pattern[str], text: str, subject: str) -> Iterator[re.Match[str]]:
    """Yield matches on the lines that name the subject; texts may be long and few of their lines
    do.
    """
    lowered, end = _lowered(text), -1
    while (start := lowered.find(subject, end + 1)) >= 0:
        begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
        end = len(text) if end < 0 else end
        yield from pattern.finditer(text, begin, end)


@lru_cache(64)
def _lowered(text: str) -> str:
    """Return a text of the same length in small letters: the few that become two letters stay."""
    lowered = text.lower()
    return (
        lowered
        if len(lowered) == len(text)
        else "".join(low if len(low := c.lower()) == 1 else c for c in text)
    )
