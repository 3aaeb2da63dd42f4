"""The rows of the unified-brain tables, derived from the index for the records that came."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode
from collections.abc import Iterable
from struct import unpack

from synapse.index.database import Database
from synapse.index.questions import mailbox
from synapse.index.questions.links import links, uses
from synapse.index.snapshot import Snapshot
from synapse.index.vectors.vectors import unit
from synapse.mail.messages import as_messages, first_of
from synapse.model import kinds
from synapse.model.clock import iso
from synapse.model.entry import NEVER, SEALED, Entry
from synapse.model.message import (
    ACTIVE,
    ARCHIVED,
    CLOSED,
    Message,
    ack_rows,
    columns,
    receipt_rows,
    said_at,
)
from synapse.model.records import Record, filings, touched_by
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.system.json import dumps
from synapse.system.typed import Any, NamedTuple

_TYPE = {kinds.MESSAGE: "message", kinds.FACT: "stm", kinds.ATOM: "atom"}


class Stray(NamedTuple):
    """Something that was written into the tables past the log: where, which row, how, and what it
    said.
    """

    num: int
    table: str
    key: str
    act: str
    content: str | None
    at: str


class Touched:
    """What records bear on: items, threads, agents. `anew` where that cannot be told."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.threads: dict[str, None] = {}
        self.agents: dict[str, None] = {}
        self.links: dict[str, None] = {}
        self.vectors: dict[str, None] = {}
        self.seen: dict[str, int] = {}  # when each agent last did something
        self.new: set[str] = set()  # items of which there are no rows yet
        self.anew = False

    def take(self, record: Record) -> None:
        fields = record.fields
        self.seen[record.by] = record.at
        if record.kind == "entry" and record.id:
            self.new.add(record.id)
            self.items((record.id, *fields.get("replaces", ())))
        elif record.kind == "thread":
            self.threads[fields["thread"]] = None
        elif record.kind == "agent":
            self.agents[fields["agent"]["id"]] = None
        elif record.kind == "used":
            self.items(fields["counts"])
        elif record.kind == "vector":
            self.vectors[fields["entry"]] = None
        elif record.kind in ("void", "taint", "untaint"):
            self.anew = True
        else:
            self.items(
                touched_by(record) if record.kind == "undo" else (id for id, _ in filings(record))
            )
            self.items((*fields.get("ids", ()), *((fields["entry"],) if "entry" in fields else ())))

    def items(self, ids: Iterable[str]) -> None:
        self.ids.update(dict.fromkeys(ids))

    def stray(self, stray: Stray) -> None:
        """Add the row that somebody wrote over, so that it is derived again."""
        first, _, second = stray.key.partition(" ")
        if stray.table == "threads":
            self.threads[first] = None
        elif stray.table == "agents":
            self.agents[first] = None
        elif stray.table == "embeddings":
            self.items((second,))
            self.vectors[second] = None
        elif stray.table == "atom_links":
            self.links.update({first: None, second: None})
        else:
            self.items((first,))


