"""What a run's folder loses when it is trimmed, and the file that says so. Which runs are, and
when, is decided elsewhere.

The mark is written first: whoever is killed meanwhile leaves a folder that says what is missing,
and the next trim removes the rest.
"""

from __future__ import annotations

from orchestrator.runs.files.folder import ERROR, MARK, RECEIPT, STEPS, TIMES, TRANSCRIPT, Folder

TRIMMED = "trimmed"
# What is needed to go on with a run, or to look back at it. Sums are made from the ledger, its
# result is the output, and what else lies there is the agent's own work.
NAMES = (STEPS, MARK, TIMES, RECEIPT, TRANSCRIPT, f"{TRANSCRIPT}.stderr", ERROR)


def trim(folder: Folder, day: str) -> int:
    """Remove these files, and return how many bytes they had. `day` is noted in the mark."""
    if not trimmed_on(folder):
        folder.record(TRIMMED, f"{day}\n")
    return sum(folder.remove(name) for name in NAMES)


def is_trimmed(folder: Folder) -> bool:
    """Return whether all of these files are gone, so that nothing is left to trim."""
    return not any(map(folder.has, NAMES))


def trimmed_on(folder: Folder) -> str:
    """Return the day on which it was trimmed; empty where it was not."""
    return next(iter(folder.lines(TRIMMED)), "").strip()


def why_gone(folder: Folder) -> str:
    """Return why the steps of a run are not there, as the end of a sentence; empty where it was
    not trimmed.
    """
    day = trimmed_on(folder)
    return f": it was trimmed on {day} (`retention` in synapse.yaml)" if day else ""
