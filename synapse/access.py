"""What one agent may see, name and rule on: the gate before every read and act. `AgentMemory` and
the rulings use it.
"""

from __future__ import annotations

from collections.abc import Callable

from synapse.authority import is_merged, may_rule, visible
from synapse.errors import Forbidden, NotFound, StoreError
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import TRUST, Entry
from synapse.store import Store
from synapse.writer import Writer


class Access:
    """The access of one agent, or of the operator, who sees everything and writes nothing."""

    def __init__(self, store: Store, writer: Writer, id: str) -> None:
        self.store = store
        self.writer = writer
        self.id = id

    def agent(self) -> Agent | None:
        """Return the agent as registered, with a run as a member of its project; None is the
        operator.
        """
        if self.id == OPERATOR:
            return None
        agent = self.store.agent(self.id)
        if agent is None:
            raise self.store.unregistered(self.id)
        return agent if self.writer.run is None else agent.joined(self.writer.project())

    def writing_agent(self) -> Agent:
        """Return the agent, about to write; the operator writes nothing."""
        agent = self.agent()
        if agent is None:
            raise Forbidden(
                "the operator declares agents and reads everything; entries and"
                " rulings are agents' acts"
            )
        self.store.tidy()
        return agent

    def entry(self, id: str) -> Entry:
        """Return an entry that this agent may see. One that it may not see is, to it, not there."""
        agent = self.agent()
        with self.store.snapshot() as snap:
            entry = snap.entry(id, self.store.clock(), agent)
        if entry is None or not (
            visible(entry, agent) or (entry.staged and self.sees_staged(entry))
        ):
            raise NotFound(f"there is no entry {id} that {self.id} may see", id=id)
        return entry

    def may_name(self, name: str) -> bool:
        """Return whether this agent may be told the name: an agent's, or that of an entry that it
        may see.
        """
        with self.store.snapshot() as snap:
            entry = snap.entry(name, self.store.clock())
        return entry is None or visible(entry, self.agent())

    def lineage(self, sources: tuple[str, ...]) -> str:
        """Return the trust of what is made of these entries: no more than the least of theirs."""
        trusts = [self.entry(id).trust for id in sources]
        return min(("local", *trusts), key=TRUST.index)

    def sees_staged(self, entry: Entry) -> bool:
        """Return whether this agent may see an entry that waits for review."""
        agent = self.agent()
        if agent is None or entry.author == agent.id:
            return True
        if is_merged(entry) and not visible(entry._replace(staged=False), agent):
            return False  # its words are its sources', and say as much as they do
        try:
            may_rule(agent, entry, self.store.settings, "approve")
        except Forbidden:
            return False
        return True


def after(look: Callable[[], Entry], otherwise: Entry) -> Entry:
    """Return the entry after an act on it. That is durable: no error where the index has no room to
    take it in.
    """
    try:
        return look()
    except StoreError:
        return otherwise
