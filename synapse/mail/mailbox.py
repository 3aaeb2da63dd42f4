"""`Mail`: sending, reading, answering and acknowledging messages in threads, as one agent.

A message is an entry of the kind `message`: who sees it, and everything that keeps entries safe, is
decided where that is decided for entries. What is done with one (read, acknowledged, reacted to)
and with a thread are acts in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from synapse.agent_memory import AgentMemory, Names
from synapse.authority import may_overrule, may_say, may_steer
from synapse.errors import Conflict, Forbidden, InvalidEntry, NotFound
from synapse.index.questions import mailbox
from synapse.index.reading import asks_again
from synapse.index.snapshot import Snapshot
from synapse.mail import messages
from synapse.model import kinds
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import SEALED, Draft, Entry, words
from synapse.model.message import ACTIVE, STATUSES, Message, Thread
from synapse.model.records import Record
from synapse.system.checks import checked
from synapse.system.typed import Any

_SUMMED = 500  # so many messages of a thread go into its summary at most


@asks_again("poll", "inbox", "get", "threads", "thread", "history")
@checked
class Mail:
    """An agent's mail. The operator reads everybody's, and sends with `Memory.tell`."""

    def __init__(self, agent_memory: AgentMemory) -> None:
        self.agent_memory = agent_memory
        self.store = agent_memory.store

    def send(
        self,
        to: Names,
        body: str,
        *,
        subject: str | None = None,
        thread: str | None = None,
        priority: str = "normal",
        metadata: Mapping[str, Any] | None = None,
        attachments: Iterable[str | Mapping[str, Any]] = (),
        tags: Names = (),
        scope: str = "public",
        pii: bool = False,
        once: str | None = None,
    ) -> Message:
        """Send a message to an agent, a team, several of them, or `all`; it begins a thread unless
        one is named. The priority is info, normal, action (heard at the next session) or urgent
        (wakes). With `once`, a second call with the same key sends nothing and returns the first
        message.
        """
        if thread is not None:
            thread = self._thread_id(thread)
            self._check_open(thread)
        thread_id = thread or kinds.new_thread(self.store.draw(16))
        own = messages.fields_of(thread_id, None, subject, priority, metadata, attachments)
        names, tagged = self._addressees(to), words(tags)
        return self._post(names, body, own, scope, once, tags=tagged, pii=pii)

    def reply(
        self,
        id: str,
        body: str,
        *,
        to: Names = None,
        subject: str | None = None,
        priority: str = "normal",
        metadata: Mapping[str, Any] | None = None,
        attachments: Iterable[str | Mapping[str, Any]] = (),
        pii: bool = False,
        once: str | None = None,
    ) -> Message:
        """Answer a message, in its thread: to all that it was addressed to and its author, unless
        `to` says otherwise.
        """
        parent = self._message(id)
        thread = str(parent.more["thread"])
        self._check_open(thread)
        participants = set(parent.addressees) | {f"agent:{parent.author}"}
        names = (
            self._addressees(to)
            if to
            else tuple(sorted(participants - {f"agent:{self.agent_memory.id}"})) or ("all",)
        )
        own = messages.fields_of(thread, id, subject, priority, metadata, attachments)
        if "all" in parent.addressees and not to:
            names = ("all",)
        return self._post(names, body, own, parent.scope, once, pii=pii)

    def edit(
        self, id: str, body: str, *, subject: str | None = None, once: str | None = None
    ) -> Message:
        """Replace a message of one's own by a new version, which is unread again, and shown as
        long. The old one is kept, and no longer shown.
        """
        old = self._message(id)
        if old.author != self.agent_memory.id:
            raise Forbidden(
                f"{id} is {old.author}'s: only its author edits it",
                agent=self.agent_memory.id,
                action="edit",
            )
        own = dict(old.more) | ({"subject": subject} if subject is not None else {})
        return self._post(
            old.addressees,
            body,
            own,
            old.scope,
            once,
            replaces=(id,),
            tags=old.tags,
            ttl=None if old.ttl == "never" else old.ttl,
        )

    def poll(self, agent: str | None = None) -> int:
        """Return the number of unread messages, without loading them."""
        owner = self._owner(agent)
        self.store.refresh()
        with self.store.snapshot() as snap:
            return mailbox.waiting(snap, owner, self.store.clock())

    def inbox(
        self, limit: int | None = None, *, agent: str | None = None, mark: bool = False
    ) -> list[Message]:
        """Return the unread messages, oldest first. `mark` records that these were read."""
        owner = self._owner(agent)
        if mark and owner.id != self.agent_memory.id:
            raise Forbidden("only the agent itself can mark its mail as read", action="mark")
        now = self.store.clock()
        self.store.refresh()
        with self.store.snapshot() as snap:
            rows = mailbox.unread(snap, owner, now)
            rows = rows[: max(limit, 0)] if limit is not None else rows
            messages = self._as_messages(snap.load(rows, now, snap.names.reach(owner)))
        if mark and messages:
            self.agent_memory.writer.act("receipt", ids=[mail.id for mail in messages])
            self._refresh_mirror()
        return messages

    def read(self, ids: Names, *, once: str | None = None) -> list[str]:
        """Note that these messages were read; those of them that had not been."""
        messages = [self._message(id) for id in words(ids)]
        self._owner(None)
        self.store.refresh()
        with self.store.snapshot() as snap:
            marks = mailbox.marks(snap, [entry.seq for entry in messages])
        read = marks["receipts"]
        new = [
            entry.id
            for entry in messages
            if entry.author != self.agent_memory.id
            and self.agent_memory.id not in {mark.agent for mark in read.get(entry.seq, ())}
        ]
        if new:
            self.agent_memory.writer.write(
                Record.new("receipt", self.agent_memory.id, {"ids": new}), once=once
            )
            self._refresh_mirror()
        return new

    def ack(self, id: str, body: str | None = None, *, once: str | None = None) -> Message:
        """Acknowledge a message, with an answer for its author or without. It is read, and its
        delivery is done.
        """
        entry = self._message(id)
        if entry.author == self.agent_memory.id:
            raise Conflict(
                f"{id} is {self.agent_memory.id}'s own: there is nothing to acknowledge", id=id
            )
        if body:
            may_say(self._reader(), "answer with an acknowledgement")
        body = kinds.text("acknowledgement", body) if body else None
        self.agent_memory.writer.write(
            Record.new("acked", self.agent_memory.id, {"entry": id, "body": body}), once=once
        )
        with self.store.snapshot(late=True) as snap:
            deliveries = snap.deliveries(agent=self.agent_memory.id, entry=id)
        states = {delivery["state"] for delivery in deliveries}
        if states and "acked" not in states:
            self.agent_memory.writer.delivery("acked", [id], "said so")
        self._refresh_mirror()
        return self.get(id)

    def react(self, id: str, reaction: str, *, remove: bool = False) -> Message:
        """Add a reaction to a message, or take one's own back."""
        self._message(id)
        may_say(self._reader(), "react")
        sign = kinds.text("reaction", reaction).strip()
        if not sign or len(sign) > 40:
            raise InvalidEntry("a reaction is a word or a sign, of at most 40 characters")
        self.agent_memory.writer.act(
            "react", entry=id, reaction=sign, **({"end": True} if remove else {})
        )
        return self.get(id)

    # -- threads -----------------------------------------------------------------------------------

    def get(self, id: str) -> Message:
        """Return one message with its receipts, acknowledgements and reactions."""
        return messages.as_messages(self.store, [self._message(id)])[0]

    def threads(
        self, status: str | None = ACTIVE, *, tag: str | None = None, limit: int = 50
    ) -> list[Thread]:
        """Return the threads of a status (None: of any) that this agent may see, most active
        first."""
        if status is not None and status not in STATUSES:
            raise InvalidEntry(
                f"status {status!r} is not one of {', '.join(STATUSES)}", status=status
            )
        self.store.refresh()
        with self.store.snapshot() as snap:
            rows = mailbox.threads(snap, self._reader(), status, tag, max(limit, 0))
            return self._threads(snap, rows)

    def thread(self, id: str) -> Thread:
        """Return one thread, if this agent may see any of it."""
        self.store.refresh()
        with self.store.snapshot() as snap:
            row = mailbox.thread(snap, self._reader(), self._thread_id(id))
            if row is None:
                problem = f"there is no thread {id} that {self.agent_memory.id} may see"
                raise NotFound(problem, id=id)
            return self._threads(snap, [row])[0]

    def history(self, thread: str, limit: int = 100, *, before: str | None = None) -> list[Message]:
        """Return the newest messages of a thread, or the newest before one of them, oldest first,
        archived ones too."""
        thread = self.thread(thread).id
        before_seq = None if before is None else self._message(before).seq
        self.store.refresh()
        with self.store.snapshot() as snap:
            entries = mailbox.history(
                snap, self._reader(), thread, self.store.clock(), max(limit, 0), before_seq
            )
            messages = self._as_messages(entries)
        # a new version stands where the first one stood
        return sorted(messages, key=lambda message: message.created)

    def close(self, thread: str, *, summary: str | bool = False) -> Thread:
        """Say that a thread is done: it takes no more messages until it is reopened. It leaves a
        fact for those whom it reached, where `summary` is its text, or True: then the lines of its
        messages that say the most. It is its author's and the operator's to close.
        """
        self._steered(thread, "close")
        if summary:
            from synapse.knowledge import memory

            posts = [message.entry for message in self.history(thread, _SUMMED)]
            entries = [entry for entry in posts if entry.scope not in SEALED]
            memory.summarise(
                self.agent_memory, entries, summary if isinstance(summary, str) else None
            )
        return self._change_thread(thread, "close", closed=True)

    def reopen(self, thread: str) -> Thread:
        """Open a closed thread again."""
        self._steered(thread, "reopen")
        return self._change_thread(thread, "reopen", closed=False)

    def tag(self, thread: str, add: Names = (), *, remove: Names = ()) -> Thread:
        """Tag a thread, or take tags off it, unless that of a higher authority."""
        if words(remove) and (agent := self._reader()) is not None:
            by = self._first(thread).author
            action = "take tags off this thread"
            may_overrule(agent, by, self.store.agents.get(by), self.store.settings, action)
        names = {
            name: [kinds.text("tag", word) for word in words(tags)]
            for name, tags in (("add", add), ("remove", remove))
        }
        return self._change_thread(thread, "tag", **names)

    def rename(self, thread: str, subject: str) -> Thread:
        """Give a thread another subject."""
        self._steered(thread, "rename")
        return self._change_thread(thread, "subject", subject=kinds.text("subject", subject))

    # -- below -------------------------------------------------------------------------------------

    def _post(
        self,
        to: tuple[str, ...],
        body: str,
        own: Mapping[str, Any],
        scope: str,
        once: str | None,
        **fields: Any,
    ) -> Message:
        urgency = own.get("urgency")
        if urgency not in kinds.URGENCY:
            raise InvalidEntry(
                f"priority {urgency!r} is not one of {', '.join(kinds.URGENCY)}", priority=urgency
            )
        extra = kinds.More({name: value for name, value in own.items() if value is not None})
        draft = Draft(
            body,
            kinds.MAIL,
            self.agent_memory.id,
            kinds.URGENCY[urgency],
            addressees=to,
            scope=scope,
            id=kinds.new_id(kinds.MESSAGE, self.store.draw(6)),
            kind=kinds.MESSAGE,
            more=extra,
            **fields,
        )
        entry = self.agent_memory.write(draft, once=once)
        if "@" in body and not entry.replaces:
            from synapse.knowledge import memory

            memory.harvest(self.agent_memory, entry)
        self._refresh_mirror()
        return (
            Message(entry, entry.at, None) if not entry.replaces else self._as_messages([entry])[0]
        )

    def _reader(self) -> Agent | None:
        return self.agent_memory.agent

    def _owner(self, agent_id: str | None) -> Agent:
        """Return the agent whose mail is meant: this agent, or for the operator the named one."""
        if (
            agent_id is not None
            and agent_id != self.agent_memory.id
            and self.agent_memory.id != OPERATOR
        ):
            raise Forbidden(
                f"agent {self.agent_memory.id} may not look into the mail of {agent_id}",
                agent=self.agent_memory.id,
                action="read mail",
            )
        id = agent_id or self.agent_memory.id
        agent = self.agent_memory.agent if id == self.agent_memory.id else self.store.agents.get(id)
        if agent is None:
            problem = (
                "the operator has no mail of its own; name an agent"
                if id == OPERATOR
                else f"there is no agent {id}"
            )
            raise NotFound(problem, id=id)
        return agent

    def _message(self, id: str) -> Entry:
        entry = self.agent_memory.get(id)
        if entry.kind != kinds.MESSAGE:
            raise InvalidEntry(f"{id} is not a message: its kind is {entry.kind}", id=id)
        return entry

    def _addressees(self, to: Names) -> tuple[str, ...]:
        """Return the addressees as `to` has them. Raises NotFound for a name that nobody has."""
        names = words(to) if to is not None else ("all",)
        if not names:
            raise InvalidEntry(
                "the message has no addressee: name an agent, a team, several, or all"
            )
        return (
            ("all",)
            if {"all", "*"} & {*names}
            else tuple(sorted({self._addressee(name) for name in names}))
        )

    def _addressee(self, name: str) -> str:
        with self.store.snapshot(late=True) as snap:
            declared = snap.declared
        if (
            (id := name.removeprefix("agent:")) in declared
            or id == OPERATOR
            or self.store.agents.get(id) is not None
        ):
            return f"agent:{id}"
        team = f"team:{name.removeprefix('team:')}"
        if any(team in agent.names for agent in self.store.agents.all().values()):
            return team
        raise NotFound(
            f"there is no agent and no team {name}; `synapse agents` lists them", to=name
        )

    def _thread_id(self, name: str) -> str:
        """Return a thread's id by the name that it had before it was taken over, or as it is
        given.
        """
        if kinds.is_thread(name):
            return name
        taken_over = kinds.thread_from(name)
        self.store.refresh()
        with self.store.snapshot() as snap:
            return name if mailbox.thread(snap, None, taken_over) is None else taken_over

    def _check_open(self, thread: str) -> None:
        """Refuse a message to a thread that its author does not see, or that is closed."""
        if not kinds.is_thread(thread):
            raise InvalidEntry(
                f"{thread!r} is not a thread's id, which is thr_ and a UUID", thread=thread
            )
        with self.store.snapshot(late=True) as snap:
            exists = mailbox.is_known(snap, thread)
        with self.store.snapshot(late=exists) as snap:
            row = mailbox.thread(snap, self._reader(), thread)
            exists = mailbox.is_known(snap, thread)
        if row is None and exists:
            raise NotFound(
                f"there is no thread {thread} that {self.agent_memory.id} may see", id=thread
            )
        if row is not None and row.closed:
            raise Conflict(f"thread {thread} is closed; reopen it first", id=thread)

    def _first(self, thread: str) -> Entry:
        """Return the message that began a thread."""
        id = self.thread(thread).id
        with self.store.snapshot() as snap:
            row = mailbox.thread(snap, None, id)
            assert row is not None  # this agent sees something of it
            return mailbox.places(snap, (row.first,), self.store.clock())[row.first]

    def _steered(self, thread: str, action: str) -> None:
        """Refuse to steer a thread that is another's."""
        may_steer(self._reader(), self._first(thread), action)

    def _change_thread(self, id: str, how: str, **fields: object) -> Thread:
        id = self.thread(id).id
        if how in ("tag", "subject"):
            may_say(self._reader(), "name or tag a thread")
        self.agent_memory.writer.act(
            "thread",
            thread=id,
            how=how,
            **{name: value for name, value in fields.items() if value != []},
        )
        return self.thread(id)

    def _threads(self, snap: Snapshot, rows: Sequence[mailbox.Row]) -> list[Thread]:
        ends = mailbox.places(
            snap, {seq for row in rows for seq in (row.first, row.last)}, self.store.clock()
        )
        self.agent_memory.access.noticed(ends.values())
        return [messages.as_thread(row, ends[row.first], ends[row.last]) for row in rows]

    def _as_messages(self, entries: Sequence[Entry]) -> list[Message]:
        """Return the entries as messages, with their marks."""
        self.agent_memory.access.noticed(entries)
        opened = self.agent_memory.access.opened(entries)
        return messages.as_messages(self.store, opened)

    def _refresh_mirror(self) -> None:
        """Write the old file of all mail anew, if the settings want it kept current."""
        if any(name == "mirror" for name, _ in self.store.settings.other):
            from synapse.mail.synapse_json import refresh

            refresh(self.store)
