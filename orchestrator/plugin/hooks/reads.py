"""The files that a conversation has read: which of them are unchanged since, after its context was
emptied and it knows them by a summary alone.

Told when it goes on, before it reads them all again, and beside its next read of each. Called by
`respond` and `call_checks`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.hooks.changes import look, path_end
from orchestrator.plugin.sessions.state import Worker
from orchestrator.runs.repeats import age

LISTED = 12  # files that are named when a conversation goes on
UNCHANGED = (
    "You read these files before your context was emptied, and they are unchanged since"
    " ({age} or less): {files}. Read again only what you need of them; all of one only to"
    " edit it."
)


def note_reads(worker: Worker, event: Event, now: int) -> None:
    """Remember how the files of a call look that the worker has now read or edited."""
    if event.kind not in ("read", "edit"):
        return
    for path in _paths(event):
        worker.forgotten.pop(path, None)
        if digest := _look(path)[0]:
            worker.reads.pop(path, None)
            worker.reads[path] = [digest, now]
    worker.trim_reads()


def unchanged_files(worker: Worker, event: Event, now: int) -> str:
    """Return the line for a conversation that goes on: which files it need not read again."""
    listed: list[str] = []
    oldest = now
    for path, (digest, at) in reversed(worker.forgotten.items()):
        current, lines = _look(path)
        if current == digest and len(listed) < LISTED:
            size = f"{lines:,} line{'s' * (lines != 1)}"
            listed.append(f"{_shown(path, event)} ({size})")
            oldest = min(oldest, at)
    if not listed:
        return ""
    return UNCHANGED.format(age=age(now - oldest), files=", ".join(listed))


def beside_read(worker: Worker, event: Event, now: int) -> Iterator[str]:
    """Yield for each file of a read whether it is as the worker read it before its context was
    emptied; once.
    """
    if event.kind != "read":
        return
    for path in _paths(event):
        digest, at = worker.forgotten.pop(path, ("", 0))
        current = _look(path)[0] if digest else ""
        if current:
            how = "unchanged" if current == digest else "changed"
            yield f"{_shown(path, event)} is {how} since you read it {age(now - at)} ago."


def _paths(event: Event) -> Iterator[str]:
    """Yield the files of a call, without links."""
    for path in event.subjects:
        yield os.path.realpath(os.path.join(event.cwd, os.path.expanduser(path)))


def _look(path: str) -> tuple[str, int]:
    """Return the digest of a file and its lines; an empty one where there is none, or it is too
    large to be looked into."""
    digest, text = look(path)
    if not digest or " " in digest:
        return "", 0
    return digest, text.count("\n") + (not text.endswith("\n"))


def _shown(path: str, event: Event) -> str:
    """Return a path as it is told: from the folder of the session on, on one line."""
    inside = os.path.relpath(path, os.path.realpath(event.cwd)) if event.cwd else path
    return path_end(path if inside.startswith("..") else inside)
