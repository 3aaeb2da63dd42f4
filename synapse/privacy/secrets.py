"""Secrets in texts: keys, passwords, tokens. They are found by patterns, and masked.

A masked text says of what kind the secret was, and nothing of its letters. Most texts hold no word
that goes with a secret: they cost one look for such words. Whoever writes a text to the disk calls
`mask`; `records` does it for the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

from synapse.privacy import invisible, known_forms
from synapse.privacy.known_forms import Rule
from synapse.privacy.secret_forms import (
    ANYWHERE,
    ASSIGNED,
    CHECKS,
    CODE,
    COUNTS,
    FOLLOWED,
    FORMS,
    NAME,
    NAMED,
    PLACEHOLDER,
    SCHEME,
    SHORT,
    WORDS,
)
from synapse.privacy.words import Words, bytes_of, has, names_apart, strings, words_of
from synapse.system.typed import Any, NamedTuple

MARK = "[secret: "
Span = tuple[int, int, str]


def hinted(text: str, words: Words) -> bool:
    """Return whether a text with these words may hold a secret: a cheap look."""
    small = words.small
    return (
        words.long
        or not WORDS.isdisjoint(words.each)
        or ("@" in text and SCHEME in text)
        or "password" in small
        or "secret" in small
        or "aiza" in small  # such a key may hold signs between its letters
        or invisible.holds_some(text)
    )


def mask(text: str) -> str:
    """Return the text with every secret in it replaced by its kind."""
    words = words_of(text)
    return _replaced(text, found(text, words)) if hinted(text, words) else text


def found(text: str, words: Words | None = None) -> list[Span]:
    """Return where the secrets of a text begin and end, and of what kind they are, in order. What
    nobody sees may stand within one, or between one and the word before it.
    """
    if invisible.holds_some(text):
        visible, blanked = invisible.without(text), invisible.blanked(text)
        spans = _found(blanked, words_of(blanked))
        for start, end, kind in _found(visible.text, words_of(visible.text)):
            spans.append((*visible.place(start, end), kind))
    else:
        spans = _found(text, words or words_of(text))
    return apart(spans) if spans else spans


def _found(text: str, words: Words) -> list[Span]:
    spans: list[Span] = []
    if _may_be_formed(text, words):
        spans += _formed(text, words)
    for match in _assignments(text, words):
        kind, value = _assigned_kind(match["name"]), match["value"].rstrip(",;.)]}")
        if _is_secret(value, match["name"], bool(match["quote"])):
            start = match.start("value")
            spans.append((start, start + len(value), kind))
    marks = (MARK, "secret: ")  # of what was masked before
    return [span for span in spans if not text.startswith(marks, span[0])]


def mask_deep(value: Any) -> Any:
    """Return JSON with every secret in its texts masked; what holds none is the same object."""
    text = "\n".join(strings(value))  # most hold none: one look at all of them says so
    words = words_of(text)
    if not hinted(text, words) or not (found(text, words) or _names_a_secret(value)):
        return value
    return _masked(value)


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        masked = mask(value)
        if masked == value and _is_secret_by_name(name, value):
            return value if value.startswith(MARK) else _mark(_assigned_kind(name))
        return masked
    if isinstance(value, dict):
        names = names_apart(map(mask, value))
        items = [_masked(item, key) for key, item in value.items()]
        result: Any = dict(zip(names, items, strict=True))
        return value if result == value else result
    if isinstance(value, list | tuple):
        items = [_masked(item) for item in value]
        return value if items == list(value) else type(value)(items)
    return value


def _is_secret_by_name(name: str, value: Any) -> bool:
    """Return whether a text is a secret because of the name that it stands under."""
    return isinstance(value, str) and len(value) >= 6 and name != "" and _is_named(name)


def _names_a_secret(value: Any) -> bool:
    """Return whether a name anywhere in a value tells that what stands under it is a secret."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if any(_is_secret_by_name(name, inner) for name, inner in item.items()):
                return True
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return False


def mask_json(text: str) -> str:
    """Return a text of JSON, or lines of it, masked: what is no JSON is masked as a text."""
    if not hinted(text, words_of(text)):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mask(text)
    result = mask_deep(value)
    if result is value:
        return text
    for plain, masked in _changes(value, result):
        for ascii in (True, False):  # a text that can be encoded stays so
            dumped = json.dumps(plain, ensure_ascii=ascii)
            text = text.replace(dumped, json.dumps(masked, ensure_ascii=ascii))
    return text


def mask_lines(text: str) -> str:
    """Return a text masked of which every line may be JSON."""
    if not hinted(text, words_of(text)):
        return text
    return mask("".join(map(mask_json, text.splitlines(keepends=True))))


