"""What coding clients keep in files of their own, read as notes: the sections of a project's
instruction files, and the pages of the team memories beside them.

Reads files and follows no link. Our own blocks are no source; what somebody wrote into one is.
Private memories of a person are left alone. Called by `sync`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from orchestrator.plugin.install.files import fence
from orchestrator.plugin.install.files.members import Clash
from synapse.errors import StoreError
from synapse.system import plain_files
from synapse.system.digest import sha256

# Read by clients at the top of a project, and written by us.
AGENTS_MD = "AGENTS.md"
FILES = (AGENTS_MD, "CLAUDE.md", "GEMINI.md", "QWEN.md", ".github/copilot-instructions.md")
BESIDE = FILES[-2:]  # whose clients read AGENTS.md as well
QWEN_TEAM, CLAUDE_TEAM = ".qwen/team-memory", "memory/team"
INDEX = "MEMORY.md"
LARGEST = 256 << 10  # bytes of one file
MOST_PAGES = 500  # of one team memory
LINKED = "a symbolic link leads to it, which is not followed"
_NAME = re.compile(r"[\w./ +-]{1,200}")
_HEADING = re.compile(r"#{1,6}[ \t]")
_CODE = re.compile(r" {0,3}(`{3,}|~{3,})")
_POINTER = re.compile(r"\s*[-*] \[[^\]]*\]\([^)]*\)")


class Place(NamedTuple):
    """Where a project's sources lie: its top, and the folder in which Claude Code keeps what it
    remembers of it."""

    project: str
    claude_memory: str


class Note(NamedTuple):
    """A section of a file: its lines, the first counting as 1, and the day the file was changed.
    With `inside` it stood in the block of ours, which is written anew."""

    path: str
    first: int
    last: int
    text: str
    date: str
    inside: bool = False

    @property
    def digest(self) -> str:
        """Return the digest by which a text is known again, wherever it stands."""
        return sha256(self.text.encode())

    @property
    def origin(self) -> str:
        """Return where the note comes from, for people."""
        lines = f"{self.path}:{self.first}-{self.last}"
        return f"{lines} of {self.date}, sha256 {self.digest[:16]}"


class Sources(NamedTuple):
    """All notes of a project in the order of its files, and why files could not be read."""

    notes: list[Note]
    problems: dict[str, str]


def read_sources(place: Place, ours: Mapping[str, Sequence[str]]) -> Sources:
    """Return the notes of a project. `ours` has, by path, what our block of a file may say: what it
    was given last, and what it would be given now."""
    notes: list[Note] = []
    problems: dict[str, str] = {}
    for folder, path, name in _paths(place, problems):
        try:
            notes += _notes(folder, path, name, ours.get(name, ()))
        except (StoreError, Clash) as error:
            problems[name] = str(error)
    return Sources(notes, problems)


def _paths(place: Place, problems: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each source: the folder that it has to lie in, its path there, and how it is called."""
    for name in FILES:
        yield place.project, name, name
    claude, team = os.path.split(CLAUDE_TEAM)
    for folder, team_folder, prefix in (
        (place.project, QWEN_TEAM, ""),
        (place.claude_memory, team, f"{claude}/"),
    ):
        full_path = os.path.join(os.path.realpath(folder), team_folder)
        pages = _pages(full_path)
        usual = [page for page in pages if _NAME.fullmatch(page)][:MOST_PAGES]
        if os.path.realpath(full_path) != full_path:
            problems[f"{prefix}{team_folder}"] = LINKED
            continue
        if usual != pages:
            count = len(pages) - len(usual)
            problems[f"{prefix}{team_folder}"] = (
                f"{count} of its pages are left out: they have names with other signs than"
                f" letters, digits and ./+-, or are more than {MOST_PAGES}"
            )
        for page in usual:
            path = os.path.join(team_folder, page)
            yield folder, path, f"{prefix}{path}"


def _pages(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
        if name.endswith(".md")
    )


def read_file(folder: str, path: str) -> bytes | None:
    """Return the bytes of a file below a folder, None where there is none; StoreError where a link
    leads to it, or where it is too long."""
    full_path = os.path.join(os.path.realpath(folder), path)
    if os.path.realpath(full_path) != full_path:
        raise StoreError(LINKED)
    try:
        raw = plain_files.read_file(full_path, LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"it cannot be read: {error.strerror}") from error
    if len(raw) > LARGEST:
        raise StoreError(f"it has more than {LARGEST >> 10} KiB")
    return raw


def _notes(folder: str, path: str, name: str, ours: Sequence[str]) -> Iterator[Note]:
    raw = read_file(folder, path)
    if raw is None:
        return
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise StoreError("it is not UTF-8") from None
    changed = os.path.getmtime(os.path.join(folder, path))
    date = datetime.fromtimestamp(changed, UTC).date().isoformat()
    for first, last, section in _edits(text, ours):
        yield Note(name, first, last, section, date, True)
    for first, last, section in sections(_theirs(text, os.path.basename(path))):
        yield Note(name, first, last, section, date)


def _theirs(text: str, name: str) -> str:
    """Return a text without what is no note, each of its lines in its place: our blocks, front
    matter, and the pointers of an index to its pages."""
    for by in (fence.INSTALL, fence.SYNC):
        if (span := fence.span(text, "markdown", by)) is not None:
            blank = "\n" * text.count("\n", span.start, span.end)
            text = text[: span.start] + blank + text[span.end :]
    lines = text.split("\n")
    if lines[0] == "---" and "---" in lines[1:]:
        end = lines.index("---", 1) + 1
        lines[:end] = [""] * end
    if name == INDEX:
        lines = ["" if _POINTER.match(line) else line for line in lines]
    return "\n".join(lines)


def sections(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the sections of a Markdown text, each from its heading to the next: first and last
    line, and text. Headings with nothing below are none."""
    lines = text.split("\n")
    starts, code = [0], ""
    for number, line in enumerate(lines):
        if code:
            code = "" if line.strip() == code else code
        elif mark := _CODE.match(line):
            code = mark[1]
        elif _HEADING.match(line):
            starts.append(number)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        numbers = [n for n in range(start, end) if lines[n].strip()]
        body = [n for n in numbers if n > start or not _HEADING.match(lines[n])]
        if body:
            section = "\n".join(lines[numbers[0] : numbers[-1] + 1])
            yield numbers[0] + 1, numbers[-1] + 1, section


def _edits(text: str, ours: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield what somebody wrote into our block, lines that are in none of the texts of ours: first
    and last line, and text."""
    span = fence.span(text, "markdown", fence.SYNC)
    if span is None:
        return
    offset = text.count("\n", 0, span.start)
    lines = text[span.start : span.end].split("\n")
    own = {
        line
        for body in ("", *ours)
        for line in fence.block(body, "markdown", fence.SYNC).split("\n")
    }
    is_new = [bool(line.strip()) and line not in own for line in lines]
    start = 0
    while start < len(lines):
        end = start + 1
        while is_new[start] and end < len(lines) and (is_new[end] or not lines[end].strip()):
            end += 1
        if is_new[start]:
            section = "\n".join(lines[start:end]).rstrip()
            yield offset + start + 1, offset + start + section.count("\n") + 1, section
        start = end
