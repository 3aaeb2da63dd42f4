"""What the memory knows of the briefs of teams: that a team came to its end, what all of it took,
what keeps its project from being done, and whether one was interrupted. On the memory's thread;
`team` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.run_store.store import RunStore
from orchestrator.runs.task import Report, Result, Tree
from synapse.core import Memory
from synapse.model.agents import OPERATOR
from synapse.model.records import Record

OPEN = "team"  # the topic of the blocker that says why a project is not done
LATEST = 20  # runs of an agent among which that of an interrupted team is looked for


def ended(memory: Memory, runs: Sequence[Result]) -> None:
    """Acknowledge the last result for the agent that gave the brief, so that nobody has it unread,
    and note that the team came to its end.
    """
    first, last = runs[0], runs[-1]
    if last.entry:
        _acknowledge(memory, last.run, [last.entry], f"told:{last.run}")
    if first.run and not first.played:
        _acknowledge(memory, first.run, [], _end(first.run))


def is_interrupted(run_store: RunStore, agent: str, text: str, project: str) -> bool:
    """Return whether a team began with this task, and its process was gone before its end."""
    for run in run_store.runs.all(agent=agent, project=project, limit=LATEST):
        if run.parent is None and run.fields["task"] == text:
            with run_store.store.snapshot() as snap:
                has_ended = snap.first(OPERATOR, _end(run.id)) is not None
            lives = run.holder and run_store.lease.lives(run.holder)
            return not (has_ended or lives or run_store.runs.over(run))
    return False


def tree_of(run_store: RunStore, results: Sequence[Result]) -> Tree:
    """Return what the trees of these results took, each once."""
    ids = [result.run for result in results if result.run]
    roots = dict.fromkeys(run_store.known(id).root for id in ids)
    trees = [run_store.costs.tree(run_store.known(root)) for root in roots]
    return sum(trees, start=Tree())


def settle(memory: Memory, lead: str, project: str, report: Report) -> None:
    """Leave a blocker where a project is not done though its runs say so; resolve an earlier one
    where it is. It is written as the lead: the readers of the project's status learn that it does
    not hold.
    """
    agent_memory, last = memory.as_agent(lead), report.runs[-1]
    unresolved = [
        entry
        for entry in agent_memory.read(namespace=f"blockers/{project}", author=lead)
        if entry.topic == OPEN
    ]
    if report.done:
        for entry in unresolved:
            agent_memory.resolve(entry.id, "the project is done", once=f"{last.run}/{entry.id}")
    elif last.done:
        body = f"Blocked: the project is not done: {report.why}"
        agent_memory.append(
            body, f"blockers/{project}", priority="critical", topic=OPEN, once=f"{last.run}/{OPEN}"
        )


def _end(run: str) -> str:
    return f"ended:{run}"


def _acknowledge(memory: Memory, run: str, ids: list[str], once: str) -> None:
    fields = {"agent": OPERATOR, "run": run, "epoch": 0, "state": "acked", "ids": ids}
    memory.store.commit.append(Record.new("delivery", OPERATOR, fields), once=once)
