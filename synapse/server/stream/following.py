"""The follower of a stream: that of the library, which also notes what ends a stream or moves it
back. Called by the hub and by subscriptions.
"""

from __future__ import annotations

from synapse.model.agents import Agent
from synapse.model.records import Record
from synapse.model.results import Event
from synapse.notify import Follower
from synapse.store import Store


class Following(Follower):
    """A follower that tells what this agent is told of, the operator for None. It notes from where
    on the journal was replaced, and at which record behind `known` each agent was declared anew.
    """

    def __init__(self, store: Store, agent: Agent | None, cursor: int, known: int) -> None:
        super().__init__(store, lambda: agent, cursor)
        self.known = known
        self.fork: int | None = None
        self.declared: dict[str, int] = {}

    def _rejoin(self) -> None:
        before = self.cursor
        super()._rejoin()
        if self.cursor < before:
            self.fork = self.cursor

    def _event(self, record: Record, agent: Agent | None) -> Event | None:
        declared = record.fields.get("agent") if record.kind == "agent" else None
        if isinstance(declared, dict) and record.seq > self.known:
            self.declared.setdefault(str(declared.get("id")), record.seq)
        return super()._event(record, agent)
