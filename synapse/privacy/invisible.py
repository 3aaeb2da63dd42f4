"""Characters of a text that nobody sees: the escapes by which a terminal takes colours, also as
programs write them out, and letters without a width. Secrets are looked for as if they were not
there, and found places are mapped back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

from synapse.system.typed import NamedTuple

# The beginning of an escape: the character, its picture, and what programs write in its place.
_ESCAPE = r"(?:[\x1b␛]|\\x1[bB]|\\u001[bB]|\\u\{1[bB]\}|\\0?33|\\e|\^\[)"
_COLOUR = r"\[[0-9]{1,3}(?:[;:][0-9]{0,3}){0,15}m"  # what is left where the character got lost
_NO_WIDTH = (
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_INVISIBLE = (
    rf"{_ESCAPE}\[[0-?]{{0,64}}[ -/]{{0,4}}[@-~]|\x9b[0-?]{{0,64}}[ -/]{{0,4}}[@-~]|{_COLOUR}"
    r"|(?:\x1b[\]P^_X]|[\x90\x9d])[^\x07\x1b\x90\x9c\x9d\n]{0,2048}(?:\x07|\x1b\\|\x9c)"
    rf"|\x1b[ -/]{{0,4}}[0-~]|{_NO_WIDTH}"
    r"|\\u(?:00ad|034f|061c|180[b-fB-F]|200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|fe0[0-9a-fA-F]"
    r"|[fF][eE][fF][fF])"
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Part(NamedTuple):
    """A text without what is invisible, and where each run of it starts there and in the whole."""

    text: str
    starts: tuple[int, ...]
    origins: tuple[int, ...]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text stands in the whole."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, index: int) -> int:
        run = bisect_right(self.starts, index) - 1
        return self.origins[run] + index - self.starts[run]


def holds_some(text: str) -> bool:
    """Return whether a text may hold characters that nobody sees: a cheap look."""
    if "\x1b" in text or "\\u" in text or ("[" in text and _compiled(_COLOUR).search(text)):
        return True
    return not text.isascii() and bool(_compiled(rf"[␛\x90\x9b\x9d]|{_NO_WIDTH}").search(text))


def without(text: str) -> Part:
    """Return the text as it is seen."""
    texts, starts, origins, size, at = [], [], [], 0, 0
    for match in _compiled(_INVISIBLE).finditer(text):
        if match.start() > at:
            texts.append(text[at : match.start()])
            starts.append(size)
            origins.append(at)
            size += match.start() - at
        at = match.end()
    if at < len(text) or not texts:
        texts.append(text[at:])
        starts.append(size)
        origins.append(at)
    return Part("".join(texts), tuple(starts), tuple(origins))


def blanked(text: str) -> str:
    """Return the text with spaces for what is invisible, which may stand between two words."""
    return _compiled(_INVISIBLE).sub(lambda match: " " * len(match[0]), text)
