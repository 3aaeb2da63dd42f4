"""What a run that has ended leaves in the memory: entries, from its outcome. Pure.

The entry carries a summary and a pointer; the whole text lies in the run's folder. A run that
failed or ran out of time says so, with what is known. What is the operator's business alone (a key,
a limit, a stop) stands on the run's own record, and is no entry.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.task import Outcome, Result

LONGEST = 600  # characters of an entry, pointer included
FIRST_WORDS = {
    "done": "Done",
    "blocked": "Blocked",
    "failed": "Failed",
    "timeout": "Out of time",
    "stopped": "Stopped",
    "refused": "Refused",
}


class Note(NamedTuple):
    """An entry to be written for the run's agent; `key` makes it once."""

    body: str
    namespace: str
    priority: str
    key: str
    tags: tuple[str, ...] = ("run",)


def settle(run: str, project: str, outcome: Outcome) -> list[Note]:
    """Return the entries of an outcome. A blocker that stands in an entry already is not written
    again; of an end that is the operator's business, none is."""
    if outcome.operational or (outcome.blocker and not outcome.below):
        return []
    said, pointer = summary(outcome.text), _pointer(run) if outcome.text else ""
    if outcome.status == "blocked" and not outcome.below:
        return [Note(_body("Blocked", outcome.why or said, pointer), f"blockers/{project}", "critical", "blocked")]
    if outcome.status != "done":
        said = "; so far: ".join(part for part in (outcome.why, said) if part)
    priority = "info" if outcome.status in ("done", "blocked") else "important"
    return [Note(_body(FIRST_WORDS[outcome.status], said, pointer), f"status/{project}", priority, "ended")]


def dead_letter(run: str, project: str, attempts: int) -> Note:
    """A run that ended none of its attempts: somebody has to look."""
    said = f"the run died {attempts} times without moving, and is not tried again"
    return Note(_body("Blocked", said, f" (runs/{run}/)"), f"blockers/{project}", "critical", "dead")


def summary(text: str) -> str:
    """The first paragraph that says something."""
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        said = " ".join(line.strip() for line in paragraph.splitlines() if not _decoration(line))
        if said:
            return said
    return ""


def _decoration(line: str) -> bool:
    """A heading, a rule or a fence is no summary."""
    stripped = line.strip()
    return not stripped or stripped.startswith(("#", "```", "~~~")) or set(stripped) <= set("-=*_ ")


def _pointer(run: str) -> str:
    return f" (all of it: runs/{run}/output.md)"


def _body(first: str, said: str, pointer: str) -> str:
    room = LONGEST - len(first) - 2 - len(pointer)
    cut = said if len(said) <= room else f"{said[: room - 1].rstrip()}…"
    return f"{first}: {cut or 'nothing was said'}{pointer}"


def told(result: Result) -> str:
    """Return as much of a result as a parent is given; the rest lies in the run's folder."""
    known = result.done or result.why in " ".join(result.text.split())
    text = result.text if known else f"{result.why}\n\n{result.text}".strip()
    if len(text) <= 4_000:
        return text
    return f"{text[:4_000]}\n… (all of it: runs/{result.run}/output.md)"
