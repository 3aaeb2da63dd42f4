"""What would be different if a run began now: entries of its prompt that hold no longer, and those
that came later and that its agent would be shown.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.reports.receipts import receipt_of
from orchestrator.reports.rows import Fields, Source
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import NotFound
from synapse.model.agents import OPERATOR
from synapse.model.entry import PRIORITIES, Entry
from synapse.model.results import Fate


class Ended(NamedTuple):
    """An entry that stood in a prompt and is not shown any more, and why. `fate` is None where its
    text was erased.
    """

    id: str
    fate: Fate | None


class Changes(NamedTuple):
    """What changed behind a prompt: entries of it that ended, and those that came later, what is
    critical first, and of one priority the newest.
    """

    at: int
    ended: list[Ended]
    later: list[Entry]


def changes(source: Source, memory: Memory, run: Fields) -> Changes:
    """Return what changed since the prompt of a run was made. NotFound where it has no receipt."""
    receipt = receipt_of(source, run)
    operator = memory.as_agent(OPERATOR)
    ended = (_ended(operator, id) for id, *_ in receipt.included)
    agent = str(run["agent"])
    later: list[Entry] = []
    if agent in memory.store.agents.all():
        later = memory.as_agent(agent).later(receipt.at)[::-1]
    own = {str(run["run"])}
    later.sort(key=lambda entry: PRIORITIES.index(entry.priority))
    return Changes(
        receipt.at,
        [one for one in ended if one is not None],
        [entry for entry in later if entry.run not in own],
    )


def _ended(operator: AgentMemory, id: str) -> Ended | None:
    try:
        fate = operator.fate(id)
    except NotFound:
        return Ended(id, None)
    return None if fate is None else Ended(id, fate)
