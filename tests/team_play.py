"""The replies of a team in tests: each agent says what its own prompt showed it. A program of the
tests, so what it says is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from orchestrator.engines.scripted import Seen

_ENTRY = re.compile(r"^- ([a-z0-9/_-]+) (syn-[0-9-]+) \(([a-z0-9_-]+),", re.MULTILINE)
_WORK = (
    "Say which entries of the memory you were shown, and find your own line of the plan among them."
)


def play(seen: Seen) -> str:
    """Return the reply of whoever the prompt says that it is."""
    first = seen.system.split("\n", 1)[0]
    scripts: tuple[tuple[str, Callable[[str, str, str], str]], ...] = (
        ("the CTO", _cto),
        ("a project lead", _lead),
        ("test what others", _qa),
    )
    task = next(message.text for message in reversed(seen.messages) if message.label == "task")
    view = "\n".join(message.text for message in seen.messages if message.label != "task")
    script = next((act for mark, act in scripts if mark in first), _engineer)
    return script(first.split()[2].strip("`,."), task, view)


def _cto(me: str, task: str, view: str) -> str:
    goal = task.partition("\n\n")[2].split("\n", 1)[0]
    return f"The goal: {goal.rstrip('.')}. What QA has not seen is not done."


def _lead(me: str, task: str, view: str) -> str:
    if "Your engineers: " not in task:
        return _report(me, task, view)
    engineers = task.partition("Your engineers: ")[2].partition(".")[0].split(", ")
    return "Each engineer does the same, side by side.\n\n" + "\n".join(
        f"- [{name}] {_WORK}" for name in engineers
    )


def _report(me: str, task: str, view: str) -> str:
    entries = re.findall(r"^- (\S+): (\w+), (\S+)$", task, re.MULTILINE)
    shown_ids = {id for _, id, _ in _ENTRY.findall(view)}
    done = [run for run, status, _ in entries if status == "done"]
    read = [id for _, _, id in entries if id in shown_ids]
    return (
        f"{len(done)} of {len(entries)} tasks are done; I was shown what {len(read)} of"
        f" them left in the memory."
    )


def _engineer(me: str, task: str, view: str) -> str:
    mine = "my line of the plan with it" if f"[{me}]" in view else "and nothing of the plan"
    return f"I was shown what the memory has, {mine}."


def _qa(me: str, task: str, view: str) -> str:
    claims = re.findall(r"^- (\S+): \w+, (syn-[0-9-]+)$", task, re.MULTILINE)
    bodies = dict(re.findall(r"(syn-[0-9-]+) \(.*\n\s*> (.*)", view))
    passed = [id for _, id in claims if "my line of the plan" in bodies.get(id, "")]
    return (
        f"{len(passed)} of {len(claims)} passed: my prompt shows their status, and it"
        f" says what it should."
    )


def builds(seen: Seen) -> str:
    return "The API is built."
