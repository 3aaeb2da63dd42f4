"""The tidying of an agent's own folder: read, backed up, written, validated, and restored where
validation fails. The shell calls it; it reads no shared memory.

Its page in DEFRAG.md can be given a block that calls the shared memory's own consolidation, and the
block can be removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, NamedTuple

from orchestrator.nightly.notebook.notes import (
    DAYS,
    LINES,
    Notebook,
    Tidied,
    count,
    lost,
    overlap,
    recent,
    tidied,
)
from synapse.errors import Conflict, InvalidEntry, NotFound, StoreError
from synapse.log.disk import make_directory, sync_directory, write_file
from synapse.system import plain_files
from synapse.system.lock import hold

NAP = 0.75  # of the context, above which a nap is due
MEMORY, NOTES, ARCHIVE = "MEMORY.md", "memory", "memory/archive"
LOG = "memory/defrag-log.md"
HISTORY = "memory/defrag-history.jsonl"
BACKUPS = "memory/.defrag-backups"
PAGE = "DEFRAG.md"
BEGIN, END = "<!-- synapse:begin -->", "<!-- synapse:end -->"
_NOTE = re.compile(r"(\d{4}-\d\d-\d\d)\.md")
_MONTH = re.compile(r"(\d{4}-\d\d)\.md")
_BLOCK = re.compile(rf"\n?{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
BLOCK = """\
{begin}
## Shared memory

At the end of the cycle, consolidate what the team shares. This may be repeated: \
nothing is filed away twice.

    {command}

`orchestrator defrag-agent --uninstall` takes this block out.
{end}
"""


class Report(NamedTuple):
    """What a cycle did. `verdict` is passed, passed_with_warnings, or failed: then the folder is as
    it was.
    """

    verdict: str
    warnings: tuple[str, ...]
    critical: tuple[str, ...]
    added: int
    removed: int
    filed: int
    lines: int
    input_bytes: int
    output_bytes: int
    overlap: float


def nap_due(context: float | None) -> bool:
    """Return whether to tidy up in the middle of the day: the user asks for it (no figure), or the
    context is over 75 % full.
    """
    return context is None or context > NAP


def read(folder: str) -> Notebook:
    """Read the folder as it is. A file whose name is no note's is skipped."""
    if not os.path.isdir(folder):
        raise NotFound(f"there is no folder {folder}", dir=folder)
    _demand_own(folder)
    notes = {
        date.fromisoformat(on): text for on, text in _texts(folder, NOTES, _NOTE) if _is_date(on)
    }
    memory = (
        _text(os.path.join(folder, MEMORY)) if os.path.exists(os.path.join(folder, MEMORY)) else ""
    )
    return Notebook(memory, notes, dict(_texts(folder, ARCHIVE, _MONTH)))


def defrag_agent(folder: str, now: datetime, lines: int = LINES, days: int = DAYS) -> Report:
    """Run one cycle: collect, tidy, validate, apply, log."""
    _demand_own(folder)
    with _alone(folder):
        before = read(folder)
        return apply(folder, before, tidied(before, now.date(), lines, days), now, lines, days)


def apply(
    folder: str, before: Notebook, plan: Tidied, now: datetime, lines: int = LINES, days: int = DAYS
) -> Report:
    """Write what the plan says; where then anything is missing, all is put back as it was."""
    backup = _backed_up(folder, now)
    try:
        if read(folder) != before:
            raise Conflict("the agent wrote to its memory just now; nothing was changed, try again")
        # first, so that nothing is ever in neither place
        for month, page in plan.archive.items():
            _write(folder, f"{ARCHIVE}/{month}.md", page)
        if plan.memory != before.memory:
            _write(folder, MEMORY, plan.memory)
        after = read(folder)
        critical = tuple(lost(before, after, days, now.date()))
    except OSError as error:
        after, critical = before, (str(error),)
    if critical:
        _put_back(folder, backup, plan)
    report = _report(before, after, plan, critical, now.date(), lines, days)
    _log(folder, report, now, lines)
    return report


def _report(
    before: Notebook,
    after: Notebook,
    plan: Tidied,
    critical: tuple[str, ...],
    today: date,
    lines: int,
    days: int,
) -> Report:
    if critical:
        plan, after = Tidied(before.memory, {}, (), (), ()), before
    long = count(after.memory)
    warnings = (
        (f"MEMORY.md has {long} lines, and what is left is no bullet",) if long >= lines else ()
    )
    verdict = "failed" if critical else "passed_with_warnings" if warnings else "passed"
    share = overlap((before.notes[on] for on in recent(before, today, days)), after.memory)
    return Report(
        verdict,
        warnings,
        critical,
        added=len(plan.added),
        removed=len(plan.removed),
        filed=len(plan.filed),
        lines=long,
        input_bytes=len(before.memory.encode()),
        output_bytes=len(after.memory.encode()),
        overlap=share,
    )


# -- the block in DEFRAG.md ------------------------------------------------------------


def install(folder: str, command: str) -> bool:
    """Put the block at the end of DEFRAG.md, or bring it up to date; whether that changed
    anything.
    """
    was = _page(folder)
    block = BLOCK.format(begin=BEGIN, end=END, command=command)
    remainder = _BLOCK.sub("", was)
    text = f"{remainder}\n{block}" if remainder else block
    if text != was:
        _write(folder, PAGE, text)
    return text != was


