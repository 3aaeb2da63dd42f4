"""Templates of texts that come in: `{path.into.the.json}` in a fixed text, and nothing else.

Pure. No expression, no filter, no loop: a path names a value that is a text, a number, true or
false. `{path?}` may be missing. `{{` and `}}` are braces.
"""

from __future__ import annotations

import json
import re

from synapse.errors import InvalidEntry
from synapse.system.typed import Any, NamedTuple

LONGEST_TEMPLATE = 4096  # characters
MOST_PATHS, DEEPEST = 32, 8
LONGEST_VALUE, LONGEST_TEXT = 16_000, 48_000  # characters

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,63})*\??")


class Path(NamedTuple):
    """The way to a value: keys of objects, places in lists."""

    steps: tuple[str, ...]
    optional: bool

    def find(self, data: object) -> str:
        """Return the value as text; InvalidEntry where there is none, or it is no single one."""
        value: Any = data
        for step in self.steps:
            value = _step(value, step)
        if value is _MISSING or isinstance(value, dict | list):
            if value is _MISSING and self.optional:
                return ""
            problem = "is not in it" if value is _MISSING else "is no single value"
            raise InvalidEntry(f"the delivery does not fit: {'.'.join(self.steps)} {problem}")
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        return cut(text, LONGEST_VALUE)


Parts = tuple[str | Path, ...]


def parse(text: str) -> Parts:
    """Return the parts of a template; InvalidEntry says what is wrong with it."""
    if len(text) > LONGEST_TEMPLATE:
        raise InvalidEntry(f"a template has at most {LONGEST_TEMPLATE} characters")
    parts: list[str | Path] = []
    end = 0
    for match in _PART.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        parts.append(_part(match[0], match[1]))
    parts.append(text[end:])
    if sum(isinstance(part, Path) for part in parts) > MOST_PATHS:
        raise InvalidEntry(f"a template has at most {MOST_PATHS} paths")
    return tuple(part for part in parts if part)


def render(template: Parts, data: object) -> str:
    """Return the text that a template makes of what came in."""
    texts = (part if isinstance(part, str) else part.find(data) for part in template)
    return cut("".join(texts), LONGEST_TEXT)


def cut(text: str, longest: int) -> str:
    """Return a text, and where it was longer, its beginning and how much more there was."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} characters more)"


def _part(whole: str, path: str | None) -> str | Path:
    if whole in ("{{", "}}"):
        return whole[0]
    if path is None or not _PATH.fullmatch(path):
        raise InvalidEntry(
            f"{whole!a} is no path: write one such as {{issue.title}}, or {{{{ for a brace"
        )
    steps = tuple(path.removesuffix("?").split("."))
    if len(steps) > DEEPEST:
        raise InvalidEntry(f"{whole} has more than {DEEPEST} steps")
    return Path(steps, path.endswith("?"))


_MISSING = object()


def _step(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    if isinstance(value, list) and step.isascii() and step.isdigit():
        return value[int(step)] if int(step) < len(value) else _MISSING
    return _MISSING