def _changes(value: Any, masked: Any) -> Iterator[tuple[str, str]]:
    """Yield each text that was masked, with what it became."""
    if isinstance(value, dict) and isinstance(masked, dict):
        for key, masked_item in zip(value, masked, strict=True):
            if key != masked_item:
                yield key, masked_item
            yield from _changes(value[key], masked[masked_item])
    elif isinstance(value, list):
        for item, masked_item in zip(value, masked, strict=True):
            yield from _changes(item, masked_item)
    elif value != masked:
        yield value, masked


class Row(NamedTuple):
    """So many characters of some in a row, and the classes of bytes by which one is found."""

    row: bytes
    classes: bytes


def _row(others: str, least: int) -> Row:
    """Return a row of letters, digits and these characters, so long."""
    codes = (
        120 if code > 127 or chr(code).isalnum() or chr(code) in others else 32
        for code in range(256)
    )
    return Row(b"x" * least, bytes(codes))


compiled = cache(re.compile)
# A text with fewer of these in a row, and with no word of `SHORT`, holds no form.
_LONG = _row("_+=~-", 15)


def _may_be_formed(text: str, words: Words) -> bool:
    """Return whether a secret in a text with these words may be known by its form."""
    return (
        _LONG.row in bytes_of(text).translate(_LONG.classes)
        or (SCHEME in text and "@" in text)
        or not SHORT.isdisjoint(words.each)
    )


def _formed(text: str, words: Words) -> Iterator[Span]:
    """Yield what is known by its form."""
    rules = [r for r in known_forms.chosen(_table(), words) if has(words.small, r.keywords)]
    rules += [rule for rule in _rules(ANYWHERE) if has(text, rule.keywords)]
    for rule in rules:
        for match in compiled(rule.pattern).finditer(text):
            group = 1 if match.re.groups and match[1] is not None else 0
            check = CHECKS.get(match.lastgroup or "", rule.fits)
            if check(match[group]):
                yield match.start(group), match.end(group), rule.kind


@cache
def _table() -> known_forms.Table:
    """Return the forms of the public list and those of here by their words."""
    return known_forms.by_word((*known_forms.rules(), *_rules(FORMS)))


@cache
def _rules(forms: tuple[tuple[str, str, str], ...]) -> tuple[Rule, ...]:
    return tuple(Rule(kind, tuple(words.split(" ")), form) for kind, words, form in forms)


def _is_named(name: str) -> bool:
    return re.fullmatch(NAME, name, re.IGNORECASE) is not None and not _is_count(name)


def _is_count(name: str) -> bool:
    """Return whether a name may as well be that of a number or a word of a language."""
    return name.lower() in COUNTS or name.lower() in ("pass", "secret")


def _is_secret(value: str, name: str, quoted: bool) -> bool:
    """Return whether what a name is given is a secret, and not code or an example of one."""
    if len(value) < 6:
        return False
    if re.fullmatch(r"[\w+/=-]{20,}", value) and _is_mixed(value):
        return True
    if re.fullmatch(PLACEHOLDER, value):
        return False
    has_digit = any(char.isdigit() for char in value)
    if _is_count(name) or name.lower().endswith("token"):
        return (
            has_digit
            and len(value) >= 16
            and any(char.isalpha() for char in value)
            and re.fullmatch(r"[\w+/=.~-]+", value) is not None
        )
    if quoted:
        return True
    if re.fullmatch(CODE, value):
        return has_digit and re.fullmatch(r"[A-Za-z0-9]{6,}|[\w-]{8,}", value) is not None
    return has_digit or any(char in "!@#$%^&*?+~" for char in value)


def _assigned_kind(name: str) -> str:
    small = name.lower()
    if "token" in small:
        return "token"
    return "password" if "pass" in small or "pwd" in small else "key"


def _is_mixed(run: str) -> bool:
    return any(map(str.isdigit, run)) and any(map(str.islower, run)) and any(map(str.isupper, run))


def _assignments(text: str, words: Words) -> Iterator[re.Match[str]]:
    small = words.small
    suspect = not NAMED.isdisjoint(words.each)
    suspect = suspect or "password" in small or "secret" in small
    if suspect and compiled(FOLLOWED).search(small):
        pattern = compiled(ASSIGNED, re.IGNORECASE)
        match = pattern.search(text)
        while match:  # what one is given may itself be the next: `the secret:`, then `key=...`
            yield match
            match = pattern.search(text, match.start("value"))


def apart(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that overlap as one, of the kind that begins first."""
    apart: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if apart and start < apart[-1][1]:
            first = apart[-1]
            apart[-1] = (first[0], max(end, first[1]), first[2])
        elif end > start:
            apart.append((start, end, kind))
    return apart


def _mark(kind: str) -> str:
    return f"{MARK}{kind}]"


def _replaced(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end, kind in spans:
        pieces += text[at:start], _mark(kind)
        at = end
    return "".join([*pieces, text[at:]])