def uninstall(folder: str) -> bool:
    """Take the block out: the page is as it was before. One that held nothing else is removed."""
    was = _page(folder)
    text = _BLOCK.sub("", was)
    if text == was:
        return False
    if text:
        _write(folder, PAGE, text)
    else:
        os.unlink(os.path.join(folder, PAGE))
    return True


def _page(folder: str) -> str:
    if not os.path.isdir(folder):
        raise NotFound(f"there is no folder {folder}", dir=folder)
    _demand_own(folder)
    path = os.path.join(folder, PAGE)
    return _text(path) if os.path.exists(path) else ""


# -- files -----------------------------------------------------------------------------


def _demand_own(folder: str) -> None:
    """Raise StoreError where something below the agent's folder is a link: what it leads to is not
    the agent's to read into its memory, nor to write.
    """
    places = [MEMORY, PAGE, LOG, HISTORY, NOTES, ARCHIVE, BACKUPS]
    places += [os.path.dirname(place) for place in places]
    places.append(os.path.join(NOTES, ".defrag.lock"))
    for place in sorted({*filter(None, places)}):
        if os.path.islink(os.path.join(folder, place)):
            raise StoreError(
                f"{os.path.join(folder, place)} is a symbolic link, and is not followed: put"
                " the file or folder itself there"
            )


def _texts(folder: str, below: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    path = os.path.join(folder, below)
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
        if match := pattern.fullmatch(name):
            yield match[1], _text(os.path.join(path, name))


def _text(path: str) -> str:
    try:
        return plain_files.read_file(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidEntry(
            f"{path} is not UTF-8: byte {error.start} cannot be read", path=path
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def _write(folder: str, name: str, text: str) -> None:
    """Write the whole file or none of it, and put it on the disk, its name too: what is written
    next may take a line away that has come here.
    """
    path = os.path.join(folder, name)
    make_directory(os.path.dirname(path))
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
    write_file(path, text.encode(), mode)


def _backed_up(folder: str, now: datetime) -> str:
    """Copy what may be changed into the folder's own backups, and return that path."""
    target = os.path.join(folder, BACKUPS, f"{now:%Y-%m-%dT%H%M%S.%f}")
    try:
        make_directory(os.path.dirname(target))
        os.mkdir(target)
        sync_directory(os.path.dirname(target))
        for name in (MEMORY, *(f"{ARCHIVE}/{name}" for name in _pages(folder))):
            path, copy = os.path.join(folder, name), os.path.join(target, name)
            if os.path.exists(path):
                make_directory(os.path.dirname(copy))
                write_file(copy, plain_files.read_file(path))
                shutil.copystat(path, copy)
    except OSError as error:
        raise StoreError(f"{target} cannot be written, so nothing was changed: {error}") from error
    return target


def _put_back(folder: str, kept: str, plan: Tidied) -> None:
    for name in (MEMORY, *(f"{ARCHIVE}/{month}.md" for month in plan.archive)):
        path, copy = os.path.join(folder, name), os.path.join(kept, name)
        if os.path.exists(copy):
            _write(folder, name, _text(copy))
        elif os.path.isfile(path):
            os.unlink(path)


def _pages(folder: str) -> list[str]:
    folder_path = os.path.join(folder, ARCHIVE)
    return (
        [name for name in os.listdir(folder_path) if _MONTH.fullmatch(name)]
        if os.path.isdir(folder_path)
        else []
    )


def _log(folder: str, report: Report, now: datetime, lines: int) -> None:
    """Log a block for people, and a line in the protocol's form for programs."""
    metrics = {
        "memory_additions": report.added,
        "memory_removals": report.removed,
        "notes_archived": report.filed,
    }
    metrics |= {"input_bytes": report.input_bytes, "output_bytes": report.output_bytes}
    verdict = {
        "passed": not report.critical,
        "warnings": list(report.warnings),
        "critical": list(report.critical),
    }
    row: dict[str, Any] = {"date": f"{now:%Y-%m-%d}", "verdict": verdict, "metrics": metrics}
    row["overlap_pct"] = round(100 * report.overlap, 1)
    title = "Defrag Failed, Rolled Back" if report.critical else "Defrag Complete"
    entry_lines = [
        f"## {now:%Y-%m-%d %H:%M} — {title}",
        "",
        f"- MEMORY.md: {report.added} added, {report.removed} removed",
    ]
    entry_lines += [f"- notes copied into the archive: {report.filed}"]
    entry_lines += [f"- {line}" for line in (*report.warnings, *report.critical)]
    entry_lines += ["", f"MEMORY.md: {report.lines} lines (target: <{lines})", ""]
    _append(folder, LOG, "\n".join(entry_lines) + "\n")
    _append(folder, HISTORY, json.dumps(row, ensure_ascii=False) + "\n")


def _append(folder: str, name: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    fd = plain_files.open_file(os.path.join(folder, name), flags, 0o644)
    with open(fd, "a", encoding="utf-8", newline="") as file:
        file.write(text)


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    if not os.path.isdir(folder):
        raise NotFound(f"there is no folder {folder}", dir=folder)
    os.makedirs(os.path.join(folder, NOTES), exist_ok=True)
    path = os.path.join(folder, NOTES, ".defrag.lock")
    lock = hold(path)
    if lock is None:
        raise Conflict(f"{folder} is being tidied already", dir=folder)
    with open(lock, "rb"):
        yield


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
