"""Figures of wakes: who was to be told of what, and when a prompt held it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from scenarios.data.ledger import Event, Run
from scenarios.measure.figures import Figures, share


class Wake(NamedTuple):
    """An entry and somebody it was for. With a session when it was written: the seconds, and the
    prompts of its own, until it was shown; without, or where it never was: None.
    """

    shown: bool
    seconds: float | None = None
    turns: int | None = None


def wakes(run: Run) -> list[Wake]:
    """Return the wakes that were due and when each came, except to agents without a prompt before
    the entry was replaced.
    """
    rendered = {(event["id"], event["agent"]): event for event in run.of("wake_rendered")}
    replaced = {id: event["t"] for event in reversed(run.of("write")) for id in event["supersedes"]}
    positions = {id(event): number for number, event in enumerate(run.events)}
    prompts, lives, collected = run.of("prompt"), _lives(run), []
    for write in (event for event in run.of("write") if event["for"]):
        position = positions[id(write)]
        for agent in write["for"]:
            own = [
                event
                for event in prompts
                if event["agent"] == agent and positions[id(event)] > position
            ]
            event = rendered.get((write["id"], agent))
            if event is None:
                if own and own[0]["t"] < replaced.get(write["id"], 1 << 60):
                    collected.append(Wake(False))
            elif any(since < write["t"] < until for since, until in lives.get(agent, ())):
                between = sum(positions[id(prompt)] < positions[id(event)] for prompt in own)
                collected.append(Wake(True, (event["t"] - write["t"]) / 1_000, 1 + between))
            else:
                collected.append(Wake(True))
    return collected


def waking(run: Run) -> Figures:
    writes = {event["id"]: event for event in run.of("write") if event["for"]}
    if not writes:
        return {}
    due = wakes(run)
    figures = share("wake_delivery", (wake.shown for wake in due))
    figures["wake_duplicates"] = float(len(run.of("duplicate_wake")))
    waits = [wake.seconds for wake in due if wake.seconds is not None]
    if waits:
        turns = [wake.turns for wake in due if wake.turns is not None]
        figures |= {
            "wake_latency": fmean(waits),
            "wake_latency_max": max(waits),
            "wake_turns": fmean(turns),
        }
    return figures | _wake_precision(run, writes)


def blockers(run: Run) -> Figures:
    reported = [event for event in run.of("write") if event["namespace"].startswith("blockers/")]
    if not reported:
        return {}
    replaced = {id: event["t"] for event in reversed(run.of("write")) for id in event["supersedes"]}
    waits = [
        (replaced[event["id"]] - event["t"]) / 1_000
        for event in reported
        if event["id"] in replaced
    ]
    figures = {"blockers": float(len(reported)), "blockers_resolved": len(waits) / len(reported)}
    return figures | ({"blocker_mttr": fmean(waits)} if waits else {})


def _lives(run: Run) -> dict[str, list[tuple[int, int]]]:
    """Return when each agent had a session: from its first prompt to its last reply."""
    spans: dict[str, tuple[str, int, int]] = {}
    for event in run.of("prompt", "completion"):
        agent, since, _ = spans.get(event["run"], (event["agent"], event["t"], 0))
        spans[event["run"]] = agent, since, event["t"]
    lives: dict[str, list[tuple[int, int]]] = {}
    for agent, since, until in spans.values():
        lives.setdefault(agent, []).append((since, until))
    return lives


def _wake_precision(run: Run, writes: Mapping[str, Event]) -> Figures:
    needs: dict[str, set[str]] = {}
    for spawn in run.of("spawn"):
        needs.setdefault(spawn["agent"], set()).update(spawn["needs"])
    woken = [
        event
        for event in run.of("wake_rendered")
        if event["via"] == "wake" and event["id"] in writes
    ]
    facts = {
        id: {version.partition("@")[0] for version in write["facts"]}
        for id, write in writes.items()
    }
    return share(
        "wake_precision",
        (bool(facts[event["id"]] & needs.get(event["agent"], set())) for event in woken),
    )
