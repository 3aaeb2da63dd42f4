"""What is tainted, as rows: each record that taints is one more reason that hides an entry, above
all others, and what is made of such an entry has the same reasons. Called by the projector alone.
"""

from __future__ import annotations

import json

from synapse.index.database import Database
from synapse.index.derive.entries import sources_in
from synapse.model.entry import NEVER, TAINTED, Entry
from synapse.model.records import Record


def sources_of(entry: Entry) -> tuple[str, ...]:
    """Return the entries that an entry says it is made of."""
    if not entry.derived_from and not entry.more:
        return ()
    return (*entry.derived_from, *entry.more.get("cites", ()))


def inherit(db: Database, entry: Entry, seq: int) -> list[int]:
    """Taint an entry at this place that is made of one that is tainted, and those that named it
    before it came. Return the places of those that these had hidden, and that are shown again.
    """
    late: list[int] = []
    waiting = [(seq, entry.id, sources_of(entry))]
    while waiting:
        place, id, sources = waiting.pop()
        at = {"seq": place, "never": NEVER}
        changes = [db.run("taint_as_source", at | {"id": source}) for source in sources]
        if not any(cursor.rowcount > 0 for cursor in changes):
            continue
        db.run("weigh", at)
        for earlier, name, head in db.run("naming", {"id": f'"{id}"'}).fetchall():
            named = sources_in(json.loads(head))
            if id in named:
                late.append(earlier)
                waiting.append((earlier, name, named))
    hiders = {
        row[0] for place in late for row in db.run("tainters", {"seq": place, "never": NEVER})
    }
    return [place for hider in sorted(hiders) for place in _settle(db, hider)]


def taint(db: Database, record: Record) -> list[int]:
    """Hide the entries that a record taints. Return the places of those that they hid, and that are
    shown again.
    """
    db.many("taint", [(record.seq, TAINTED, id) for id in record.fields["ids"]])
    return _settle(db, record.seq)


def _settle(db: Database, hider: int) -> list[int]:
    """Weigh anew what a record that taints hides, and what that had hidden. Return the places of
    those that are shown again.
    """
    at = {"seq": hider, "never": NEVER}
    for name in ("end_disputes_of", "weigh_below", "weigh_second"):
        db.run(name, at)
    return [seq for (seq,) in db.run("released", at).fetchall()]


def untaint(db: Database, record: Record) -> list[int]:
    """Lift what hides the entries of a record. Return the places of those that took effect."""
    places = []
    for id in record.fields["ids"]:
        db.run("untaint", {"id": id, "never": NEVER})
        row = db.run("id_of", {"id": id}).fetchone()
        if row and row[1] is not None:
            places.append(int(row[1]))
    return places


def released_by(db: Database, seq: int) -> list[int]:
    """Return the places of the entries that this one hid, and that are shown."""
    rows = db.run("released_by", {"seq": seq, "never": NEVER})
    return [number for (number,) in rows.fetchall()]
