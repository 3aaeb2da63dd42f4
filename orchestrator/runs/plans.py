"""The plan of a project: its lines as tasks, and which entry of the memory is one.

A plan is acted by, so it comes from the lead's own run or from the workspace's owner alone; what
anybody else drops under the lead's name is text like any other. `team` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from orchestrator.runs.task import Result
from synapse.core import Memory
from synapse.errors import Forbidden
from synapse.model.entry import Entry
from synapse.model.kinds import is_plan
from synapse.trust.lineage import why

TOPIC = "plan"
_PART = re.compile(r"[ ]{0,3}(?:[-*]|\d+[.)])[ ]+\[([a-z0-9][a-z0-9_-]*)\][ ]+(\S.*)")


class Part(NamedTuple):
    """One task of a plan."""

    agent: str
    task: str


def parts(plan: str) -> list[Part]:
    """Return the tasks of a plan, in its order."""
    groups: list[tuple[str, list[str]]] = []
    inside = False
    for line in plan.splitlines():
        match = _PART.fullmatch(line.rstrip())
        if match:
            groups.append((match[1], [match[2]]))
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            groups[-1][1].append(line.strip())
        elif line.strip():
            inside = False
    return [Part(agent, "\n".join(lines)) for agent, lines in groups]


def _is_plan(memory: Memory, entry: Entry, runs: Collection[str]) -> bool:
    """Return whether an entry under the lead's name is a plan to act by: one that is believed, and
    that one of these runs wrote, or a person by hand into the project's plan.md.
    """
    if entry.topic != TOPIC or entry.trust == "unverified":
        return False
    if entry.run is not None:
        return entry.run in runs
    record = memory.store.log.at(entry.seq)
    return is_plan(record.path or (record.key or "").removeprefix("plan:"))


def latest(memory: Memory, lead: str, project: str, run: str, runs: Collection[str]) -> str | None:
    """Return the newest plan that the lead has written since this run began, in one of `runs`."""
    with memory.store.snapshot() as snap:
        began = snap.run(run) or {"at": 0}
    entries = memory.as_agent(lead).read(
        namespace=f"projects/{project}", author=lead, since=began["at"]
    )
    return next((entry.id for entry in entries if _is_plan(memory, entry, runs)), None)


def of_run(memory: Memory, planned: Result, lead: str, project: str) -> tuple[str, str]:
    """Return the id and the text of the plan that the lead wrote as an entry, else of its last
    words, which become an entry now.
    """
    agent_memory, namespace = memory.as_agent(lead), f"projects/{project}"
    with memory.store.snapshot() as snap:
        began = snap.run(planned.run) or {"at": 0}
    for entry in agent_memory.read(namespace=namespace, author=lead, since=began["at"]):
        if _is_plan(memory, entry, {planned.run}) and parts(entry.body):
            return entry.id, entry.body
    if doubts := memory.as_agent(lead, planned.run, 0).access.doubts():
        raise Forbidden(f"{lead} cannot plan: {why(doubts)}", agent=lead, action="plan")
    written = agent_memory.append(
        planned.text, namespace, priority="important", topic=TOPIC, once=f"{planned.run}/{TOPIC}"
    )
    return written.id, written.body
