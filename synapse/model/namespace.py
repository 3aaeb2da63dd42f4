"""Namespaces: the grammar of their paths, matching of globs, the default time to live per prefix.
Pure.

A glob is matched segment by segment and never becomes a regular expression. `api/*` is `api` and
everything below it, `*` alone is everything, `api/*/v2` holds exactly one segment in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from synapse.errors import InvalidEntry

MAX_LEVELS = 6
MAX_COMPONENT = 63
MOST_GLOBS = 200  # of a question, or of an agent; SQLite takes fewer than 1,000 with all else
DEFAULT_TTL = "7d"
PREFIX_TTL = {
    "blockers": "7d",
    "api": "30d",
    "decisions": "90d",
    "team": "14d",
    "projects": "30d",
    "plans": "90d",
}

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_REST = _FIRST | frozenset("_-")


def is_component(text: str) -> bool:
    """Return whether the text is one segment of a namespace, or an agent's id."""
    return 0 < len(text) <= MAX_COMPONENT and text[0] in _FIRST and _REST.issuperset(text)


def is_namespace(text: str) -> bool:
    segments = text.split("/")
    return len(segments) <= MAX_LEVELS and all(map(is_component, segments))


@lru_cache(1_024)  # a workspace has tens of namespaces, and every entry is checked
def check(text: str) -> str:
    """Return the namespace itself, or raise InvalidEntry saying what a namespace looks like."""
    if is_namespace(text):
        return text
    raise InvalidEntry(
        (
            f"namespace {text!r} is not valid: up to {MAX_LEVELS} segments of a-z, 0-9,"
            f" '_' and '-', joined by '/'"
        ),
        namespace=text,
    )


def is_glob(text: str) -> bool:
    segments = text.split("/")
    return len(segments) <= MAX_LEVELS + 1 and all(
        segment == "*" or is_component(segment) for segment in segments
    )


def check_glob(text: str) -> str:
    if is_glob(text):
        return text
    raise InvalidEntry(
        f"pattern {text!r} is not valid: write a namespace, or one that ends in /*", glob=text
    )


def check_globs(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that somebody asks with, or is registered with, each once."""
    globs = tuple(dict.fromkeys(map(check_glob, texts)))
    if len(globs) > MOST_GLOBS:
        raise InvalidEntry(
            f"{len(globs)} patterns of namespaces are too many: write at most {MOST_GLOBS}, or"
            " fewer that end in /*"
        )
    return globs


@lru_cache(8_192)  # asked of the same patterns and namespaces for every entry
def matches(glob: str, namespace: str) -> bool:
    """Return whether the glob covers the namespace. A last `*` covers the whole subtree and its
    root."""
    if glob == "*" or glob == namespace:
        return True
    pattern, path = glob.split("/"), namespace.split("/")
    subtree = pattern[-1] == "*"
    fixed = pattern[:-1] if subtree else pattern
    if len(path) < len(fixed) or (not subtree and len(path) != len(fixed)):
        return False
    return all(want == "*" or want == have for want, have in zip(fixed, path, strict=False))


def matches_any(globs: Iterable[str], namespace: str) -> bool:
    """Return whether one of the globs covers the namespace."""
    for glob in globs:  # noqa: SIM110 - `any` of a generator takes twice the time
        if matches(glob, namespace):
            return True
    return False


def covers(glob: str, other: str) -> bool:
    """Return whether a glob covers every namespace that another one covers."""
    if glob == "*" or glob == other:
        return True
    pattern, inner = glob.split("/"), other.split("/")
    subtree = pattern[-1] == "*"
    if not subtree and (inner[-1] == "*" or len(inner) != len(pattern)):
        return False
    fixed = pattern[:-1] if subtree else pattern
    path = inner[:-1] if inner[-1] == "*" else inner
    return len(path) >= len(fixed) and all(
        want == "*" or want == have for want, have in zip(fixed, path, strict=False)
    )


@lru_cache(1_024)
def default_ttl(namespace: str, overrides: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the time to live of an entry that names none: that of the longest declared pattern,
    else of the built-in table.
    """
    best, ttl = -1, PREFIX_TTL.get(namespace.split("/", 1)[0], DEFAULT_TTL)
    for glob, declared in overrides:
        if matches(glob if glob.endswith("*") else f"{glob}/*", namespace) and len(glob) > best:
            best, ttl = len(glob), declared
    return ttl
