"""An agent's own notes in a folder, tidied by the phases of the Defrag Protocol. Pure;
`defrag_agent` reads and writes the files.

MEMORY.md               what it knows for good, in sections, under 60 lines
memory/YYYY-MM-DD.md    daily notes: read, copied into the archive, never changed, never deleted
memory/archive/YYYY-MM.md

No model is asked. Worth keeping is what the notes mark so: bullets below a section's heading, or
that begin with its label. What leaves MEMORY.md goes into the archive, except for duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from hashlib import sha256
from typing import NamedTuple, TypeVar

K = TypeVar("K")
LINES = 60  # of MEMORY.md
DAYS = 7  # notes older than so many go into the archive
SECTIONS = {
    "User Context": "user, user context, context, preference, preferences",
    "Projects": "project, projects, decision, decisions",
    "Lessons Learned": "lesson, lessons, lessons learned, learned",
}
_LABELS = {label: section for section, labels in SECTIONS.items() for label in labels.split(", ")}
_LABEL = re.compile(r"[-*]\s+(?:\*\*)?([A-Za-z ]+?)(?:\*\*)?:")
_HEADING = re.compile(r"#{1,6}\s+(.+?)\s*#*$")
_UNTIL = re.compile(r"\(until (\d{4}-\d\d-\d\d)\)")
_MOVED = re.compile(
    r"^<!-- from MEMORY\.md [^\n]*-->\n(.*?)\n<!-- end -->$", re.DOTALL | re.MULTILINE
)
_WORD = re.compile(r"\w{4,}")


class Notebook(NamedTuple):
    """What stands in the folder: MEMORY.md, the notes by their dates, the archive's pages by their
    months.
    """

    memory: str
    notes: Mapping[date, str]
    archive: Mapping[str, str]


class Item(NamedTuple):
    """A bullet with what is indented below it, or one line of anything else."""

    section: str
    text: str
    bullet: bool = False


class Moved(NamedTuple):
    text: str
    reason: str


class Tidied(NamedTuple):
    """The folder as it is to be, and what was done to get there. `archive` holds the pages that
    change.
    """

    memory: str
    archive: dict[str, str]
    added: tuple[Item, ...]
    removed: tuple[Moved, ...]
    filed: tuple[date, ...]


def tidied(book: Notebook, today: date, lines: int = LINES, days: int = DAYS) -> Tidied:
    """Scan, consolidate, archive, clean and structure the folder. Repeated on its own result, it
    changes nothing.
    """
    items, added = _consolidated(items_of(book.memory), book, today, days)
    items, doubled = _without_doubles(items)
    items, outdated = _without_outdated(items, today)
    items, overflow = _within(items, lines)
    pages = dict(book.archive)
    filed = tuple(_file_notes(pages, book.notes, today - timedelta(days)))
    _file_items(pages, (*outdated, *overflow), today)
    changed = {month: page for month, page in pages.items() if page != book.archive.get(month)}
    memory = "\n".join(item.text for item in items)
    return Tidied(memory, changed, tuple(added), (*doubled, *outdated, *overflow), filed)


def lost(
    before: Notebook, after: Notebook, days: int = DAYS, today: date | None = None
) -> list[str]:
    """Return which lines of a folder are neither where they were nor in the archive, and which ones
    nobody wrote.
    """
    remaining = {same(item.text) for item in items_of(after.memory)} | _moved(after)
    pages = "\n".join(after.archive.values())
    missing = [
        item.text
        for item in items_of(before.memory)
        if same(item.text) not in remaining and item.text not in pages
    ]
    problems = [f"MEMORY.md has lost: {text}" for text in missing]
    problems += [f"the note of {on} has lost something" for on in _cut(before.notes, after.notes)]
    old = [on for on in before.notes if today is not None and on < today - timedelta(days)]
    problems += [
        f"the note of {on} is not in the archive" for on in old if before.notes[on] not in pages
    ]
    problems += [
        f"the archive of {month} has lost something"
        for month in _cut(before.archive, after.archive)
    ]
    source = {
        same(item.text)
        for text in (before.memory, *before.notes.values())
        for item in items_of(text)
    }
    headings = {f"## {section}".casefold() for section in SECTIONS} | {"# memory", ""}
    strange = [item.text for item in items_of(after.memory) if same(item.text) not in source]
    return problems + [
        f"MEMORY.md says what nobody wrote: {text}"
        for text in strange
        if text.casefold() not in headings
    ]


def overlap(notes: Iterable[str], memory: str) -> float:
    """Return the share of the notes' words that the memory has too."""
    words = {word.casefold() for note in notes for word in _WORD.findall(note)}
    memory_words = {word.casefold() for word in _WORD.findall(memory)}
    return len(words & memory_words) / len(words) if words else 1.0


def recent(book: Notebook, today: date, days: int = DAYS) -> list[date]:
    return sorted(on for on in book.notes if today - timedelta(days) <= on <= today)


def items_of(text: str) -> list[Item]:
    """Split the text into pieces; joined by line feeds they are the text again."""
    items: list[Item] = []
    section, fenced = "", False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _HEADING.match(line)
        section = heading[1] if heading else section
        if items and items[-1].bullet and line[:1] in (" ", "\t") and line.strip():
            items[-1] = items[-1]._replace(text=f"{items[-1].text}\n{line}")
        else:
            items.append(Item(section, line, not fenced and line.startswith(("- ", "* "))))
    return items


