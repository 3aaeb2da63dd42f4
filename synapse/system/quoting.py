"""Text of others made safe to print: nothing in it moves a cursor, hides, turns the direction of a
line, or is taken by a model's server for a token of its own.

A field stands on one line (`inline`, for terminals `one_line`); a body keeps its lines (`escaped`,
for terminals `clean`), and whoever prints it puts something before each (`prefixed`). Everything
that is printed passes through here: views, prompts, tools, the shells. No record, no file but the
list of tokens.
"""

from __future__ import annotations

import os
import re
from functools import cache

from synapse.system.typed import NamedTuple

# What a reader would not see, a terminal would obey or a tokenizer would hide: control, format and
# zero-width characters, line and paragraph separators, private use, tags, variation selectors but
# one in a row.
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
    "|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
)
# Those of them that count as printable; the others are what `isprintable` is for.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
# People see joiners inside emoji and Persian words: one between two letters that are not ASCII.
_JOINER = "(?<=[^\x00-\xff\u200b-\u200f])[\u200c\u200d](?=[^\x00-\xff\u200b-\u200f])"

# Where a listed token may begin, and how far it may reach: to its `>`, or to its first blank.
_ANGLE = r"<(?=(<?[^\s<>]{1,68}[>\s]))"
_SQUARE = r"\[(?=(/?[A-Za-z0-9_]{1,32}\]))"


class _Tokens(NamedTuple):
    """The listed tokens, without their first character; how those with a `*` begin and end."""

    whole: frozenset[str]
    begins: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]


@cache
def _tokens() -> _Tokens:
    path = os.path.join(os.path.dirname(__file__), "chat_tokens.txt")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    exact, parts = set(), []
    for token in lines:
        if not token or token.startswith("#"):
            continue
        if token.endswith(" *>"):
            exact.add(token[1:-2])
        elif "*" in token:
            begin, _, end = token[1:].partition("*")
            parts.append((begin, end))
        else:  # a second `>` at the end changes nothing
            exact.add(token[1:-1] if token.endswith(">>") else token[1:])
    return _Tokens(frozenset(exact), tuple(begin for begin, _ in parts), tuple(parts))


def _is_token(name: str) -> bool:
    """Return whether a text, without its first character, is a listed token."""
    exact, begins, parts = _tokens()
    if name[-1].isspace():
        return f"{name[:-1]} " in exact
    if name in exact:
        return True
    return name.startswith(begins) and any(
        len(name) > len(begin) + len(end) and name.startswith(begin) and name.endswith(end)
        for begin, end in parts
    )


@cache  # when it is first needed: most texts are plain, and a command has only milliseconds
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def escaped(text: str) -> str:
    """Return the text with every hidden character as its code point, `<U+202E>`, and the first
    character of what a model's server would obey, `<U+003C>|im_start|>`. Tab and line feed stay.
    """
    if "<" in text:
        text = _compiled(_ANGLE).sub(_token_as_code_point, text)
    if "[" in text:
        text = _compiled(_SQUARE).sub(_token_as_code_point, text)
    plain = text.isascii() and text.replace("\n", "").isprintable()
    return text if plain else _compiled(_HIDDEN).sub(_code_point, text)


def inline(text: str) -> str:
    """Return the same on one line: line feeds and tabs are code points, too."""
    return escaped(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def clean(text: str) -> str:
    """Return the same for a terminal: hidden characters as `\\x1b` or `\\u202e`, the first one of a
    token as `\\x3c`. Tab, line feed and the joiners inside words and emoji stay."""
    if "<" in text:
        text = _compiled(_ANGLE).sub(_token_as_escape, text)
    if "[" in text:
        text = _compiled(_SQUARE).sub(_token_as_escape, text)
    line = text.replace("\n", "")
    if line.isprintable() and (line.isascii() or _INVISIBLE.isdisjoint(line)):
        return text
    return _compiled(_HIDDEN).sub(_escape, text)


def one_line(text: str) -> str:
    """Return the same for a terminal, on one line."""
    return clean(text).replace("\n", "\\x0a").replace("\t", "\\x09")


def in_json(text: str) -> str:
    """Return a text of JSON, as valid as it was, with the first character of each token as its
    escape."""
    if "<" in text:
        text = _compiled(_ANGLE).sub(_token_as_json, text)
    return _compiled(_SQUARE).sub(_token_as_json, text) if "[" in text else text


def prefixed(text: str, prefix: str) -> str:
    """Return every line of a text behind a prefix, an empty one without the blank at its end. It
    ends in a newline."""
    if "\n\n" in text or text[:1] in ("", "\n") or text[-1:] == "\n":
        empty = f"{prefix.rstrip()}\n"
        return "".join([f"{prefix}{row}\n" if row else empty for row in text.split("\n")])
    rows = text.replace("\n", f"\n{prefix}")
    return f"{prefix}{rows}\n"


def _token_as_code_point(match: re.Match[str]) -> str:
    return _code_point(match) if _is_token(match[1]) else match[0]


def _token_as_escape(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}" if _is_token(match[1]) else match[0]


def _token_as_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}" if _is_token(match[1]) else match[0]


def _code_point(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in (0x200C, 0x200D) and _compiled(_JOINER).match(match.string, match.start()):
        return match[0]
    width = 2 if code < 0x100 else 4 if code < 0x10000 else 8
    return f"\\{'xuU'[(code > 0xFF) + (code > 0xFFFF)]}{code:0{width}x}"
