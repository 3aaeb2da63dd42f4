"""How far critical entries got on their way into prompts, and to whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from orchestrator.reports.rows import Source
from synapse.model.agents import Agent
from synapse.model.dates import since as parse_since
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.notify import route

STATES = ("offered", "rendered", "acked")


class Wake(NamedTuple):
    """A critical entry on its way to one agent: micros from its receipt to each state, None where
    it has not got.

    stored: the agent has no session; it gets it with its next prompt. queued: it has one, which
    will hear of it.
    """

    entry: str
    agent: str
    state: str
    run: str | None
    offered: int | None
    rendered: int | None
    acked: int | None
    body: str


def find_wakes(source: Source, since: str) -> Iterable[Wake]:
    """Yield the wakes of the newest entries first."""
    store = source.store
    now = store.clock()
    floor = parse_since(since, now) or 0
    store.refresh()
    with store.snapshot() as snap:
        entries = snap.criticals(floor, now)
        runs = snap.runs(state="running")
        reached = _delivery_times(snap.tellings(floor))
    running: dict[str, list[str]] = {}
    for run in runs:
        running.setdefault(str(run["agent"]), []).append(str(run["project"]))
    agents = [_joined(agent, running.get(agent.id, ())) for agent in store.agents.all().values()]
    by_entry: dict[str, set[str]] = {}
    for id, agent in reached:
        by_entry.setdefault(id, set()).add(agent)
    for entry in reversed(entries):
        reached_agents = by_entry.get(entry.id, set())
        notified = [delivery.agent for delivery in route(entry, agents) if delivery.tier == "now"]
        for agent in dict.fromkeys([*notified, *sorted(reached_agents)]):
            yield _wake(entry, agent, reached.get((entry.id, agent), {}), agent in running)


def _joined(agent: Agent, projects: Iterable[str]) -> Agent:
    """Return the agent as a member of the projects that its runs are for."""
    for project in projects:
        agent = agent.joined(project)
    return agent


def _wake(entry: Entry, agent: str, at: Mapping[str, tuple[int, str | None]], busy: bool) -> Wake:
    state = next(
        (state for state in reversed(STATES) if state in at), "queued" if busy else "stored"
    )
    run = at[state][1] if state in at else None
    offered, rendered, acked = (
        at[state][0] - entry.at if state in at else None for state in STATES
    )
    return Wake(entry.id, agent, state, run, offered, rendered, acked, entry.body)


def _delivery_times(
    acts: Iterable[Record],
) -> dict[tuple[str, str], dict[str, tuple[int, str | None]]]:
    """Return when each entry first came to each state with each agent, and in which run: by wakes,
    and by the prompts of new runs.
    """
    times: dict[tuple[str, str], dict[str, tuple[int, str | None]]] = {}
    for record in acts:
        fields = record.fields
        if record.kind == "shown" and fields.get("how") == "spawn":
            state, offered = "rendered", {}
        elif record.kind == "delivery":
            state, offered = fields["state"], fields.get("offered", {})
        else:
            continue
        for id in fields.get("ids", ()):
            at = times.setdefault((id, record.by), {})
            if id in offered:
                at.setdefault("offered", (int(offered[id]), fields.get("run")))
            at.setdefault(state, (record.at, fields.get("run")))
    return times
