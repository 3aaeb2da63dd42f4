"""A change of a file in few words: which names are gone or renamed, and how the change begins,
without its secrets. Pure.

Called by `changes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from synapse.privacy.secrets import mask
from synapse.system.pattern import later

LINES = 2  # lines of each side that are shown
LENGTH = 100  # characters of a line that are shown
READ = 400  # removed lines in which declarations are looked for
LONGEST_LINE = 500
NAMES = 12  # names of one change
LONGEST_NAME = 60
MATCHED = 200  # lines of a change that are compared one by one
_NAME = later(r"[A-Za-z_$][A-Za-z0-9_$]*")
_TOKEN = later(r"[A-Za-z_$][A-Za-z0-9_$]*|\s+|.")
_DECLARED = later(
    r"(?m)\b(?:class|const|def|enum|fn|func(?:\s+\([^)\n]*\))?|function|interface|let|macro|module"
    r"|struct|trait|type|var)\s+([A-Za-z_$][A-Za-z0-9_$]*)"
    r"|^(?:export\s+)?([A-Za-z_$][A-Za-z0-9_$]*)\s*(?::[^=\n]*)?=(?!=)"
    r"|^[^\S\n]*(?:[\w.<>\[\]*&:]+[^\S\n]+){0,4}([A-Za-z_$][A-Za-z0-9_$]*)\s*\([^\n]*\{[^\S\n]*$"
)
# Such names are told where they are made of several words: any other is one of many.
_KEY = later(r"(?m)^[^\S\n]*[\"']?([A-Za-z_$][A-Za-z0-9_$]*)[\"']?\s*[:=](?!=)")
_COMPOUND = later(r"[A-Za-z0-9$]_[A-Za-z0-9$]|[a-z0-9][A-Z]|[A-Za-z]\d")
_WORDS = frozenset("catch else for foreach if return switch try while with".split())


class Diff(NamedTuple):
    """A change: its first lines, the names that are gone, and what those that were renamed are
    called now.
    """

    head: str = ""
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


def compare(old: str, new: str, after: str) -> Diff:
    """Return how one text became another. `after` is the file as it is now: a name that stands
    anywhere in it is not gone.
    """
    pairs = [*_changed_lines(old.splitlines(), new.splitlines())]
    present = set(_NAME.findall(after)) | set(_NAME.findall(new))
    lines = [line[:LONGEST_LINE] for before, _ in pairs for line in before]
    removed_text = "\n".join(lines[:READ])
    removed = tuple(dict.fromkeys(_telling(removed_text, present)))[:NAMES]
    return Diff(_head(pairs), removed, tuple(_renamed(pairs, set(removed), old)))


def names_in(text: str) -> set[str]:
    """Return the identifiers of a text."""
    return set(_NAME.findall(text))


def of_edit(text: str, old: str | None, new: str) -> Diff:
    """Return what a replacement in a text changes, by whole lines; without `old`, the text is
    written anew.
    """
    if old is None:
        return compare(mask(text), mask(new), new)
    start = text.find(old)
    if start < 0 or not old:
        return compare(mask(old), mask(new), new)
    begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start + len(old))
    before, after = (text[begin:start], text[start + len(old) : end if end >= 0 else None])
    first, second = (mask(f"{before}{side}{after}") for side in (old, new))
    return compare(first, second, text.replace(old, new))


def is_compound(name: str) -> bool:
    """Return whether a name is made of several words, and so hardly means anything else."""
    return _COMPOUND.search(name) is not None


def _changed_lines(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the lines that went and the lines that came in their place."""
    start, end = _common(old, new), _common(old[::-1], new[::-1])
    end = min(end, min(len(old), len(new)) - start)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old or not new or max(len(old), len(new)) > MATCHED:
        yield old, new
        return
    from difflib import SequenceMatcher  # most calls of a client change nothing

    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, first, last, start, end in blocks:
        if kind != "equal":
            yield old[first:last], new[start:end]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many of the first lines are the same."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _telling(removed_text: str, present: set[str]) -> Iterator[str]:
    """Yield the names that were declared in a text and are gone. One that was only used there may
    well stand elsewhere.
    """
    names = [name for match in _DECLARED.findall(removed_text) for name in match]
    names += filter(_COMPOUND.search, _KEY.findall(removed_text))
    for name in names:
        if name not in present | _WORDS and 3 <= len(name) <= LONGEST_NAME:
            yield name


def _renamed(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], removed: set[str], old: str
) -> Iterator[tuple[str, str]]:
    """Yield what the gone names are called now: the first difference of a line and the line in its
    place is one name for another, which was not there before.
    """
    old_names = set(_NAME.findall(old))
    for before, after in pairs:
        for first, second in zip(before, after, strict=False):
            tokens = zip(_TOKEN.findall(first), _TOKEN.findall(second), strict=False)
            name, new_name = next(((a, b) for a, b in tokens if a != b), ("", ""))
            is_new = _NAME.fullmatch(new_name) and new_name not in old_names
            if name in removed and is_new and len(new_name) <= LONGEST_NAME:
                removed = removed - {name}
                yield name, new_name


def _head(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Return the first lines that went and came, each behind its sign."""
    for before, after in pairs:
        lines = [f"- {line.strip()}" for line in before if line.strip()][:LINES]
        lines += [f"+ {line.strip()}" for line in after if line.strip()][:LINES]
        if lines:
            return "\n".join(line if len(line) <= LENGTH else f"{line[:LENGTH]}…" for line in lines)
    return ""
