"""The texts that files had while sessions of Claude Code were recorded, as far as their calls show
them: what a read or an edit shows of a file, and which text follows for each moment. Pure. Called
by `replay`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.audit.step import Step, mapping

NUMBERED = re.compile(r"^ *(\d+)(?:→|\t)(.*)$")
EDITS = ("Edit", "MultiEdit", "Write")
SHOWN = 2_000  # characters of a line that the client shows
LONGEST_PATH, LONGEST_NAME = 1_000, 255


class Observation(NamedTuple):
    """What a result shows of a file: some of its lines by their numbers, and how many there are;
    of an edit, all lines before and after it, where they are told.
    """

    path: str
    lines: Mapping[int, str] = {}
    total: int | None = None
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    old: str = ""
    new: str = ""
    everywhere: bool = False


def observe(step: Step) -> Observation | None:
    """Return what a step shows of a file; None where it shows nothing."""
    if step.kind != "result" or step.failed:
        return None
    arguments, result = step.arguments, step.result
    path = _whole_path(arguments.get("file_path"))
    if not path or "REDACTED" in path:  # several files of one name
        return None
    if step.tool == "Read":
        return _read(path, result, step.text)
    if step.tool not in EDITS:
        return None
    old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    everywhere = bool(arguments.get("replace_all"))
    before = after = None
    original = mapping(result).get("originalFile")
    if isinstance(original, str):
        before = split(original)
        after = split(original.replace(old, new, -1 if everywhere else 1)) if old else None
    if step.tool == "Write":
        after = split(str(arguments.get("content", "")))
    return Observation(path, {}, None, before, after, old, new, everywhere)


def _whole_path(path: object) -> str:
    """Return a path from the root on, without steps upward; an empty one for what no file has."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        return ""
    path = os.path.normpath(f"/{path.lstrip('/')}")
    names = map(len, path.encode("utf-8", "replace").split(b"/"))
    return path if len(path) <= LONGEST_PATH and max(names) <= LONGEST_NAME else ""


def _read(path: str, result: Any, text: str) -> Observation | None:
    file = mapping(result).get("file")
    if isinstance(file, dict):
        if not isinstance(file.get("content"), str):
            return None  # a picture
        numbers = [file.get(name) for name in ("numLines", "startLine", "totalLines")]
        if not all(isinstance(number, int) for number in numbers):
            return None
        rows = split(file["content"])[: file["numLines"]]
        start = max(file["startLine"], 1)  # an offset of 0 shows the first line too
        return Observation(path, dict(enumerate(rows, start)), file["totalLines"])
    numbered = (NUMBERED.match(line) for line in text.split("\n"))
    lines = {int(match[1]): match[2] for match in numbered if match}
    return Observation(path, lines) if lines else None


def split(text: str) -> tuple[str, ...]:
    """Return the lines of a file, however they end; the last is empty where the text ends so."""
    return tuple(text.replace("\r\n", "\n").split("\n"))


class Version:
    """The text of a file between two changes."""

    def __init__(self, full: Sequence[str] | None = None, edited: bool = False) -> None:
        self.lines = {} if full is None else dict(enumerate(full, 1))
        self.total = None if full is None else len(full)
        self.is_whole = full is not None
        self.edited = edited
        self._text: str | None = None

    def takes(self, lines: Mapping[int, str], total: int | None) -> bool:
        """Take up what an observation shows; return False where this is another text."""
        if total is not None and self.total not in (None, total):
            return False
        if self.is_whole and any(n > len(self.lines) for n in lines):
            return False
        if any(self.lines.get(n, line)[:SHOWN] != line[:SHOWN] for n, line in lines.items()):
            return False
        self.lines = {**lines, **self.lines}
        self.total = total if self.total is None else self.total
        if self.total == len(self.lines) + 1:
            self.lines.setdefault(self.total, "")  # what stands behind the last newline
        self.is_whole = self.is_whole or self.total == len(self.lines)
        self._text = None
        return True

    @property
    def text(self) -> str:
        """Return the text; a line that no observation shows is its number."""
        if self._text is None:
            last = max(self.total or 0, *self.lines, 0)
            self._text = "\n".join(self.lines.get(n, f"line {n}") for n in range(1, last + 1))
        return self._text


Changes = Mapping[int, list[tuple[str, Version]]]


def versions(observations: Sequence[Observation | None]) -> tuple[Changes, Changes]:
    """Return the texts that files have before a step, where somebody changed them whom the
    recording does not show, and after a step that edits them. Such a change is taken to have been
    made as soon as it may have been: after the file was seen last.
    """
    before, after = defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
    current, last = dict[str, Version](), dict[str, int]()
    for at, observation in enumerate(observations):
        if observation is None:
            continue
        path = observation.path
        version = current.get(path)
        is_edit = observation.before is not None
        lines = dict(enumerate(observation.before or (), 1)) if is_edit else observation.lines
        total = len(observation.before or ()) if is_edit else observation.total
        if version is None or not version.takes(lines, total):
            version = current[path] = Version()
            version.takes(lines, total)
            if lines:
                before[last.get(path, -1) + 1].append((path, version))
        last[path] = at
        edit = _edited(version, observation)
        if edit is not None and edit.text != version.text:
            current[path] = edit
            after[at].append((path, edit))
    return before, after


def _edited(version: Version, observation: Observation) -> Version | None:
    """Return the text that an edit leaves; None for a read."""
    old, new = observation.old, observation.new
    if observation.after is not None:
        return Version(observation.after, edited=True)
    if not old or not version.is_whole:
        return Version(edited=True) if old else None
    count = -1 if observation.everywhere else 1
    return Version(split(version.text.replace(old, new, count)), edited=True)
