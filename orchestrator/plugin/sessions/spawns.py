"""Sub-agents of a client whose only trace is a call of a tool: no event says that one begins or
ends.

The call is the sub-agent: it begins with its view in its prompt, and ends with the call's result.
Its own calls do not name it: while one call is open they are its calls; while several are open,
nobody can know. Called by `respond` for a client whose facts say `"agents": "calls"`.
"""

from __future__ import annotations

import json
import re

from orchestrator.plugin.facts import ToolFacts
from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.sessions.state import LONGEST, ClientSession
from orchestrator.runs.task import Outcome
from synapse.system.digest import sha256

CALL = "call-"
ENDED = "its call has not come to an end"


def place_event(session: ClientSession, event: Event) -> Event | None:
    """Return the event as that of the conversation it is of; None where nobody can say which it
    is.
    """
    if event.name not in ("before", "after") or event.kind == "spawn":
        return event
    opened = open_calls(session)
    if len(opened) > 1:
        return None
    return (
        event._replace(agent=opened[0]["agent"], type=opened[0]["type"] or None)
        if opened
        else event
    )


def open_calls(session: ClientSession) -> list[dict[str, str]]:
    """Return the spawns whose sub-agent is at work."""
    return [spawn for spawn in session.spawns if spawn.get("agent")]


def begin(session: ClientSession, event: Event) -> Event:
    """Return the event of the sub-agent that a call begins, under a name of our own."""
    numbers = [int(key.removeprefix(CALL)) for key in session.workers if key.startswith(CALL)]
    agent = f"{CALL}{max(numbers, default=0) + 1}"
    return event._replace(name="agent-start", agent=agent, call=None, transcript=None)


def remember(session: ClientSession, child: Event, prompt: str) -> None:
    """Remember a sub-agent by the prompt that it is given, which its call's end tells again."""
    task = child.prompt[:LONGEST]
    spawn = {
        "type": child.type or "",
        "prompt": task,
        "agent": child.agent or "",
        "key": key_of(prompt),
    }
    session.spawns = [*session.spawns, spawn][-50:]


def take_ended(session: ClientSession, event: Event) -> dict[str, str] | None:
    """Return the sub-agent whose call has come to its end, which is forgotten; None where none is
    known.
    """
    key = key_of(event.prompt)
    for spawn in open_calls(session):
        if spawn["key"] == key:
            session.spawns.remove(spawn)
            return spawn
    return None


def read_outcome(tool: ToolFacts, result: str) -> Outcome | str:
    """Return what a call's result says of its sub-agent: its last message, or how it was ended."""
    match = re.search(tool.answer, result) if tool.answer else None
    if match is None:
        return result
    text = _only_text(match["text"].strip())
    if tool.done and match["reason"] != tool.done:
        return Outcome("stopped", text, f"{match['reason'].lower()}: {text[:200]}")
    return text


def key_of(prompt: str) -> str:
    """Return what a prompt is known by."""
    return sha256(prompt.encode("utf-8", "replace"))[:20]


def _only_text(text: str) -> str:
    """Return the one text of a JSON object that has only one, else the text as it is."""
    try:
        values = json.loads(text)
    except ValueError:
        return text
    if isinstance(values, dict) and len(values) == 1:
        only = next(iter(values.values()))
        return only if isinstance(only, str) else text
    return text
