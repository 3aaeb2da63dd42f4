"""What one agent may see, name and rule on: the gate before every read and act. `AgentMemory` and
the rulings use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from synapse.access.writer import Writer
from synapse.authority import is_merged, may_rule, passed_on, visible
from synapse.errors import Forbidden, NotFound, ReadOnly, StoreError, SynapseError
from synapse.model import kinds
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import DOUBTFUL, SEALED, Entry
from synapse.model.entry_fields import FREE
from synapse.model.records import Record
from synapse.model.results import Event
from synapse.store import Store
from synapse.system.quoting import escaped
from synapse.system.typed import Any
from synapse.trust import lineage

WITHHELD = "(tainted: its text is shown to the operator alone)"
_PLACES = ("thread", "parent", "urgency", "importance", "confidence", "cites")


class Access:
    """The access of one agent, or of the operator, who sees everything, rules on every entry in its
    own name, and writes none here.
    """

    def __init__(self, store: Store, writer: Writer, id: str) -> None:
        self.store = store
        self.writer = writer
        self.id = id
        self.outside = False  # whether what is written came from outside
        self.opens = True  # what is sealed; not what a run's files would hold
        self.shown: set[str] = set()  # unverified entries, of which that was looked up

    def agent(self) -> Agent | None:
        """Return the agent as registered, with a run as a member of its project; None is the
        operator.
        """
        if self.id == OPERATOR:
            return None
        agent = self.store.agents.get(self.id)
        if agent is None:
            raise self.store.agents.unregistered(self.id)
        return agent if self.writer.run is None else agent.joined(self.writer.project())

    def writing_agent(self) -> Agent:
        """Return the agent, about to write; the operator writes no entries here."""
        agent = self.ruling_agent()
        if agent is None:
            raise Forbidden(
                "the operator declares agents, reads everything and rules on entries;"
                " writing them is the agents', and `orchestrator say` speaks to them"
            )
        return agent

    def ruling_agent(self) -> Agent | None:
        """Return the agent, about to rule on an entry; None is the operator, who may rule on
        each.
        """
        return self.agent()

    def check_addressees(self, to: Iterable[str]) -> None:
        """Refuse an agent that there is none of: nobody would read it. A team may get its members
        later.
        """
        names = {name.partition(":")[2] for name in to if name.startswith("agent:")}
        names.discard(OPERATOR)
        agents = self.store.agents.all() if names else {}
        for name in sorted(names):
            if name not in agents:
                raise NotFound(f"nothing was written: agent {name} is not registered", id=name)

    def _shared(self, entry: Entry) -> bool:
        """Return whether a holder shared a sealed entry with this agent, which may then see it."""
        if entry.scope != "encrypted" or entry.staged:
            return False
        return self.store.keyring.is_shared(entry, self.id)

    def entry(self, id: str) -> Entry:
        """Return an entry that this agent may see. One that it may not see is, to it, not there."""
        agent = self.agent()
        with self.store.snapshot() as snap:
            entry = snap.entry(id, self.store.clock(), agent)
            tainted = snap.is_tainted(id)
        if entry is None or not (
            visible(entry, agent)
            or (entry.staged and self.sees_staged(entry))
            or self._shared(entry)
        ):
            raise NotFound(f"there is no entry {id} that {self.id} may see", id=id)
        return withheld(entry) if agent is not None and tainted else entry

    def sight(self) -> dict[str, list[str]]:
        """Return what the run of this agent was shown since it last wrote, as a field of a
        record."""
        ids = self.store.sights.pop(self.writer.run or "", None)
        return {"saw": [*ids]} if ids else {}

    def known(self, id: str) -> Entry | None:
        """Return an entry that this agent may see; None where nothing has this id."""
        with self.store.snapshot() as snap:
            exists = snap.entry(id, self.store.clock()) is not None
        return self.entry(id) if exists else None

    def may_name(self, name: str) -> bool:
        """Return whether this agent may be told the name: an agent's, or that of an entry that it
        may see.
        """
        with self.store.snapshot() as snap:
            entry = snap.entry(name, self.store.clock())
        return entry is None or visible(entry, self.agent())

    def doubts(self) -> list[str]:
        """Return the unverified entries that this run was shown, which limit it."""
        return [] if self.writer.run is None else self._doubts_of(self.writer.run)

    def _doubts_of(self, run: str) -> list[str]:
        if not lineage.limits(self.store.settings):
            return []
        with self.store.snapshot() as snap:
            return lineage.doubts(snap, run, self.store.clock())

    def trust(self, namespace: str, sources: tuple[str, ...] = (), runs: Iterable[str] = ()) -> str:
        """Return the trust of what this agent writes in a namespace and makes of these entries and
        of what came out of these runs: no more than theirs, and no more than what its own run was
        shown. Forbidden where that is limited and the namespace is beyond its project.
        """
        trusts = ["outside" if self.outside else "local", *(self.entry(id).trust for id in sources)]
        if any(self._doubts_of(run) for run in runs if isinstance(run, str)):
            trusts.append("unverified")
        if not (ids := self.doubts()):
            return passed_on(trusts)
        if not lineage.within(self.id, project := self.writer.project(), namespace):
            places = ", ".join(lineage.places(self.id, project))
            raise Forbidden(
                f"run {self.writer.run} may not write in {namespace}, only in {places}:"
                f" {lineage.why(ids)}",
                agent=self.id,
                namespace=namespace,
                action="write",
            )
        return passed_on((*trusts, "unverified"))

    def opened(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return entries as this agent is shown them: what is sealed with its text where a key of
        the agent's is here, else with a line that says for whom it is.
        """
        reader = self.id if self.opens else None
        return [
            entry if entry.scope not in SEALED else self.store.keyring.opened(entry, reader)
            for entry in entries
        ]

    def revealed(self, text: str) -> str:
        """Return a text with what is sealed in it as far as this agent can open it: for what goes
        to its model, and not to a file.
        """
        if "[sealed " not in text:
            return text
        from synapse.trust.keyring import revealed

        return revealed(text, self._body_of)

    def _body_of(self, id: str) -> str | None:
        try:
            return escaped(self.store.keyring.body(self.entry(id), self.id))
        except SynapseError:
            return None

    def noticed(self, entries: Iterable[Entry]) -> None:
        """Note which unverified entries this run is shown."""
        if self.writer.run is not None:
            read = [*entries]
            foreign = (entry.id for entry in read if entry.author != self.id)
            sight = self.store.sights.setdefault(self.writer.run, {})
            sight.update(dict.fromkeys(foreign))
            self.noticed_ids(e.id for e in read if e.trust in DOUBTFUL)

    def following(self, events: Iterator[Event]) -> Iterator[Event]:
        """Return the events, each noted as it comes."""
        for event in events:
            self.noticed((event.entry,))
            yield event._replace(entry=self.opened((event.entry,))[0])

    def noticed_ids(self, ids: Iterable[str]) -> None:
        """Note that this run is shown these entries, as far as they are unverified. Where nothing
        can be written, nothing is noted: nor can the run write anything else.
        """
        new = [id for id in dict.fromkeys(ids) if id not in self.shown]
        if self.writer.run is None or not new:
            return
        self.shown.update(new)
        now = self.store.clock()
        with self.store.snapshot() as snap:
            noted = set(lineage.doubts(snap, self.writer.run, now))
            entries = [snap.entry(id, now) for id in new if id not in noted]
        # what it wrote itself is limited by what it was made of
        doubtful = [
            e.id
            for e in entries
            if e is not None and e.trust in DOUBTFUL and e.run != self.writer.run
        ]
        if doubtful:
            note = lineage.note(self.id, self.writer.run, doubtful)
            self.store.index.afterwards(lambda: self._note(note))

    def _note(self, note: Record) -> None:
        with suppress(ReadOnly):
            self.store.commit.append(note)

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


def withheld(entry: Entry) -> Entry:
    """Return a tainted entry as agents are given it that ask for it by its id: without its text."""
    texts_kept = {name: value for name, value in entry.more.items() if name in _PLACES}
    texts = dict.fromkeys(kinds.texts_of(entry.kind), WITHHELD)
    nothing: dict[str, Any] = dict.fromkeys(FREE)
    more = kinds.More(texts | texts_kept)
    return entry._replace(**nothing, body=WITHHELD, tags=(), more=more)


def after(look: Callable[[], Entry], otherwise: Entry) -> Entry:
    """Return the entry after an act on it. That is durable: no error where the index has no room to
    take it in.
    """
    try:
        return look()
    except StoreError:
        return otherwise