class Rows:
    """Makes rows anew, within a transaction that somebody else has opened."""

    def __init__(self, store: Store, db: Database) -> None:
        self.store = store
        self.db = db

    def derive(self, touched: Touched) -> None:
        """Derive the rows of everything touched from the index."""
        with self.store.snapshot(late=True) as snap:
            self._derive(snap, touched)

    def _derive(self, snap: Snapshot, touched: Touched) -> None:
        now = self.store.clock()
        entries = {id: _standing(snap, id, now) for id in touched.ids}
        for id in entries:
            if id not in touched.new:
                self._drop(id)
        live = [entry for entry in entries.values() if entry is not None]
        messages = [entry for entry in live if entry.kind == kinds.MESSAGE]
        self._messages(messages, touched)
        for entry in live:
            if entry.kind == kinds.FACT:
                self.db.run("put_stm", self._fact(snap, entry))
            elif entry.kind == kinds.ATOM:
                self.db.run("put_atom", self._atom(entry))
                touched.links[entry.id] = None
        self._drop_missing(snap, entries, touched)
        for id in touched.links:
            self._links(snap, id)
        for id in touched.vectors:
            self._log_vectors(snap, id)
        for id in touched.threads:
            self._thread(snap, id)
        self._update_activity(snap, touched)

    def _drop(self, id: str) -> None:
        for name in ("drop_message", "drop_receipts", "drop_acks", "drop_stm", "drop_atom"):
            self.db.run(name, {"id": id})

    def _drop_missing(
        self, snap: Snapshot, entries: dict[str, Entry | None], touched: Touched
    ) -> None:
        """Add the links of removed atoms, and the threads of removed messages."""
        for id, entry in entries.items():
            if entry is None:
                self.db.run("drop_links", {"id": id})
                self.db.run("drop_embedding", {"id": id})
                old = snap.entry(id, 0) if kinds.kind_of(id) == kinds.MESSAGE else None
                if old is not None and not old.staged:
                    touched.threads[old.more["thread"]] = None

    def _messages(self, entries: list[Entry], touched: Touched) -> None:
        for message in as_messages(self.store, entries):
            self._message(message)
            touched.threads[message.thread] = None
            for old in message.entry.replaces:
                self._redirect(old, message.id)

    def _message(self, message: Message) -> None:
        row = columns(message)
        row |= {
            "seq": message.entry.seq,
            "metadata": dumps(row["metadata"]),
            "parent_id": self._now(row["parent_id"]),
        }
        self.db.run("put_message", row)
        for receipt in receipt_rows(message):
            self.db.run("put_receipt", receipt)
        for ack in ack_rows(message):
            self.db.run("put_ack", ack)

    def _redirect(self, old: str, id: str) -> None:
        """Point references from the old version to the new: the old one is in no table."""
        for name in (
            "put_version",
            "follow_versions",
            "follow_parents",
            "follow_stm",
            "follow_atoms",
        ):
            self.db.run(name, {"old": old, "id": id})

    def _now(self, id: str | None) -> str | None:
        row = self.db.run("version_of", {"old": id}).fetchone() if id else None
        return row[0] if row else id

    def _source(self, entry: Entry) -> str | None:
        """Return the message that an item came from, if any."""
        sources = (id for id in entry.derived_from if kinds.kind_of(id) == kinds.MESSAGE)
        return self._now(next(sources, None))

    def _fact(self, snap: Snapshot, entry: Entry) -> dict[str, Any]:
        first, extra = first_of(snap, entry), entry.more
        return {
            "id": entry.id,
            "content": entry.body,
            "categories": dumps(list(extra.get("categories", ()))),
            "importance": extra.get("importance", 1.0),
            "access_count": uses(snap, entry.id),
            "created_at": iso(said_at(first)),
            "updated_at": None if first is entry else iso(entry.at),
            "expires_at": None if entry.expires == NEVER else iso(entry.expires),
            "source": extra.get("source", "agent"),
            "source_message_id": self._source(entry),
            "seq": entry.seq,
        }

    def _atom(self, entry: Entry) -> dict[str, Any]:
        extra = entry.more
        row = {
            name: extra.get(name, "") for name in ("subject", "action", "outcome", "consequences")
        }
        return row | {
            "id": entry.id,
            "confidence": extra.get("confidence", 1.0),
            "source": extra.get("source", "agent"),
            "source_message_id": self._source(entry),
            "created_at": iso(said_at(entry)),
            "seq": entry.seq,
        }

    def _links(self, snap: Snapshot, id: str) -> None:
        self.db.run("drop_links", {"id": id})
        for link in links(snap, id):
            row = {name: getattr(link, name) for name in ("cause", "effect", "type", "strength")}
            self.db.run("put_link", row | {"created_at": iso(link.at)})

    def _thread(self, snap: Snapshot, id: str) -> None:
        self.db.run("drop_thread", {"id": id})
        count, began, last = self.db.run("thread_ends", {"id": id}).fetchone()
        row = mailbox.thread(snap, None, id)
        if not count or row is None:
            return
        author, subject = self.db.run("thread_first", {"id": id}).fetchone()
        status = CLOSED if row.closed else ACTIVE if row.live else ARCHIVED
        self.db.run(
            "put_thread",
            {
                "id": id,
                "subject": row.subject or subject,
                "created_by": author,
                "created_at": began,
                "last_message_at": last,
                "message_count": count,
                "status": status,
                "tags": dumps(list(row.tags)),
            },
        )

    def embeddings(self, mark: str, cursor: int) -> str:
        """Add the vectors that came since a mark, for rows up to a cursor; add all anew if some
        were dropped. Return the new mark."""
        vectors = self.store.embeddings.vectors
        dropped, before = vectors.db.meta("dropped") or "0", json.loads(mark or "{}")
        if before.get("dropped") != dropped:
            self.db.run("clear_embeddings")
            before = {}
        reached: dict[str, int] = before.get("reached", {})
        for name, dimension, *_ in vectors.models():
            reached[name] = self._vectors(name, dimension, reached.get(name, 0), cursor)
        return dumps({"dropped": dropped, "reached": reached})

    def _vectors(self, name: str, dimension: int, last: int, cursor: int) -> int:
        """Add the vectors of one model. A text that was embedded in parts has the mean of their
        vectors."""
        vectors = self.store.embeddings.vectors
        model = vectors.model(name)
        if model is None:
            return last
        fresh = vectors.db.run("since", {"model": model.num, "num": last}).fetchall()
        by_text: dict[int, list[tuple[float, ...]]] = {}
        for num, seq, halves in fresh:
            if seq > cursor:
                break  # of what came meanwhile: the next time
            last = num
            by_text.setdefault(seq, []).append(unpack(f"<{dimension}e", halves))
        for seq, halves_by_part in by_text.items():
            item = self.db.run("item_of", {"seq": seq}).fetchone()
            if item is not None:
                mean = unit([sum(components) for components in zip(*halves_by_part, strict=True)])
                type, id, created_at = item
                self.db.run("put_embedding", _embedding(type, id, created_at, name, mean))
        return last

    def _log_vectors(self, snap: Snapshot, id: str) -> None:
        """Add the vectors that the log holds: they were imported and could not be computed
        again."""
        for record in snap.acts(None, id, 0, None):
            entry = snap.entry(id, 0)
            if record.kind == "vector" and entry is not None and entry.kind in _TYPE:
                fields = record.fields
                type = _TYPE[entry.kind] + (f".{fields['part']}" if fields["part"] else "")
                vector = array("f", b64decode(fields["values"]))
                row = _embedding(type, id, iso(said_at(entry)), fields["model"], vector)
                self.db.run("keep_embedding", row | {"id": f"log{row['id'][3:]}"})

    def _update_activity(self, snap: Snapshot, touched: Touched) -> None:
        """Update when agents last acted; write the whole row of new or redeclared agents."""
        for id, at in touched.seen.items():
            if (
                id not in touched.agents
                and not self.db.run("seen_agent", {"id": id, "at": iso(at)}).rowcount
            ):
                touched.agents[id] = None
        if touched.agents:
            self._agents(snap, touched.agents)

    def _agents(self, snap: Snapshot, ids: Iterable[str]) -> None:
        last_active = snap.last_active()
        for id in ids:
            agent = snap.declared.get(id)
            if agent is None:
                self.db.run("drop_agent", {"id": id})
                continue
            can = {"role": agent.role, "authority": agent.rank, "teams": list(agent.teams)}
            can |= {"read": list(agent.reads), "write": list(agent.writes)}
            last = iso(last_active[id]) if id in last_active else None
            row = {"id": id, "display_name": id, "last_seen_at": last, "capabilities": dumps(can)}
            self.db.run("put_agent", row)


def _standing(snap: Snapshot, id: str, now: int) -> Entry | None:
    """Return the item under an id, if it counts: neither replaced nor forgotten, neither waiting
    nor sealed."""
    entry = snap.entry(id, now)
    if entry is None or entry.staged or entry.kind == kinds.ENTRY or entry.scope in SEALED:
        return None
    return None if snap.hidden_until(entry.seq) else entry


def _embedding(
    type: str, id: str, created_at: str, model: str, vector: array[float]
) -> dict[str, Any]:
    model = model.removeprefix("ollama/")  # the document's own name of its model
    digest = sha256(f"{type} {id} {model}".encode())[:12]
    key = {"source_type": type, "source_id": id, "model": model, "created_at": created_at}
    return {"id": f"emb_{digest}", "embedding": vector.tobytes(), "dimension": len(vector), **key}
