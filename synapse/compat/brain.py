"""`UnifiedBrain`: mail, knowledge and search of a few agents behind one object, as the
unified-brain document has it.

A facade: every act goes through `Mail`, `knowledge` and an agent memory, so that what may be seen
and written is decided where it always is. The log is the workspace `{db_path}.log/`; the file at
`db_path` holds the document's tables, derived.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from synapse import core
from synapse.agent_memory import AgentMemory
from synapse.compat.rows import Stray
from synapse.compat.tables import Tables
from synapse.errors import Forbidden, InvalidEntry, InvalidQuery, NotFound
from synapse.knowledge import memory, provenance
from synapse.mail.mailbox import Mail
from synapse.model import clock as clocks
from synapse.model import kinds
from synapse.model.agents import OPERATOR, Agent
from synapse.model.clock import iso
from synapse.model.entry import Entry, words
from synapse.model.message import Message, columns, said_at, thread_columns
from synapse.model.results import Problem
from synapse.system.checks import checked
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    import sqlite3

DB_PATH = "~/.openclaw/workspace/memory/brain.db"
HELIOS = "helios"  # whose brain it is, where nobody says
GROUP = "brain"  # the team of all agents that a brain meets: what one learns, the others know
TYPES = {"message": kinds.MESSAGE, "stm": kinds.FACT, "atom": kinds.ATOM}
_TYPE = {kind: type for type, kind in TYPES.items()}


@checked
class UnifiedBrain:
    """One agent's way to the brain. Whom it is: `agent`, else $SYNAPSE_AGENT, else `helios`;
    `operator` sees everything and has no mail. Agents it meets are registered, as engineers of the
    team `brain`.
    """

    def __init__(
        self,
        db_path: str = DB_PATH,
        agent: str | None = None,
        *,
        clock: Callable[[], int] = clocks.now,
        draw: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.db_path = os.path.abspath(os.path.expanduser(db_path))
        self.agent = agent or os.environ.get("SYNAPSE_AGENT") or HELIOS
        root = f"{self.db_path}.log"
        is_there = os.path.isdir(os.path.join(root, ".index"))
        begin = core.open if is_there else core.init
        self.memory = begin(root, clock=clock, draw=draw)
        try:
            self.tables = Tables(self.memory.store, self.db_path)
            self._ensure_agent((self.agent,))
            self.me: AgentMemory = self.memory.as_agent(self.agent)
            self.mail = Mail(self.me)
            self.tables.sync()
        except BaseException:
            self.memory.close()
            raise

    # -- communication -----------------------------------------------------------------------------

    def send(
        self,
        to: str | Iterable[str] | None,
        subject: str | None,
        body: str,
        thread_id: str | None = None,
        priority: str = "normal",
        *,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Send a message to an agent, a team, several of them, or to everybody (`all`, or None);
        its id. It begins a thread unless one is named, or a message that it answers. What its tags
        name (`@remember`, `@decision`, `@insight`, `@atom`) is kept as knowledge.
        """
        names = _names(to)
        self._ensure_agent(name for name in names if not name.startswith("team:"))
        if parent_id is not None:
            if thread_id not in (None, self.mail.get(parent_id).thread):
                raise InvalidEntry(
                    f"{parent_id} is in another thread than {thread_id}", thread=thread_id
                )
            sent = self.mail.reply(
                parent_id,
                body,
                to=names or "all",
                subject=subject,
                priority=priority,
                metadata=metadata,
            )
        else:
            sent = self.mail.send(
                names or "all",
                body,
                subject=subject,
                thread=thread_id,
                priority=priority,
                metadata=metadata,
            )
        self.tables.sync()
        return sent.id

    def read_unread(self, agent_id: str | None = None) -> list[dict[str, Any]]:
        """Return the messages that wait for this agent, oldest first, and mark them as read. The
        operator sees anybody's mail and marks nothing."""
        own = self._mail_of(agent_id, "read the mail of")
        if own is self.mail:
            messages = own.inbox(mark=True)
            self.tables.sync()
        else:
            messages = own.inbox()
        return [_row(message) for message in messages]

    def poll(self, agent_id: str | None = None) -> int:
        """Return the number of unread messages, without loading them."""
        return self._mail_of(agent_id, "poll for").poll()

    def ack(self, message_id: str, agent_id: str | None = None, body: str | None = None) -> None:
        """Acknowledge a message, with an answer or without. The operator may do it in anybody's
        name.
        """
        self._mail_of(agent_id, "acknowledge for").ack(message_id, body)
        self.tables.sync()

    def thread_history(self, thread_id: str, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest messages of a thread that this agent may see, oldest first."""
        return [_row(message) for message in self.mail.history(thread_id, limit)]

    def list_threads(self, status: str | None = "active", limit: int = 50) -> list[dict[str, Any]]:
        """Return the threads of a status (None: of any), most active first."""
        return [thread_columns(thread) for thread in self.mail.threads(status, limit=limit)]

    # -- knowledge ---------------------------------------------------------------------------------

    def remember(
        self,
        content: str,
        categories: str | Iterable[str] | None = None,
        importance: float = 1.0,
        source_message_id: str | None = None,
        *,
        expires: str | None = None,
        scope: str = f"group:{GROUP}",
    ) -> str:
        """Keep a fact, with the message that it comes from; its id. `expires` is a span such as
        7d.
        """
        entry = memory.remember(
            self.me,
            content,
            scope=scope,
            categories=categories or (),
            importance=importance,
            ttl=expires,
            cites=source_message_id or (),
        )
        self.tables.sync()
        return entry.id

    def create_atom(
        self,
        subject: str,
        action: str,
        outcome: str,
        consequences: str,
        source_message_id: str | None = None,
        *,
        confidence: float = 1.0,
        scope: str = f"group:{GROUP}",
    ) -> str:
        """Keep a unit of cause and effect; its id."""
        entry = memory.atom(
            self.me,
            subject,
            action,
            outcome,
            consequences,
            scope=scope,
            confidence=confidence,
            cites=source_message_id or (),
        )
        self.tables.sync()
        return entry.id

    def link_atoms(
        self, from_id: str, to_id: str, link_type: str = "causes", strength: float = 0.5
    ) -> None:
        """Say what one atom does to another: causes, enables, precedes or correlates."""
        memory.link(self.me, from_id, to_id, link_type, strength)
        self.tables.sync()

    def forget(self, knowledge_id: str, reason: str | None = None) -> None:
        """Take a fact or an atom out of all that is shown; the log keeps it, with the reason."""
        memory.forget(self.me, knowledge_id, reason)
        self.tables.sync()

    # -- across all of it --------------------------------------------------------------------------

    def search(
        self, query: str, limit: int = 20, types: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """Search messages, facts (`stm`) and atoms that this agent may see, best first; by words,
        and by meaning too if an embedder is set up."""
        hits = self.me.search(query, limit=limit, kind=_kinds(types))
        memory.used(self.me, [hit.id for hit in hits])
        return [
            _item(hit.entry)
            | {"score": hit.score, "excerpt": hit.excerpt, "trust": hit.entry.trust}
            | {"archived": hit.entry.archived}
            for hit in hits
        ]

    def find_provenance(self, knowledge_id: str) -> dict[str, Any]:
        """Return the messages that an item was made from, and its whole trail (`synapse why`)."""
        trail = provenance.why(self.me, knowledge_id)
        messages = [self.mail.get(id) for id in _messages(trail)]
        memory.used(self.me, [knowledge_id])
        return {
            "knowledge_id": trail.id,
            "source_type": _TYPE.get(trail.kind, trail.kind),
            "content": self.me.get(trail.id).body if kinds.is_id(trail.id) else trail.text,
            "messages": [columns(message) for message in messages],
            "threads": list(dict.fromkeys(message.thread for message in messages)),
            "trail": _trail(trail),
        }

    def recent(self, hours: float = 24, types: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return messages, facts and atoms of the last hours that this agent may see, newest
        first."""
        selected = _kinds(types)
        since = self.memory.store.clock() - int(hours * 3_600_000_000)
        pages = [self.me.read(since=since, limit=None)]
        if kinds.MESSAGE in selected:
            pages.append(self.me.read(since=since, limit=None, namespace=kinds.MAIL))
        entries = [entry for page in pages for entry in page if entry.kind in selected]
        return [_item(entry) for entry in sorted(entries, key=lambda entry: -entry.seq)]

    # -- upkeep ------------------------------------------------------------------------------------

    def embed_pending(self, limit: int | None = None) -> int:
        """Make vectors of what has none yet, with the embedder that synapse.yaml names or that is
        installed; how many: none where there is none.
        """
        from synapse.search import semantic

        if not self.memory.store.embeddings.semantic.embedder:
            return 0
        done = semantic.embed(self.memory.store, limit).embedded
        self.tables.sync()
        return done

    @staticmethod
    def migrate(
        synapse_json: str | None, cortex_stm_dir: str | None, db_path: str = DB_PATH
    ) -> dict[str, Any]:
        """Take over a `synapse.json` and a Cortex folder, whole or not at all; of each kind how
        many were read, repeat others, were written, were there.
        """
        from synapse.compat.migrate import migrate

        with UnifiedBrain(db_path, OPERATOR) as brain:
            migration = migrate(brain.memory, synapse_json, cortex_stm_dir, agent=HELIOS)
            brain.tables.sync()
            return {count.kind: count._asdict() for count in migration.counts}

    def check(self) -> list[Problem]:
        """Return what in the tables does not follow from the log, above all what was written past
        it."""
        return self.tables.check()

    def strays(self) -> list[Stray]:
        """Return what somebody wrote into the tables with their own SQL. It is not in the log, and
        was undone."""
        return self.tables.strays()

    def connect(self) -> sqlite3.Connection:
        """Open a current, read-only connection to the tables, for the operator's own SQL. It has
        the function `cosine_similarity` over the vectors of `embeddings`. A spawned run is refused:
        everybody's mail stands in them."""
        operators_alone("read the tables of all agents")
        self.tables.sync()
        return self.tables.reader()

    def close(self) -> None:
        """Close the log; the tables stay as they are."""
        self.tables.close()
        self.memory.close()

    def __enter__(self) -> UnifiedBrain:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    # -- below -------------------------------------------------------------------------------------

    def _ensure_agent(self, names: Iterable[str]) -> None:
        """Register who is not known yet. In a spawned run that is refused: its operator declares
        agents.
        """
        store = self.memory.store
        for name in names:
            id = name.removeprefix("agent:")
            if id not in (OPERATOR, "all") and store.agents.get(id) is None:
                self.memory.register(Agent(id, teams=(GROUP,)))

    def _mail_of(self, agent_id: str | None, action: str) -> Mail:
        """Return the mail of this agent or, for the operator, of the named one."""
        if agent_id in (None, self.agent):
            return self.mail
        if self.agent != OPERATOR:
            raise Forbidden(
                f"{self.agent} may not {action} {agent_id}", agent=self.agent, action=action
            )
        if self.memory.store.agents.get(str(agent_id)) is None:
            raise NotFound(f"there is no agent {agent_id}", id=agent_id)
        return Mail(self.memory.as_agent(str(agent_id)))


def _names(to: str | Iterable[str] | None) -> list[str]:
    """Return the addressees of a message; none means everybody."""
    addressees = [to] if isinstance(to, str) else list(to or ())
    names = [item for name in words(addressees) for item in words(name)]
    return [] if {"all", "*"} & {*names} else names


def _kinds(types: Iterable[str] | None) -> tuple[str, ...]:
    names = [types] if isinstance(types, str) else list(types or TYPES)
    for name in names:
        if name not in TYPES:
            raise InvalidQuery(f"type {name!r} is not one of {', '.join(TYPES)}", type=name)
    return tuple(TYPES[name] for name in names)


def _item(entry: Entry) -> dict[str, Any]:
    """Return an item of any type as one kind of dictionary."""
    extra = entry.more
    from_messages = [id for id in entry.derived_from if kinds.kind_of(id) == kinds.MESSAGE]
    return {
        "source_type": _TYPE[entry.kind],
        "id": entry.id,
        "title": extra.get("subject") or ", ".join(extra.get("categories", ())) or None,
        "content": entry.body,
        "from_agent": entry.author,
        "created_at": iso(said_at(entry)),
        "thread_id": extra.get("thread"),
        "importance": extra.get("importance"),
        "source_message_id": from_messages[0] if from_messages else None,
    }


def _trail(step: provenance.Step) -> dict[str, Any]:
    return step._asdict() | {"sources": [_trail(source) for source in step.sources]}


def _messages(step: provenance.Step) -> list[str]:
    """Return the messages of a trail, nearest first."""
    waiting, messages = [step], []
    while waiting:
        current = waiting.pop(0)
        if current.kind == kinds.MESSAGE:
            messages.append(current.id)
        waiting += current.sources
    return list(dict.fromkeys(messages))


def _row(message: Message) -> dict[str, Any]:
    """Return a message as a row of its table, and how far its sender is believed to be who it says
    it is.
    """
    return columns(message) | {"trust": message.entry.trust}
