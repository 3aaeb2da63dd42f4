"""Front matter, cut from a text and read as fields: by hand where it is plain, else by
python-frontmatter.

`flat` answers only for the plain subset that nearly every file keeps to, and is silent about the
rest; `reference` answers for everything. Where both answer they agree, which the tests prove on
hostile text too. The meaning of the fields is not known here.
"""

from __future__ import annotations

import re

from synapse.errors import InvalidEntry
from synapse.system import yaml
from synapse.system.yaml import NULLS, Fields, Value

MAX_FRONT = 8 << 10
_FENCE = r"---[ \t]{0,80}(?:\r\n?|\n|\Z)"  # compiled when first needed: what is written never is
_CLOSING = rf"(?:(?<=\n)|(?<=\r)){_FENCE}"
_ALNUM = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_PLAIN = ("".join(sorted(_ALNUM)) + "_-./:+@,[]()*= \n\"'").encode()
_QUOTES = ("'", '"')


def flat(text: str, known: frozenset[str]) -> tuple[Fields, int] | None:
    """Return the fields of plain scalars and flat lists under known keys, and where the rest
    starts; None if unsure."""
    if not text.startswith("---\n"):
        return None
    end = text.find("\n---\n", 3, MAX_FRONT + 8)
    front = text[4 : end + 1]
    if end < 0 or not front.isascii() or " \n" in front or ":\n" in front:
        return None
    lines = front.split("\n")
    lines.pop()
    if front.encode().translate(None, _PLAIN) or front.count(": ") != len(lines):
        return None
    try:
        plain: dict[str, str] = dict([line.split(": ") for line in lines])
    except ValueError:
        return None
    if len(plain) != len(lines) or not known.issuperset(plain):
        return None
    fields = _fields(plain, '"' in front or "'" in front)
    return None if fields is None else (fields, end + 5)


def _fields(plain: dict[str, str], quoted: bool) -> Fields | None:
    fields: Fields = {**plain}
    for key, text in plain.items():
        if text in NULLS:
            fields[key] = None
        elif quoted or text[0] not in _ALNUM:
            value = _flat_list(text) if text[0] == "[" else _scalar(text)
            if value is None:
                return None
            fields[key] = value
    return fields


def _flat_list(text: str) -> list[Value] | None:
    if text == "[]":
        return []
    if text[0] != "[" or text[-1] != "]" or "[" in text[1:] or "]" in text[:-1]:
        return None
    items: list[Value] = []
    for item in text[1:-1].split(","):
        scalar = _scalar(item.strip(" "))
        if scalar is None or scalar in NULLS or scalar[-1] == ":":
            return None
        items.append(scalar)
    return items


def _scalar(text: str) -> str | None:
    """Return a plain scalar, or one in quotes that hold no other quote; None if unsure."""
    quote = text[:1]
    if quote in _QUOTES:
        inner = text[1:-1]
        is_whole = len(text) > 1 and text[-1] == quote
        return inner if is_whole and not any(map(inner.count, _QUOTES)) else None
    return text if quote in _ALNUM and not any(map(text.count, _QUOTES)) else None


def reference(text: str) -> tuple[Fields, int]:
    """Return the same by way of python-frontmatter, with a handler that splits and loads
    strictly."""
    import frontmatter
    from frontmatter.default_handlers import YAMLHandler

    class Handler(YAMLHandler):
        def split(self, text: str) -> tuple[str, str]:
            front, start = split(text)
            return front, text[start:]

        def load(self, fm: str, **options: object) -> Fields:
            return yaml.load(fm, depth=2, line=2)

    body = text.removeprefix("\ufeff").lstrip(" \t\r\n")
    _, start = split(body)
    fields, _ = frontmatter.parse(body, handler=Handler())
    return dict(fields), len(text) - len(body) + start  # type: ignore[arg-type]


def split(text: str) -> tuple[str, int]:
    """Return the front matter of a text that begins with it, and where the rest starts."""
    opening = re.match(_FENCE, text)
    if opening is None:
        kind = "JSON" if text.startswith("{") else "TOML" if text.startswith("+++") else ""
        problem = f"{kind} front matter is not read" if kind else "there is no front matter"
        raise _refusal(f"{problem}: begin with a line `---`, then `key: value` lines, then `---`")
    closing = re.compile(_CLOSING).search(text, opening.end(), opening.end() + MAX_FRONT + 100)
    if closing is None and len(text) - opening.end() <= MAX_FRONT:
        raise _refusal("the front matter is not closed by a line `---`")
    front = text[opening.end() : closing.start()] if closing else ""
    if closing is None or len(front.encode(errors="replace")) > MAX_FRONT:
        raise _refusal(f"the front matter is longer than {MAX_FRONT >> 10} KiB")
    return front, closing.end()


def _refusal(problem: str) -> InvalidEntry:
    return InvalidEntry(problem, problems=[problem])
