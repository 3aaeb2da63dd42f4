"""A task as its text has it: what agents of the cast parse from their prompts. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_ITEM = re.compile(r"- \[([a-z0-9_-]+)\] (.*)")


class Task(NamedTuple):
    """A task as its text says it."""

    name: str
    needs: tuple[str, ...]
    places: tuple[tuple[str, str], ...]
    steps: int
    acts: bool
    passes: bool
    stages: tuple[tuple[tuple[str, str], ...], ...]


@lru_cache(256)
def read_task(text: str) -> Task:
    """Parse a task's text. Only lines at its margin are the task's own; the rest is for others."""
    fields = dict(
        re.findall(r"^(Task|Needs|Findings go to|Steps|Pass on): (.+)$", text, re.MULTILINE)
    )
    needs = tuple(need.strip() for need in fields.get("Needs", "").split(";") if need.strip())
    places = tuple(re.findall(r"(\S+) \((\w+)\)", fields.get("Findings go to", "")))
    steps = fields.get("Steps", "0")
    return Task(
        fields.get("Task", "?"),
        needs,
        places,
        int(steps.split(",")[0]),
        "every step" in steps,
        "Pass on" in fields,
        _stages(text),
    )


def _stages(text: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    stages: list[list[tuple[str, list[str]]]] = []
    for line in text.splitlines():
        item = _ITEM.fullmatch(line)
        if re.fullmatch(r"Stage \d+:", line):
            stages.append([])
        elif item and stages:
            stages[-1].append((item[1], [item[2]]))
        elif stages and stages[-1] and line.startswith("  "):
            stages[-1][-1][1].append(line[2:])
    return tuple(tuple((agent, "\n".join(lines)) for agent, lines in stage) for stage in stages)


@lru_cache(1_024)
def refused(text: str) -> frozenset[str]:
    """Return the subjects whose value was not the true one any more."""
    return (
        frozenset(re.findall(r"^Refused: (.+)\.$", text, re.MULTILINE))
        if "Refused: " in text
        else frozenset()
    )
