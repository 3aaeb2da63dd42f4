"""Messages: from the index with their receipts, acknowledgements and reactions, and the fields of a
new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from synapse.index.questions import mailbox
from synapse.index.snapshot import Snapshot
from synapse.model import kinds
from synapse.model.entry import Entry
from synapse.model.message import ACTIVE, ARCHIVED, CLOSED, Message, Thread, attachment, said_at
from synapse.store import Store
from synapse.system.typed import Any

_BATCH = 500


def as_messages(store: Store, entries: Sequence[Entry]) -> list[Message]:
    """Return entries as messages: who read, acknowledged and answered them, and when they were
    first sent."""
    if not entries:
        return []
    messages: list[Message] = []
    with store.snapshot() as snap:
        for start in range(0, len(entries), _BATCH):
            batch = entries[start : start + _BATCH]
            marks = mailbox.marks(snap, [entry.seq for entry in batch])
            for entry in batch:
                first = first_of(snap, entry)
                updated = None if first is entry else entry.at
                marked = (
                    marks[name].get(entry.seq, ()) for name in ("receipts", "acks", "reactions")
                )
                messages.append(Message(entry, said_at(first), updated, *marked))
    return messages


def as_thread(row: mailbox.Row, first: Entry, last: Entry) -> Thread:
    """Return a thread, with its first and its last message."""
    status = CLOSED if row.closed else ACTIVE if row.live else ARCHIVED
    subject = row.subject or first.more.get("subject")
    times = said_at(first), said_at(last)
    return Thread(row.id, subject, first.author, *times, row.total, status, row.tags)


def first_of(snap: Snapshot, entry: Entry) -> Entry:
    """Return the first version of an item."""
    visited = {entry.id}
    while entry.replaces and entry.replaces[0] not in visited:
        older = snap.entry(entry.replaces[0], 0)
        if older is None:
            break
        visited.add(older.id)
        entry = older
    return entry


def everything(store: Store, thread: str | None = None) -> list[Message]:
    """Return every current message, archived ones too, oldest first; of one thread, or of all."""
    store.refresh()
    with store.snapshot() as snap:
        now = store.clock()
        if thread is not None:
            entries = mailbox.history(snap, None, thread, now, -1)
        else:
            entries = [
                entry
                for entry in snap.all(now)
                if entry.kind == kinds.MESSAGE and not snap.hidden_until(entry.seq)
            ]
        messages = as_messages(store, entries)
    return sorted(messages, key=lambda message: (message.created, message.entry.seq))


def fields_of(
    thread: str,
    parent: str | None,
    subject: str | None,
    priority: str,
    metadata: Mapping[str, Any] | None,
    attachments: Iterable[str | Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the fields that only a message has."""
    fields: dict[str, Any] = {
        "thread": thread,
        "parent": parent,
        "subject": subject,
        "urgency": priority,
    }
    return fields | {
        "metadata": metadata,
        "attachments": [attachment(reference) for reference in attachments],
    }
