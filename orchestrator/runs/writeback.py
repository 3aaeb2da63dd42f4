"""The entries that a run leaves in the memory when it ends, made from its outcome. Pure; the run
store writes them. A run that was played leaves none.

An entry carries a summary; the whole text lies in the run's folder, which its evidence names. A run
that failed or ran out of time says so, with what is known. What concerns the operator alone (a key,
a limit, a stop) stands on the run's own record, and is no entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.runs.statements import without
from orchestrator.runs.task import PLAYED, Outcome, Result

LONGEST = 600  # characters of an entry
FIRST_WORDS = {
    "done": "Done",
    "blocked": "Blocked",
    "failed": "Failed",
    "timeout": "Out of time",
    "stopped": "Stopped",
    "refused": "Refused",
}


TOOLS_SAID = "what its tools gave, which stands in the memory"
NOBODY = "(played: no model and no program of the user's worked on it)"


class Note(NamedTuple):
    """An entry to be written for the run's agent; `key` makes it once, `evidence` is where all of
    it lies, for who can open files. `replaces` is what the run said as it ended before.
    """

    body: str
    namespace: str
    priority: str
    key: str
    evidence: str | None = None
    tags: tuple[str, ...] = ("run",)
    replaces: str | None = None


def as_played(outcome: Outcome) -> Outcome:
    """Return the outcome of a run at which nobody worked: marked in its text, and not done."""
    text = f"({PLAYED}) {outcome.text}" if outcome.text else ""
    if outcome.status != "done":
        return outcome._replace(text=text)
    return outcome._replace(status=PLAYED, text=text, why=NOBODY)


def settle(
    run: str,
    project: str,
    outcome: Outcome,
    answers: int = 0,
    said: str | None = None,
    results: Sequence[str] = (),
) -> list[Note]:
    """Return the entries of an outcome. A blocker that stands in an entry already is not written
    again; of an end that is the operator's business, none is. A run that went on after `answers`
    ends once more, and what it `said` before does not hold any longer. What the `results` of shared
    tools state is in the memory, and is not said again, perhaps otherwise."""
    text = without(outcome.text, results) or (outcome.text and TOOLS_SAID)
    notes = _settled(run, project, outcome._replace(text=text))
    if not answers:
        return notes
    return [note._replace(key=f"{note.key}/{answers}", replaces=said) for note in notes]


def _settled(run: str, project: str, outcome: Outcome) -> list[Note]:
    if outcome.operational or (outcome.blocker and not outcome.below):
        return []
    result = summary(outcome.text)
    output = f"runs/{run}/output.md" if outcome.text else None
    if outcome.status == "blocked" and not outcome.below:
        body = _body("Blocked", outcome.why or result)
        return [Note(body, f"blockers/{project}", "critical", "blocked", output)]
    if outcome.status != "done":
        result = "; so far: ".join(text for text in (outcome.why, result) if text)
    priority = "info" if outcome.status in ("done", "blocked") else "important"
    body = _body(FIRST_WORDS[outcome.status], result)
    return [Note(body, f"status/{project}", priority, "ended", output)]


def dead_letter(run: str, project: str, attempts: int) -> Note:
    """Return the note about a run that ended none of its attempts: a person has to look."""
    reason = f"the run died {attempts} times without moving, and is not tried again"
    return Note(_body("Blocked", reason), f"blockers/{project}", "critical", "dead", f"runs/{run}/")


def question(body: str) -> str:
    """Return what a blocker's entry asks, without its first word."""
    return body.removeprefix("Blocked: ")


def summary(text: str) -> str:
    """Return the first paragraph that says something."""
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        sentence = " ".join(
            line.strip() for line in paragraph.splitlines() if not _decoration(line)
        )
        if sentence:
            return sentence
    return ""


def flattened(text: str) -> str:
    """Return a text as one paragraph: all that it says, without headings, rules and fences, nor the
    word that an entry of it begins with anyway.
    """
    lines = (line.strip() for line in text.replace("\r\n", "\n").split("\n"))
    sentence = " ".join(line for line in lines if not _decoration(line))
    return sentence.removeprefix(f"{FIRST_WORDS['done']}:").strip()


def _decoration(line: str) -> bool:
    """Return whether a line is a heading, a rule or a fence, which is no summary."""
    stripped = line.strip()
    return not stripped or stripped.startswith(("#", "```", "~~~")) or set(stripped) <= set("-=*_ ")


def _body(first: str, said: str) -> str:
    room = LONGEST - len(first) - 2
    # at a space: of half an address nobody would see what it is
    if len(said) > room:
        cut = said[: room - 1]
        said = f"{(cut.rpartition(' ')[0] or cut).rstrip()}…"
    return f"{first}: {said or 'nothing was said'}"


def for_parent(result: Result) -> str:
    """Return as much of a result as a parent is given; the rest lies in the run's folder."""
    explained = result.done or result.why in " ".join(result.text.split())
    text = result.text if explained else f"{result.why}\n\n{result.text}".strip()
    if len(text) <= 4_000:
        return text
    return f"{text[:4_000]}\n… (all of it: runs/{result.run}/output.md)"
