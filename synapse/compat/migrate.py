"""Import of `synapse.json` and a Cortex folder: whole or not at all, and repeatable.

Everything is read and checked before anything is written. Ids follow from the old ones, so that a
second time finds all of it there. The operator's: it writes in the name of those who said it.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from synapse.authority import admit, passed_on
from synapse.compat import cortex
from synapse.compat.cortex import OldAtom, OldCortex, OldFact, OldLink, OldVector
from synapse.compat.migration import Count, Migration
from synapse.core import Memory
from synapse.errors import InvalidEntry, NotFound, StoreError, SynapseError
from synapse.formats import mail_json
from synapse.formats.mail_json import OldMail, OldMessage
from synapse.index.questions import mailbox
from synapse.index.questions.links import links
from synapse.knowledge.memory import place, sentence
from synapse.model import kinds
from synapse.model.agents import OPERATOR, Agent, settled
from synapse.model.clock import micros
from synapse.model.entry import NEVER, SECOND, Draft, Entry
from synapse.model.entry_fields import DETAILS
from synapse.model.records import Record, canonical_body
from synapse.system.digest import sha256
from synapse.system.typed import Any
from synapse.trust.persons import operators_alone

TEAM = "brain"  # of the agents that a migration meets
# a thread that was silent for longer, and is read, is filed away at once
IDLE = 30 * 86_400 * SECOND
BATCH = 500
_NOTHING = OldMail((), {}, ())
_EMPTY = OldCortex((), (), (), (), {}, (), ())


def migrate(
    memory: Memory,
    synapse_json: str | None = None,
    cortex_dir: str | None = None,
    *,
    agent: str = "helios",
    model: str | None = None,
    dry: bool = False,
    believe: Collection[str] = (),
) -> Migration:
    """Take over mail, knowledge and vectors. `agent` keeps the knowledge; `model` made the vectors
    that do not say which did. Mail that says it is from an agent of this workspace is unverified,
    unless you `believe` that it is that agent's. InvalidEntry, with a list of all problems, where
    anything cannot be kept: then nothing was written.
    """
    operators_alone("migrate")
    old_mail = _NOTHING if synapse_json is None else _read(synapse_json)
    old = _EMPTY if cortex_dir is None else cortex.read(os.path.expanduser(cortex_dir), model)
    plan = _Plan(memory, mail_json.agent_id(agent), believe)
    plan.problems += [*old_mail.problems, *old.problems]
    plan.take(old_mail, old)
    if plan.problems:
        summary = "; ".join(plan.problems[:3]) + (
            f"; and {len(plan.problems) - 3} more" if plan.problems[3:] else ""
        )
        raise InvalidEntry(f"nothing was written: {summary}", problems=plan.problems)
    if not dry:
        plan.carry_out(old_mail.rest)
    return plan.report(old_mail, old, written=not dry)


def _read(path: str) -> OldMail:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return mail_json.read(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{path} cannot be read: {error}", path=path) from error


class _Plan:
    """What is to be written, worked out beforehand."""

    def __init__(self, memory: Memory, keeper: str, believe: Collection[str] = ()) -> None:
        self.memory = memory
        self.store = memory.store
        self.store.refresh()
        self.keeper = keeper
        self.believe = believe
        self.problems: list[str] = []
        self.agents: dict[str, Agent] = {}
        # who was here before, by no migration: the old file cannot speak for them
        self.doubted: set[str] = set()
        self.met: list[Agent] = []
        self.entries: dict[str, Entry] = {}  # new ones, in their order
        self.there: dict[str, Entry] = {}
        self.links: list[OldLink] = []
        self.vectors: list[OldVector] = []
        self.reads: dict[str, list[str]] = {}
        self.acks: list[tuple[str, mail_json.Answer]] = []
        self.uses: dict[str, int] = {}
        self.counted: dict[str, int] = {}

    def take(self, old_mail: OldMail, old: OldCortex) -> None:
        self._register_senders(old_mail, bool(old.facts or old.atoms or old.links))
        for message in old_mail.messages:
            self._admit(message.id, lambda message=message: self._message(message))  # type: ignore[misc]
        for fact in old.facts:
            self._admit(fact.id, lambda fact=fact: self._fact(fact))  # type: ignore[misc]
        for atom in old.atoms:
            self._admit(atom.id, lambda atom=atom: self._atom(atom))  # type: ignore[misc]
        self._marks(old_mail.messages)
        self._links(old.links)
        self._vectors(old.vectors)
        counts = [(item.id, item.access_count) for item in old.facts]
        counts += [(item.id, item.access_count) for item in old.atoms]
        self.uses = {id: count for id, count in counts if count and id in self.entries}

    # -- who ---------------------------------------------------------------------------------------

    def _register_senders(self, old: OldMail, knows: bool) -> None:
        names = [
            name
            for message in old.messages
            for name in (message.sender, *message.to, *message.read_by)
        ]
        names += [answer.agent for message in old.messages for answer in message.acks]
        registered = self.memory.agents()
        self.agents = {agent.id: agent for agent in registered}
        self.doubted = {
            agent.id
            for agent in registered
            if TEAM not in agent.groups and agent.id not in self.believe
        }
        for name in dict.fromkeys([*names, *([self.keeper] if knows else [])]):
            if name not in self.agents:
                try:
                    self.met.append(settled(Agent(name, teams=(TEAM,))))
                    self.agents[name] = self.met[-1]
                except InvalidEntry as error:
                    self.problems.append(str(error))

    # -- entries -----------------------------------------------------------------------------------

    def _admit(self, id: str, draft: Callable[[], Draft]) -> None:
        """Check an item as if it were written now; one that is here already has to be the same."""
        try:
            new_draft = draft()
            agent = self.agents.get(new_draft.author)
            trust = self._trust(new_draft)
            entry = admit(new_draft, agent, self.store.settings, trust=trust)
            entry = entry._replace(id=id)
        except SynapseError as error:
            self.problems.append(f"{id}: {error}")
            return
        with self.store.snapshot() as snap:
            before = snap.entry(id, self.store.clock())
        if before is None and id not in self.entries:
            self.entries[id] = entry._replace(staged=False)
        elif before is not None and _is_same(before, entry):
            self.there[id] = before
        elif before is not None:
            self.problems.append(f"{id} is here already, and says something else")

    def _trust(self, draft: Draft) -> str:
        """Return how far an item is believed: an old file cannot speak for whom it did not bring
        here, and what is derived from an item is believed no more than that.
        """
        own = "unverified" if draft.author in self.doubted else "local"
        entries = {**self.there, **self.entries}
        sources = (entries[id].trust for id in draft.derived_from if id in entries)
        return passed_on((own, *sources))

    def _message(self, old: OldMessage) -> Draft:
        metadata: dict[str, Any] = {**old.metadata, mail_json.KEPT: dict(old.kept)}
        own: dict[str, Any] = {
            "thread": old.thread,
            "parent": old.parent,
            "subject": old.subject,
            "urgency": old.priority,
        }
        own = {name: value for name, value in own.items() if value is not None} | {
            "metadata": metadata
        }
        to = tuple(f"agent:{name}" for name in old.to) or ("all",)
        return Draft(
            old.body,
            kinds.MAIL,
            old.sender,
            kinds.URGENCY[old.priority],
            addressees=to,
            when=old.at,
            id=old.id,
            kind=kinds.MESSAGE,
            more=kinds.More(own),
        )

    def _fact(self, old: OldFact) -> Draft:
        own = {"categories": old.categories, "importance": old.importance, "source": old.source}
        return self._knowledge(old, old.content, kinds.FACT, own)._replace(
            ttl=self._ttl(old.expires)
        )

    def _atom(self, old: OldAtom) -> Draft:
        texts = dict(zip(cortex.PARTS, old.parts, strict=True))
        own = {**texts, "confidence": old.confidence, "source": old.source}
        return self._knowledge(old, sentence(texts), kinds.ATOM, own)

    def _knowledge(
        self, old: OldFact | OldAtom, body: str, kind: str, own: Mapping[str, Any]
    ) -> Draft:
        keeper = self.agents[self.keeper]
        source = (
            None
            if old.source_message is None
            else mail_json.new_id(kinds.MESSAGE, old.source_message)
        )
        has_source = source is not None and (source in self.entries or self._is_here(source))
        extra = old.rest
        # it is gone: what it was called stays
        if source is not None and not has_source:
            extra = json.dumps(
                {**json.loads(extra or "{}"), "source_message_id": old.source_message},
                sort_keys=True,
            )
        return Draft(
            body,
            place(keeper, f"group:{TEAM}" if f"team:{TEAM}" in keeper.names else "agent"),
            keeper.id,
            when=old.at,
            evidence=extra,
            derived_from=(source,) if source and has_source else (),
            id=old.id,
            kind=kind,
            more=kinds.More({name: value for name, value in own.items() if value not in ("", ())}),
        )

    def _is_here(self, id: str) -> bool:
        with self.store.snapshot() as snap:
            return snap.entry(id, 0) is not None

    def _ttl(self, expires: str | None) -> str | None:
        if expires is None:
            return None
        return f"{max(0, micros(expires) - self.store.clock()) // SECOND}s"

    # -- what is said of them ----------------------------------------------------------------------

    def _marks(self, messages: Iterable[OldMessage]) -> None:
        seqs = {entry.seq: id for id, entry in self.there.items() if entry.kind == kinds.MESSAGE}
        with self.store.snapshot() as snap:
            marks = mailbox.marks(snap, seqs) if seqs else {"receipts": {}, "acks": {}}
        read = {
            (seqs[seq], mark.agent) for seq, marked in marks["receipts"].items() for mark in marked
        }
        acked = {
            (seqs[seq], mark.agent) for seq, marked in marks["acks"].items() for mark in marked
        }
        for message in messages:
            for name in message.read_by:
                if name in self.doubted:
                    continue  # it read nothing here: the message is new to it
                self._count_marks("receipts", (message.id, name) in read)
                if (message.id, name) not in read:
                    self.reads.setdefault(name, []).append(message.id)
            for answer in message.acks:
                if answer.agent in self.doubted:
                    continue
                self._count_marks("acks", (message.id, answer.agent) in acked)
                if (message.id, answer.agent) not in acked:
                    self.acks.append((message.id, answer))

    def _links(self, old: Iterable[OldLink]) -> None:
        for edge in old:
            missing = [
                end
                for end in (edge.cause, edge.effect)
                if end not in self.entries and end not in self.there
            ]
            if missing or edge.cause == edge.effect:
                self.problems.append(
                    f"the link {edge.cause} {edge.type} {edge.effect} is of no two atoms here"
                )
                continue
            with self.store.snapshot() as snap:
                existing = links(snap, edge.cause)
            repeated = any(
                (one.effect, one.type, one.strength) == (edge.effect, edge.type, edge.strength)
                for one in existing
            )
            self._count_marks("links", repeated)
            if not repeated:
                self.links.append(edge)

    def _vectors(self, old: Iterable[OldVector]) -> None:
        for vector in old:
            with self.store.snapshot() as snap:
                stored = snap.first(self.keeper, _vector_key(vector)) is not None
            self._count_marks("embeddings", stored)
            if not stored:
                self.vectors.append(vector)

    def _count_marks(self, kind: str, there: bool) -> None:
        name = f"{kind} {'there' if there else 'written'}"
        self.counted[name] = self.counted.get(name, 0) + 1

    # -- writing -----------------------------------------------------------------------------------

    def carry_out(self, rest: Mapping[str, Any]) -> None:
        for agent in self.met:
            self.memory.register(agent)
        batch = {
            f"migrate:{id}": Record.new("entry", entry.author, {}, entry)
            for id, entry in self.entries.items()
        }
        batch |= dict(self._acts())
        names = iter(batch)
        while batch_names := list(islice(names, BATCH)):
            self.store.commit.append_all({name: batch[name] for name in batch_names})
        self.store.refresh()
        self._verify_written()
        self._file_away()
        if batch:
            counts = {count.kind: count.written for count in self._counts()}
            self.store.commit.act("migrated", OPERATOR, counts=counts, rest=dict(rest))
        self.store.refresh()

    def _acts(self) -> Iterator[tuple[str, Record]]:
        """Yield the records that are not entries, each with its own key."""
        for edge in self.links:
            fields = {
                "cause": edge.cause,
                "effect": edge.effect,
                "type": edge.type,
                "strength": float(edge.strength),
            }
            fields |= {"ids": [edge.cause, edge.effect], "rest": edge.rest}
            yield _key("link", fields), Record.new("link", self.keeper, fields)
        for vector in self.vectors:
            yield (_vector_key(vector), Record.new("vector", self.keeper, _vector_fields(vector)))
        for name, ids in self.reads.items():
            yield (_key("receipt", [name, ids]), Record.new("receipt", name, {"ids": ids}))
        for id, answer in self.acks:
            record_fields = {"entry": id, "body": answer.body, "when": answer.at}
            yield (
                _key("acked", [answer.agent, record_fields]),
                Record.new("acked", answer.agent, record_fields),
            )
        if self.uses:
            yield (_key("used", self.uses), Record.new("used", self.keeper, {"counts": self.uses}))

    def _verify_written(self) -> None:
        """Check that everything planned was written, by counting what is stored."""
        now = self.store.clock()
        with self.store.snapshot() as snap:
            for id, entry in self.entries.items():
                stored = snap.entry(id, now)
                if stored is None or not _is_same(stored, entry):
                    raise StoreError(f"{id} was not imported completely; run it again")

    def _file_away(self) -> None:
        """Archive threads that were silent for long and read by all their addressees."""
        now = self.store.clock()
        threads: dict[str, list[Entry]] = {}
        for entry in self.entries.values():
            if entry.kind == kinds.MESSAGE:
                threads.setdefault(entry.more["thread"], []).append(entry)
        read = {id for ids in self.reads.values() for id in ids}
        for thread, messages in threads.items():
            with self.store.snapshot(late=True) as snap:
                row = mailbox.thread(snap, None, thread)
            is_over = all(
                message.id in read and _when(message, now) < now - IDLE for message in messages
            )
            if is_over and row is not None and row.live == len(messages):
                self.store.commit.act(
                    "archive",
                    OPERATOR,
                    ids=[message.id for message in messages],
                    reason="idle for 30 days when it was taken over",
                )

    # -- telling -----------------------------------------------------------------------------------

    def _counts(self) -> list[Count]:
        counts = []
        for kind, name in (
            (kinds.MESSAGE, "messages"),
            (kinds.FACT, "facts"),
            (kinds.ATOM, "atoms"),
        ):
            new = sum(entry.kind == kind for entry in self.entries.values())
            present = sum(entry.kind == kind for entry in self.there.values())
            counts.append(Count(name, new + present, 0, new, present))
        for name in ("links", "embeddings", "receipts", "acks"):
            new, present = (self.counted.get(f"{name} {how}", 0) for how in ("written", "there"))
            counts.append(Count(name, new + present, 0, new, present))
        return counts

    def report(self, old_mail: OldMail, old: OldCortex, *, written: bool) -> Migration:
        read = {
            "messages": len(old_mail.messages),
            "facts": old.read.get("stm", 0),
            "atoms": old.read.get("atoms", 0),
        }
        read |= {name: old.read.get(name, 0) for name in ("links", "embeddings")}
        counts = []
        for item in self._counts():
            total = read.get(item.kind, item.read)
            counts.append(item._replace(read=total, repeated=total - item.read))
        names = {
            name: mail_json.agent_id(name)
            for item in old_mail.messages
            for name in mail_json.named(item.kept)
        }
        renamed = {name: id for name, id in names.items() if name != id}
        new = tuple(agent.id for agent in self.met)
        senders = {item.sender for item in old_mail.messages} & self.doubted
        return Migration(tuple(counts), new, renamed, written, tuple(sorted(senders)))


def _is_same(before: Entry, entry: Entry) -> bool:
    """Return whether the stored item is the same as the one that is taken over."""
    names = ("author", "namespace", "kind", "addressees", *DETAILS, "derived_from", "more")
    return before.body == canonical_body(entry.body) and all(
        getattr(before, name) == getattr(entry, name) for name in names
    )


def _when(entry: Entry, otherwise: int) -> int:
    return otherwise if entry.when is None else min(micros(entry.when), NEVER)


def _key(kind: str, fields: object) -> str:
    return f"migrate:{kind}:{sha256(json.dumps(fields, sort_keys=True).encode())[:24]}"


def _vector_key(vector: OldVector) -> str:
    return _key("vector", [vector.item, vector.part, vector.model, sha256(vector.values)])


def _vector_fields(vector: OldVector) -> dict[str, Any]:
    fields = {
        "entry": vector.item,
        "part": vector.part,
        "model": vector.model,
        "dimension": vector.dimension,
    }
    return fields | {"values": b64encode(vector.values).decode(), "when": vector.at}
