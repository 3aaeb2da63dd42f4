"""Messages as the index has them, with what became of each; whoever may see them."""

from __future__ import annotations

from collections.abc import Sequence

from synapse.index import mailbox
from synapse.model import kinds
from synapse.model.entry import Entry
from synapse.model.message import Message, said_at
from synapse.store import Store

_AT_ONCE = 500


def told(store: Store, entries: Sequence[Entry]) -> list[Message]:
    """Entries that are messages, with who read, acknowledged and answered them, and when they were
    first said.
    """
    if not entries:
        return []
    store.index.catch_up()
    found: list[Message] = []
    for start in range(0, len(entries), _AT_ONCE):
        part = entries[start : start + _AT_ONCE]
        marks = mailbox.marks(store.index.query, [entry.seq for entry in part])
        for entry in part:
            first = first_of(store, entry)
            updated = None if first is entry else entry.at
            each = (
                marks[name].get(entry.seq, ())
                for name in ("receipts", "acks", "reactions")
            )
            found.append(Message(entry, said_at(first), updated, *each))
    return found


def first_of(store: Store, entry: Entry) -> Entry:
    """The first version of an item."""
    seen = {entry.id}
    while entry.replaces and entry.replaces[0] not in seen:
        older = store.index.query.entry(entry.replaces[0], 0)
        if older is None:
            break
        seen.add(older.id)
        entry = older
    return entry


def everything(store: Store, thread: str | None = None) -> list[Message]:
    """Every message that was not replaced, filed away or not, the oldest first; of one thread, or
    of all.
    """
    store.fresh()
    query, cursor = store.index.query, store.index.cursor()
    if thread is not None:
        entries = mailbox.history(query, None, thread, store.clock(), cursor, -1)
    else:
        every = query.all(cursor, store.clock())
        entries = [
            entry
            for entry in every
            if entry.kind == kinds.MESSAGE and _stands(store, entry)
        ]
    return sorted(
        told(store, entries), key=lambda message: (message.created, message.entry.seq)
    )


def _stands(store: Store, entry: Entry) -> bool:
    (until,) = store.index.query.db.run("hidden", {"seq": entry.seq}).fetchone()
    return not until
