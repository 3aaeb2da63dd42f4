"""Messages as the index has them, with what became of each; whoever may see them."""

from __future__ import annotations

from collections.abc import Sequence

from synapse.index import mailbox
from synapse.index.snapshot import Snapshot
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
    found: list[Message] = []
    with store.snapshot() as snap:
        for start in range(0, len(entries), _AT_ONCE):
            part = entries[start : start + _AT_ONCE]
            marks = mailbox.marks(snap, [entry.seq for entry in part])
            for entry in part:
                first = first_of(snap, entry)
                updated = None if first is entry else entry.at
                each = (
                    marks[name].get(entry.seq, ())
                    for name in ("receipts", "acks", "reactions")
                )
                found.append(Message(entry, said_at(first), updated, *each))
    return found


def first_of(snap: Snapshot, entry: Entry) -> Entry:
    """The first version of an item."""
    seen = {entry.id}
    while entry.replaces and entry.replaces[0] not in seen:
        older = snap.entry(entry.replaces[0], 0)
        if older is None:
            break
        seen.add(older.id)
        entry = older
    return entry


def everything(store: Store, thread: str | None = None) -> list[Message]:
    """Every message that was not replaced, filed away or not, the oldest first; of one thread, or
    of all.
    """
    with store.snapshot(look=True) as snap:
        now = store.clock()
        if thread is not None:
            entries = mailbox.history(snap, None, thread, now, -1)
        else:
            entries = [
                entry
                for entry in snap.all(now)
                if entry.kind == kinds.MESSAGE and not snap.hidden_until(entry.seq)
            ]
        messages = told(store, entries)
    return sorted(messages, key=lambda message: (message.created, message.entry.seq))
