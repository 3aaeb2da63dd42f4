"""The runs at work that hear an entry, and how soon each does.

Reads the log and the state of sessions; wakes nobody. Called by `say`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.plugin import facts
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.state import MAIN, ClientSession
from orchestrator.plugin.wakes.idle import has_module, in_turn
from orchestrator.plugin.wakes.watch import is_watched
from orchestrator.runs.files.workspace import lives
from orchestrator.sessions.wake import NOW, Reader, tier
from synapse.core import Memory
from synapse.model.entry import Entry

TURN, CALL, PROMPT = "in this turn", "at its next tool call", "at its next prompt"
WOKEN = "is woken"
WITH_DAEMON = f"{PROMPT}; `orchestrator up` would wake it"


class Hearer(NamedTuple):
    """A run that is told of an entry while it is at work: its agent, its engine or client, and how
    soon.
    """

    run: str
    agent: str
    engine: str
    when: str
    project: str | None = None


def ready(memory: Memory, daemon: bool) -> list[Hearer]:
    """Return everybody at work, with how soon each is told of what wakes it, in the order in which
    they began. `daemon` says whether one is up, which wakes the sessions of some clients.

    Asked before an entry is written: a moment later those that wait are no longer waiting.
    """
    root = memory.store.root or ""
    memory.store.refresh()
    with memory.store.snapshot() as snap:
        runs = snap.runs(state="running")[::-1]
    sessions = {
        worker.run: (session, key)
        for _, session in state.stored_sessions(root)
        for key, worker in session.workers.items()
    }
    return [
        Hearer(
            str(run["run"]),
            str(run["agent"]),
            str(run.get("engine") or ""),
            _when(root, sessions.get(str(run["run"])), daemon) if run.get("attached") else TURN,
            run.get("project"),
        )
        for run in runs
        if lives(memory.store, str(run.get("holder")))
    ]


def hearers(memory: Memory, entry: Entry, at_work: Sequence[Hearer]) -> list[Hearer]:
    """Return those at work whom an entry concerns. Whom it does not wake hears of it at its next
    event.
    """
    agents = memory.store.agents.all()
    listeners = []
    for hearer in at_work:
        agent = agents.get(hearer.agent)
        reader = Reader(agent.joined(hearer.project)) if agent else None
        soon = tier(entry, reader, entry.seq) if reader else None
        is_late = soon != NOW and hearer.when in (WOKEN, WITH_DAEMON)
        if soon is not None:
            listeners.append(hearer._replace(when=PROMPT) if is_late else hearer)
    return listeners


def _when(root: str, conversation: tuple[ClientSession, str] | None, daemon: bool) -> str:
    """Return how soon a conversation of a client is told: one in a turn by that turn's hooks, one
    that waits where something can wake it.
    """
    if conversation is None:
        return PROMPT
    session, key = conversation
    if key != MAIN or in_turn(facts.load(session.client), session):
        return CALL
    if is_watched(root, session.holder):
        return WOKEN
    if has_module(session.client):
        return WOKEN if daemon else WITH_DAEMON
    return PROMPT
