"""The files of recorded sessions: where clients keep them, of which kind one is, and its steps.
Reads files and changes none. Called by `reading`.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from orchestrator.audit import claude_code, codex, gemini, openclaw, own_runs, telemetry
from orchestrator.audit.step import Step
from orchestrator.plugin.transcripts.transcript import lines
from orchestrator.runs.files.steps import times

PEEKED = 20  # rows of a file by which it is known
LARGEST_DOCUMENT = 32 << 20  # bytes of a file that is one object of JSON
OWN_RUNS, TELEMETRY = "orchestrator", "opentelemetry"
_CLIENTS = {"claude-code": claude_code, "codex": codex, "gemini": gemini, "openclaw": openclaw}
_ENDS = (".jsonl", ".json")


class File(NamedTuple):
    """A file that may hold a recorded session."""

    path: str
    size: int
    changed: int  # in microseconds


def default_paths(env: Mapping[str, str], home: str) -> list[str]:
    """Return where clients keep their sessions, as far as these folders are there."""
    claude = env.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    codex_home = env.get("CODEX_HOME") or os.path.join(home, ".codex")
    paths = (
        os.path.join(claude, "projects"),
        os.path.join(codex_home, "sessions"),
        os.path.join(home, ".gemini", "tmp"),
        os.path.join(home, ".openclaw"),
    )
    return [path for path in paths if os.path.isdir(path)]


def find(paths: Sequence[str], since: int = 0) -> list[File]:
    """Return the files below these paths that may hold sessions and changed since then. Those of
    sub-agents come first: what a session's own file has of them besides is less.
    """
    files = [file for path in paths for file in _below(path) if file.changed >= since]
    unique = {file.path: file for file in files}
    return sorted(unique.values(), key=lambda file: (not _is_agent(file.path), file.path))


def _is_agent(path: str) -> bool:
    return os.path.basename(path).startswith("agent-")


def _below(path: str) -> Iterator[File]:
    """Yield the files of a folder and below it, through no link; or the file that is named."""
    names = [path]
    if os.path.isdir(path):
        names = [
            os.path.join(folder, name)
            for folder, _, files in os.walk(path)
            for name in files
            if name.endswith(_ENDS)
        ]
    for name in names:
        status = os.stat(name) if name == path else os.lstat(name)
        if stat.S_ISREG(status.st_mode):
            yield File(os.path.abspath(name), status.st_size, status.st_mtime_ns // 1_000)


def steps(file: File, count: Counter[str]) -> tuple[str, Iterator[Step]]:
    """Return who recorded a file, and its steps in order; nobody where it holds no session. `count`
    learns of lines that cannot be read.
    """
    name = os.path.basename(file.path).rpartition(".")[0]
    reading = _rows(file, count)
    first = [*islice(reading, PEEKED)]
    rows = chain(first, reading)
    for client, reader in _CLIENTS.items():
        if any(map(reader.is_own, first)):
            return client, _dated(reader.steps(rows, name), file.changed)
    if any(map(own_runs.is_own, first)):
        folder = os.path.dirname(file.path)
        return OWN_RUNS, _dated(
            own_runs.steps(rows, os.path.basename(folder), _workspace(folder), _times(folder)),
            file.changed,
        )
    if any(map(telemetry.is_own, first)):
        return TELEMETRY, telemetry.steps(rows, name)
    reading.close()
    return "", iter(())


def _dated(found: Iterable[Step], changed: int) -> Iterator[Step]:
    """Yield steps with the time of their file where they have none."""
    return (step if step.at else step._replace(at=changed) for step in found)


def _rows(file: File, count: Counter[str]) -> Any:
    """Yield the objects of a file. Several may stand in one line, and the last be cut off."""
    if file.path.endswith(".json") or _is_document(file.path):
        yield from _document(file, count)
        return
    try:
        for line, all_read in lines(file.path, b"{"):
            count["lines too long"] += not line and not all_read
            if line and claude_code.is_telling(line):
                yield from _objects(line, count)
    except OSError:
        count["files unread"] += 1


def _objects(line: bytes, count: Counter[str]) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        yield from _pieces(line.decode("utf-8", "replace").strip(), count)
        return
    if isinstance(value, dict):
        yield value


def _pieces(text: str, count: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects that stand in a line before the first that is broken."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            count["lines broken"] += 1
            return
        if isinstance(value, dict):
            yield value
        position += len(text[position:]) - len(text[position:].lstrip())


def _is_document(path: str) -> bool:
    """Tell whether a file is one object over many lines, whatever its name says."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            return opened.read(2) in (b"{\n", b"{\r", b"[\n", b"[\r")
    except OSError:
        return False


def _document(file: File, count: Counter[str]) -> Iterator[dict[str, Any]]:
    if file.size > LARGEST_DOCUMENT:
        count["files unread"] += 1
        return
    try:
        with open(file.path, encoding="utf-8", errors="replace") as opened:
            value = json.load(opened)
    except (OSError, ValueError, RecursionError):
        count["files unread"] += 1
        return
    yield from (item for item in (value if isinstance(value, list) else [value])
                if isinstance(item, dict))  # fmt: skip


def _workspace(folder: str) -> str:
    """Return the workspace that a run's folder lies in."""
    return os.path.dirname(os.path.dirname(folder))


def _times(folder: str) -> Mapping[tuple[int, int], int]:
    try:
        with open(os.path.join(folder, "times.jsonl"), encoding="utf-8") as file:
            return times(file)
    except (OSError, ValueError):
        return {}
