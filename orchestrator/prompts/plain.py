"""Templates that ask for nothing but names: filled in without Jinja, whose import takes longer than
all else that a hook does.

What is filled in here is what Jinja would print; any other template is left to it. Pure. Called by
`templates`.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse.system.pattern import later

LONGEST = 1 << 20  # characters of a text that is filled in here
_NAME = "[a-z][a-z0-9_]*"
_PLACE = later(r"(\{\{-?)\s*(" + _NAME + r"(?:\." + _NAME + r")*)\s*(-?\}\})")
_OTHER = ("{{", "{%", "{#", "\r")  # what begins more than a name, and ends of lines that it changes


def fill(source: str, values: Mapping[str, object]) -> str | None:
    """Return the text of a template with its names replaced by their texts; None where it holds
    more than names, or one of them is no text. A hyphen at a brace takes the white space beside it.
    """
    pieces, ends = [], ""
    texts = _PLACE.split(source)
    for at in range(0, len(texts), 4):
        text, begins, name, next_ends = (*texts[at:], "", "", "")[:4]
        if any(mark in f"{text}{begins[:1]}" for mark in _OTHER):
            return None
        text = text.lstrip() if ends.startswith("-") else text
        pieces.append(text.rstrip() if begins.endswith("-") else text)
        value = _value(name, values) if name else ""
        if value is None:
            return None
        pieces.append(value)
        ends = next_ends
    return "".join(pieces) if sum(map(len, pieces)) <= LONGEST else None


def _value(name: str, values: Mapping[str, object]) -> str | None:
    """Return the text that a name stands for, through the values that its dots lead to."""
    first, *others = name.split(".")
    value = values.get(first)
    for other in others:
        value = getattr(value, other, None)
    return value if type(value) is str else None
