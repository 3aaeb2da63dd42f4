"""The fingerprint of a text, and how similar two texts of one fingerprint are. Pure.

A share of equal characters cannot tell '100' from '1000', 'Do' from 'Do not' or 'up' from 'down',
so no word that carries meaning may differ at all: no number, unit, date, id, URL, name, negation or
quoted string, nor any other. Only small words and full stops may.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from synapse.system.typed import NamedTuple

SMALL = frozenset("an the please also just really very simply actually fyi hello thanks".split())

_OPENERS = SMALL | frozenset(
    "we it this that these those there all use do not don't is are was has have in on"
    " at for from to with when if"
    " no and but or so our they its after before since until both each every".split()
)
QUOTED = re.compile(
    r"```.*?```|`[^`]*`|\"[^\"]*\"|“[^”]*”|«[^»]*»|„[^“”]*[“”]|‘[^’]*’|'[^'\s][^']*'(?!\w)",
    re.DOTALL,
)
_STOPS = ".,;:!"


class Fingerprint(NamedTuple):
    """The fingerprint of a text: its words that carry meaning, and the small words beside them."""

    words: tuple[str, ...]
    small: tuple[str, ...] = ()


@lru_cache(4_096)  # night after night it is the same texts that are compared
def fingerprint(text: str) -> Fingerprint:
    """Return the fingerprint of a text: its meaningful words in their order. A quoted string is one
    word, exactly as it is."""
    meaningful: list[str] = []
    small: list[str] = []
    start, first = 0, True
    for quotation in (*QUOTED.finditer(text), None):
        plain = text[start : quotation.start() if quotation else len(text)].split()
        for raw in plain:
            bare = raw.rstrip(_STOPS) or raw
            token = _lowered(bare) if first else bare
            first = raw[-1] in ".!?:"
            if token in SMALL:
                small.append(token)
            else:
                meaningful.append(token)
        if quotation:
            meaningful.append(quotation.group())
            start, first = quotation.end(), False
    return Fingerprint(tuple(meaningful), tuple(small))


def similarity(one: Fingerprint, other: Fingerprint) -> float:
    """Return the share of their words that two texts of one fingerprint have in common."""
    few, many = sorted((Counter(one.small), Counter(other.small)), key=len)
    common = len(one.words) + sum(min(count, many[word]) for word, count in few.items())
    total = 2 * len(one.words) + len(one.small) + len(other.small)
    return 2 * common / total if total else 0.0


def _lowered(word: str) -> str:
    """Return the first word of a sentence without its capital, where that says nothing: `Mark` may
    be a name, `We` is none."""
    return word.lower() if word[1:].islower() and word.lower() in _OPENERS else word