def same(text: str) -> str:
    """Return what two ways to write the same bullet have in common."""
    return " ".join(text.casefold().split()).replace("* ", "- ", 1).rstrip(".")


# -- consolidate -----------------------------------------------------------------------


def _consolidated(
    items: list[Item], book: Notebook, today: date, days: int
) -> tuple[list[Item], list[Item]]:
    if sum(line.lstrip().startswith("```") for line in book.memory.split("\n")) % 2:
        # what would be added at its end would stand in a block of code that nobody closed
        return items, []
    existing = {same(item.text) for item in items if item.bullet}
    existing |= _moved(book)
    added = []
    for on in recent(book, today, days):
        for item in items_of(book.notes[on]):
            section = _section_of(item) if item.bullet else None
            if (
                section is not None
                and same(item.text) not in existing
                and not _outdated(item, today)
            ):
                existing.add(same(item.text))
                added.append(Item(section, item.text, bullet=True))
    for item in added:
        items = _with(items, item)
    return items, added


def _moved(book: Notebook) -> set[str]:
    """Return the texts that once stood in MEMORY.md and went into the archive."""
    return {same(text) for page in book.archive.values() for text in _MOVED.findall(page)}


def _section_of(item: Item) -> str | None:
    """Return the section of MEMORY.md that a bullet of a note is for: by its own label, else by the
    heading above it.
    """
    label = _LABEL.match(item.text)
    return (_LABELS.get(label[1].casefold()) if label else None) or _LABELS.get(
        item.section.casefold()
    )


def _with(items: list[Item], item: Item) -> list[Item]:
    """Return the items with this one at the end of its section, which is made where there is
    none.
    """
    own = [
        n
        for n, other_item in enumerate(items)
        if other_item.section.casefold() == item.section.casefold() and other_item.text
    ]
    if own:
        return [*items[: own[-1] + 1], item, *items[own[-1] + 1 :]]
    while items and not items[-1].text:
        items = items[:-1]
    head = [*items, Item("", "")] if items else [Item("", "# Memory"), Item("", "")]
    return [
        *head,
        Item(item.section, f"## {item.section}"),
        Item(item.section, ""),
        item,
        Item(item.section, ""),
    ]


# -- clean, structure ------------------------------------------------------------------


def _without_doubles(items: list[Item]) -> tuple[list[Item], list[Moved]]:
    """Return the items and those that go: of bullets that say the same, in one section or several,
    the first stays.
    """
    unique, doubled, texts = [], [], set[str]()
    for item in items:
        if item.bullet and same(item.text) in texts:
            doubled.append(Moved(item.text, "stands there twice"))
            continue
        if item.bullet:
            texts.add(same(item.text))
        unique.append(item)
    return unique, doubled


def _without_outdated(items: list[Item], today: date) -> tuple[list[Item], list[Moved]]:
    old = [item for item in items if item.bullet and _outdated(item, today)]
    return [item for item in items if item not in old], [
        Moved(item.text, "outdated") for item in old
    ]


def _outdated(item: Item, today: date) -> bool:
    """Return whether it says itself that its time is over: `(until 2026-02-01)`."""
    return any(until < today.isoformat() for until in _UNTIL.findall(item.text))


def _within(items: list[Item], lines: int) -> tuple[list[Item], list[Moved]]:
    """Move as many of the oldest bullets out as necessary, always from the section with most of
    them; return both lists.
    """
    moved = []
    while count("\n".join(item.text for item in items)) >= lines and (
        bullets := [item for item in items if item.bullet]
    ):
        sizes = {
            item.section: sum(bullet.section == item.section for bullet in bullets)
            for item in bullets
        }
        longest = max(sizes, key=lambda section: sizes[section])
        oldest = next(item for item in bullets if item.section == longest)
        items = [item for item in items if item is not oldest]
        moved.append(Moved(oldest.text, f"MEMORY.md stays under {lines} lines"))
    return items, moved


def count(memory: str) -> int:
    """Count the lines of MEMORY.md."""
    return len(memory.rstrip("\n").split("\n")) if memory.strip() else 0


# -- archive ---------------------------------------------------------------------------


def _file_notes(pages: dict[str, str], notes: Mapping[date, str], before: date) -> Iterator[date]:
    """Copy notes into the page of their month, whole. One that was written to since is copied
    again.
    """
    for on, text in sorted(notes.items()):
        mark = f"<!-- note {on} sha256:{sha256(text.encode()).hexdigest()} -->"
        if on < before and mark not in pages.get(f"{on:%Y-%m}", ""):
            _append(pages, f"{on:%Y-%m}", f"{mark}\n{text}\n<!-- end of note {on} -->")
            yield on


def _file_items(pages: dict[str, str], moved: Iterable[Moved], today: date) -> None:
    for text, reason in moved:
        _append(
            pages,
            f"{today:%Y-%m}",
            f"<!-- from MEMORY.md {today}: {reason} -->\n{text}\n<!-- end -->",
        )


def _append(pages: dict[str, str], month: str, block: str) -> None:
    pages[month] = pages.get(month, f"# Archive of {month}\n") + f"\n{block}\n"


def _cut(before: Mapping[K, str], after: Mapping[K, str]) -> list[K]:
    """Return the pages that lost text. They may have grown: an agent writes its note of today
    meanwhile.
    """
    return [name for name, page in before.items() if not after.get(name, "").startswith(page)]
