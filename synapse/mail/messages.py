"""Messages from the index, with their receipts, acknowledgements and reactions."""

from __future__ import annotations

from collections.abc import Sequence

from synapse.index import mailbox
from synapse.model import kinds
from synapse.model.entry import Entry
from synapse.model.message import Message, said_at
from synapse.store import Store

_BATCH = 500


def as_messages(store: Store, entries: Sequence[Entry]) -> list[Message]:
    """Return entries as messages: who read, acknowledged and answered them, and when they were
    first sent."""
    if not entries:
        return []
    store.index.catch_up()
    messages: list[Message] = []
    for start in range(0, len(entries), _BATCH):
        batch = entries[start : start + _BATCH]
        marks = mailbox.marks(store.index.query, [entry.seq for entry in batch])
        for entry in batch:
            first = first_of(store, entry)
            updated = None if first is entry else entry.at
            marked = (
                marks[name].get(entry.seq, ())
                for name in ("receipts", "acks", "reactions")
            )
            messages.append(Message(entry, said_at(first), updated, *marked))
    return messages


def first_of(store: Store, entry: Entry) -> Entry:
    """Return the first version of an item."""
    visited = {entry.id}
    while entry.replaces and entry.replaces[0] not in visited:
        older = store.index.query.entry(entry.replaces[0], 0)
        if older is None:
            break
        visited.add(older.id)
        entry = older
    return entry


def everything(store: Store, thread: str | None = None) -> list[Message]:
    """Return every current message, archived ones too, oldest first; of one thread, or of all."""
    store.fresh()
    query, cursor = store.index.query, store.index.cursor()
    if thread is not None:
        entries = mailbox.history(query, None, thread, store.clock(), cursor, -1)
    else:
        every = query.all(cursor, store.clock())
        entries = [
            entry
            for entry in every
            if entry.kind == kinds.MESSAGE and _is_current(store, entry)
        ]
    return sorted(
        as_messages(store, entries),
        key=lambda message: (message.created, message.entry.seq),
    )


def _is_current(store: Store, entry: Entry) -> bool:
    (until,) = store.index.query.db.run("hidden", {"seq": entry.seq}).fetchone()
    return not until
