"""The files that a conversation read before its context was emptied, and that are unchanged since.

Told when it goes on, before it reads them all again, and beside its next read of each. Called by
`respond` and `call_checks`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestrator.files.changes import Changes, path_end
from orchestrator.files.look import Look, look
from orchestrator.files.seen import Seen
from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.sessions.state import Worker
from orchestrator.runs.repeats import age

LISTED = 12  # files that are named when a conversation goes on
UNCHANGED = (
    "You read these files before your context was emptied, and they are unchanged since"
    " ({age} or less): {files}. Read again only what you need of them; all of one only to"
    " edit it."
)


def unchanged_files(changes: Changes[Worker], worker: Worker, event: Event, now: int) -> str:
    """Return the line for a conversation that goes on: which files it need not read again."""
    listed: list[str] = []
    oldest, named = now, 0
    for key, seen in reversed(worker.files.items()):
        path = changes.file_of(key).full
        found = look(path) if seen.forgotten and len(listed) < LISTED else Look()
        if _is_same(seen, found):
            listed.append(f"{_shown(path, event)} ({found.lines:,} line{'s' * (found.lines != 1)})")
            oldest, named = min(oldest, seen.read), named + len(found.text)
    if not listed:
        return ""
    text = UNCHANGED.format(age=age(now - oldest), files=", ".join(listed))
    worker.notice("unchanged", text, named)
    return text


def beside_read(changes: Changes[Worker], worker: Worker, event: Event, now: int) -> Iterator[str]:
    """Yield for each file of a read that it is as the worker read it before its context was
    emptied.
    """
    for subject in event.subjects if event.kind == "read" else ():
        file = changes.locate(subject, event.cwd)
        seen = worker.files.get(file.key, Seen())
        if seen.forgotten and _is_same(seen, look(file.full)):
            path = _shown(file.full, event)
            text = f"{path} is unchanged since you read it {age(now - seen.read)} ago."
            worker.notice("unchanged", text)
            yield text


def note_again(changes: Changes[Worker], worker: Worker, event: Event) -> None:
    """Count what a read gave of files that the worker was told it need not read again."""
    keys = [changes.locate(path, event.cwd).key for path in event.subjects if event.kind == "read"]
    if any(worker.files.get(key, Seen()).forgotten for key in keys):
        worker.notice("unchanged", "", again=len(event.result))


def _is_same(seen: Seen, found: Look) -> bool:
    """Tell whether a file is as it was, by its whole text: a large one may not be."""
    return found.digest == seen.digest != "" and " " not in found.digest


def _shown(path: str, event: Event) -> str:
    """Return a path as it is told: from the folder of the session on, on one line."""
    inside = os.path.relpath(path, os.path.realpath(event.cwd)) if event.cwd else path
    return path_end(path if inside.startswith("..") else inside)
