"""The replies of the example team's agents, where it is played. Each reply uses only the agent's
own prompt: its task, and the entries of the shared memory that it was shown. Nobody works, so
nothing that is said here reaches anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from orchestrator.engines.scripted import Seen, played

_ENTRY = re.compile(r"^- ([a-z0-9/_-]+) (syn-[0-9-]+) \(([a-z0-9_-]+),", re.MULTILINE)
_WORK = "Say what your prompt shows you of the memory."


@played
def play(seen: Seen) -> str:
    """Return the reply of whoever the prompt says that it is."""
    first = seen.system.split("\n", 1)[0]
    scripts: tuple[tuple[str, Callable[[str, str], str]], ...] = (
        ("the CTO", _cto),
        ("a project lead", _lead),
        ("test what others", _qa),
    )
    task = next(message.text for message in reversed(seen.messages) if message.label == "task")
    view = "\n".join(message.text for message in seen.messages if message.label != "task")
    script = next((act for mark, act in scripts if mark in first), _engineer)
    return script(task, view)


def _cto(task: str, view: str) -> str:
    goal = task.partition("\n\n")[2].split("\n", 1)[0]
    return f"The goal would be: {goal.rstrip('.')}. {_shown(view)}"


def _lead(task: str, view: str) -> str:
    if "Your engineers: " not in task:
        return _report(task, view)
    engineers = task.partition("Your engineers: ")[2].partition(".")[0].split(", ")
    return "Each engineer gets the same, side by side.\n\n" + "\n".join(
        f"- [{name}] {_WORK}" for name in engineers
    )


def _report(task: str, view: str) -> str:
    count = len(re.findall(r"^- \S+: played", task, re.MULTILINE))
    return f"{count} tasks were given out, and nobody did them. {_shown(view)}"


def _engineer(task: str, view: str) -> str:
    return f"I had a task of my own. {_shown(view)}"


def _qa(task: str, view: str) -> str:
    return f"There is nothing to test. {_shown(view)}"


def _shown(view: str) -> str:
    """Return what of the memory stands in a prompt."""
    entries = [f"{namespace} by {agent}" for namespace, _, agent in _ENTRY.findall(view)]
    return f"My prompt shows of the memory: {', '.join(entries) or 'nothing'}."
