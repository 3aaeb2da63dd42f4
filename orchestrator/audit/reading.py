"""Reads recorded sessions step by step, each reply and each call once. Called by `figures` and
`policy`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from orchestrator.audit import sources
from orchestrator.audit.sources import File
from orchestrator.audit.step import Step
from synapse.system.json import dumps

Progress = Callable[[int, int], None]  # bytes read, of how many


def steps(
    files: Sequence[File],
    count: Counter[str],
    since: int = 0,
    progress: Progress = lambda read, of: None,
) -> Iterator[tuple[str, Step]]:
    """Yield the steps in these files, file by file, with who recorded them; none that is older than
    `since`. `count` learns how much was read, and what could not be.
    """
    files_by_step: dict[int, int] = {}
    total, done = sum(file.size for file in files), 0
    for number, file in enumerate(files):
        progress(done, total)
        done += file.size
        client, recorded = sources.steps(file, count)
        if client:
            count["files"] += 1
            count["bytes"] += file.size
            count[f"files of {client}"] += 1
        for step in recorded:
            if step.at >= since and _is_new(files_by_step, step, number):
                yield client, step
    progress(total, total)


def _is_new(files_by_step: dict[int, int], step: Step, file: int) -> bool:
    """Tell whether no other file told of a step. A session that goes on under another name, or a
    fork, repeats what it begins with, and what a sub-agent does may stand in two files.
    """
    if step.kind in ("call", "result"):
        key = hash((step.kind, step.id, dumps([step.tool, step.arguments])))
    elif step.kind == "turn":
        key = hash((step.kind, step.id))
    elif step.kind in ("start", "end") and step.agent:
        key = hash((step.kind, step.session, step.agent, step.id))
    else:
        return True
    return files_by_step.setdefault(key, file) == file
