"""What a run took from the memory: the results that shared tools gave it, and the entries of its
prompt that it used. Called when a run is closed.
"""

from __future__ import annotations

from orchestrator.prompts import selection
from orchestrator.prompts.receipt import load
from orchestrator.runs.files.folder import RECEIPT
from orchestrator.runs.records import Run
from orchestrator.sessions.session import Session
from synapse.errors import NotFound
from synapse.store import Store
from synapse.view.block import POINTER


def results(store: Store, run: Run, session: Session | None) -> list[str]:
    """Return what the shared tools gave that a run called, as it stands in the memory."""
    agent, now = store.agents.all().get(run.agent), store.clock()
    acts = session.conversation.acts if session and agent else {}
    with store.snapshot() as snap:
        rows = [row for key in acts for row in snap.entries_under(key, now, agent)]
    return [
        entry.body[fields["act"]["head"] :]
        for entry, live, fields in rows
        if live and "act" in fields
    ]


def uses(store: Store, session: Session) -> dict[str, list[int]]:
    """Return how many of the entries that the prompt showed whole were used, kind by kind."""
    try:
        # a run that an earlier version began has it in its first step
        receipt = load(session.first.get("receipt") or session.folder.read(RECEIPT))
    except (NotFound, ValueError):
        return {}  # it was taken away
    shown = {id: why for id, _, form, why in receipt.included if form != POINTER and why}
    with store.snapshot(late=True) as snap:
        bodies = snap.bodies(shown)
    texts = [(why, bodies[id]) for id, why in shown.items() if id in bodies]
    return selection.uses(texts, session.run.task.text, session.conversation.turns)
