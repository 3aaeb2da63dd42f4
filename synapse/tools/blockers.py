"""Blockers in a text: what is missing, where the text begins with `Blocked:`.

Pure. Read where an agent has no tool to report a blocker with.
"""

from __future__ import annotations

import re

# `Blocked:` as the first words of a text, whatever Markdown marks stand around them.
_MARKS = r"[*_~]{0,4}"
_BLOCKED = re.compile(
    rf"[\s#>*_~-]*(`?){_MARKS}blocked(?:{_MARKS}:{_MARKS}\1|{_MARKS}\1{_MARKS}\s?:){_MARKS}\s*(.*)",
    re.IGNORECASE,
)
_NOT_BLOCKED = frozenset(("none", "nothing", "no", "nobody", "n/a", "null", "false"))
UNNAMED = "it does not say what is missing"


def blocker_of(text: str) -> str | None:
    """Return what is missing, where the first line of a text begins with `Blocked:`; None for any
    other text, and for `Blocked: none`. What is missing is the rest of that paragraph, or the next
    one where nothing follows."""
    lines = [line.strip() for line in text.strip().splitlines()]
    first = next((at for at, line in enumerate(lines) if any(map(str.isalnum, line))), len(lines))
    match = _BLOCKED.fullmatch(lines[first]) if first < len(lines) else None
    if match is None:
        return None
    title = _unmarked(match[2])
    if re.split(r"[.,;:]", title.lower(), maxsplit=1)[0].strip() in _NOT_BLOCKED:
        return None
    body = "\n".join([title, *lines[first + 1 :]]).strip()
    return " ".join(body.partition("\n\n")[0].split()) or UNNAMED


def _unmarked(text: str) -> str:
    """Return the text without a mark at its end that was opened before it: `**Blocked: no
    key**`."""
    for mark in ("**", "__", "*", "_"):
        if text.endswith(mark) and text.count(mark) % 2:
            return text.removesuffix(mark).rstrip()
    return text
