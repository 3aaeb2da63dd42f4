"""Questions of nightly maintenance: what is superseded, lapsed or comparable, and what was brought
back. Each takes a snapshot; nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from synapse.index.derive.entries import read_entry
from synapse.index.snapshot import Snapshot
from synapse.model.agents import OPERATOR
from synapse.model.clock import DAY, day
from synapse.model.entry import NEVER, Entry
from synapse.model.records import Record, filings
from synapse.system.typed import NamedTuple

_AT_ONCE = 500


class Superseded(NamedTuple):
    """An entry that another one, or an act, took the place of, and that cannot come back by
    itself.
    """

    id: str
    reason: str
    by: str


class Lapsed(NamedTuple):
    """An entry whose time is up."""

    seq: int
    id: str
    rank: int
    namespace: str


class Weight(NamedTuple):
    """How much of a namespace is not filed away."""

    namespace: str
    entries: int
    bytes: int
    shown: int  # bytes of what is neither hidden nor past its time


class Sized(NamedTuple):
    """An entry that is shown, by what decides how long it stays where there is too little room.
    `uses` is how many prompts of others it was in, `stays` that it stands in a dispute, or holds
    back what it outranked.
    """

    seq: int
    id: str
    namespace: str
    rank: int
    at: int
    bytes: int
    uses: int
    stays: bool


class Busy(NamedTuple):
    """How many entries an agent wrote on a day, by UTC."""

    author: str
    date: str
    entries: int


def superseded(snap: Snapshot, now: int) -> tuple[Superseded, ...]:
    return tuple(Superseded(*row[:3]) for row in snap.db.run("outdone", {"now": now}))


def lapsed(snap: Snapshot, now: int) -> tuple[Lapsed, ...]:
    return tuple(Lapsed(*row) for row in snap.db.run("lapsed", {"now": now, "never": NEVER}))


def comparable(
    snap: Snapshot, now: int, floor: int, own: str, fingerprint: Callable[[str], object]
) -> tuple[list[list[int]], list[int]]:
    """Return the places of the live entries that may say the same, those that may together, in the
    namespaces in which anybody but this author wrote after a place in the log; and of all of this
    author's own there, and what it wrote since. No more is kept of an entry than its place, or two
    numbers: most are like no other.
    """
    first, alike, its = dict[int, int](), dict[int, list[int]](), list[int]()
    for seq, nid, prio, audience, mine, body in snap.db.run(
        "comparable", {"now": now, "floor": floor, "own": own}
    ):
        key = hash((nid, prio, audience, fingerprint(body)))
        before = first.setdefault(key, seq)
        if before != seq:
            alike.setdefault(key, [before]).append(seq)
        if mine:
            its.append(seq)
    return sorted(alike.values()), its


def entries(snap: Snapshot, places: Sequence[int], now: int) -> Iterator[Entry]:
    """Yield the entries at these places, some at a time."""
    for start in range(0, len(places), _AT_ONCE):
        rows = snap.db.run("places", seqs=places[start : start + _AT_ONCE]).fetchall()
        yield from snap.load(rows, now, snap.names.reach(None))


def mergeable(snap: Snapshot, now: int, floor: int, own: str, limit: int) -> list[Entry]:
    """Return the newest live entries of the namespaces in which anybody but this author wrote after
    a place in the log.
    """
    values = {"now": now, "floor": floor, "own": own, "limit": limit}
    return snap.load(snap.db.run("mergeable", values).fetchall(), now, snap.names.reach(None))


def brought_back(snap: Snapshot) -> frozenset[tuple[str, str]]:
    """Return entries that were brought back, each with the phase that had filed it away."""
    acts = _filing_acts(snap.db.run("brought_back"))
    ids = {id for act in acts for id, away in filings(act) if not away}
    return frozenset((id, phase) for id in ids for phase in _undone(snap, id))


def _undone(snap: Snapshot, id: str) -> Iterator[str]:
    phase = ""
    for act in _filing_acts(snap.db.run("filings_of", {"id": id})):
        moved = dict(filings(act))
        if id not in moved:
            continue  # an undo that only shows it again
        if moved[id]:
            phase = act.fields.get("phase", "")
        elif phase:
            yield phase


def last_filing(snap: Snapshot, id: str) -> Record | None:
    """Return the last act that filed this entry away or brought it back, None where there is
    none.
    """
    rows = snap.db.run("filings_of", {"id": id}).fetchall()
    return next((act for act in reversed(_filing_acts(rows)) if id in dict(filings(act))), None)


def act(snap: Snapshot, seq: int) -> Record | None:
    """Return the record with this number as the index has it, None where there is none."""
    return next(_records(snap.db.run("act_of", {"seq": seq})), None)


def approvals(snap: Snapshot, id: str) -> list[Record]:
    """Return the approvals of an entry that waited for review."""
    return [*_records(snap.db.run("approvals_of", {"id": id}))]


def last_ruling(snap: Snapshot, by: str) -> Record | None:
    """Return the newest ruling or own entry of an agent; for the operator, the newest ruling of
    anybody, and among entries those of its own and of the nights.
    """
    values = {"by": by, "all": by == OPERATOR}
    return next(_records(snap.db.run("last_ruling", values)), None)


def held_by(snap: Snapshot, seq: int, *, lifted: bool) -> list[str]:
    """Return the entries that a record hides, or, with `lifted`, would hide had it not been taken
    back.
    """
    rows = snap.db.run("held_by", {"seq": seq, "lifted": int(lifted), "never": NEVER})
    return [id for _, id, for_good, _ in rows if for_good]


def _records(rows: Iterable[tuple[int, int, str, str, str | None, str]]) -> Iterator[Record]:
    for seq, at, kind, by, id, fields in rows:
        yield Record(seq, at, kind, by, id, json.loads(fields))


def _filing_acts(rows: Iterable[tuple[int, str, str, str]]) -> list[Record]:
    return [Record(seq, 0, kind, by, None, json.loads(fields)) for seq, kind, fields, by in rows]


def weights(snap: Snapshot, now: int) -> tuple[Weight, ...]:
    """Return how much there is of each namespace that something stands in, in the order of their
    names. Summed up here: SQLite would sort all entries for it.
    """
    sums: dict[int, tuple[int, int, int]] = {}
    for nid, size, live in snap.db.run("weights", {"now": now}):
        entries, total, visible = sums.get(nid, (0, 0, 0))
        sums[nid] = entries + 1, total + size, visible + size * live
    names = snap.db.run("namespaces") if sums else ()
    return tuple(sorted(Weight(name, *sums[nid]) for nid, name in names if nid in sums))


def counts_by_author(snap: Snapshot, now: int) -> dict[str, int]:
    """Return how many entries of each author are shown now, the busiest first; mail left out."""
    return dict(snap.db.run("counts_by_author", {"now": now}).fetchall())


def sized(snap: Snapshot, now: int, globs: tuple[str, ...]) -> tuple[Sized, ...]:
    """Return the entries that are shown in these namespaces. What is counted of their use is what
    prompts' receipts name.
    """
    within = snap.names.covered(globs)
    rows = snap.db.run("sized", {"now": now, "never": NEVER}, within=within)
    return tuple(Sized(*row) for row in rows)


def long(snap: Snapshot, floor: int, size: int | None) -> tuple[tuple[str, int], ...]:
    """Return live entries longer than a size that came after a place in the log."""
    return () if size is None else tuple(snap.db.run("long", {"floor": floor, "size": size}))


def busy(snap: Snapshot, floor: int, besides: tuple[str, ...]) -> tuple[Busy, ...]:
    """Return who wrote how much on each day from that of a place in the log on."""
    row = snap.db.run("received", {"seq": floor}).fetchone()
    since = row[0] // DAY * DAY if row and row[0] else 0
    rows = snap.db.run("busy", {"at": since, "day": DAY})
    return tuple(
        Busy(author, day(date * DAY), count)
        for author, date, count in rows
        if author not in besides
    )


def written_by(snap: Snapshot, author: str, floor: int) -> list[Record]:
    """Return what an agent wrote and did after a place in the log, oldest first."""
    rows = snap.db.run("of_night", {"by": author, "floor": floor})
    return [*_records(rows)]


def acts_since(snap: Snapshot, since: int) -> Iterator[tuple[Record, Entry | None]]:
    """Yield all that was done since this microsecond, oldest first; with the entry where one took
    effect at once.
    """
    for seq, at, kind, by, id, fields, body in snap.db.run(
        "told", {"floor": snap.ceiling(since), "at": since}
    ):
        entry = None if body is None else read_entry(id, fields, body, seq, at)
        yield Record(seq, at, kind, by, id, json.loads(fields)), entry


def nightly_records(snap: Snapshot) -> list[Record]:
    """Return what was noted of nightly jobs, oldest first."""
    rows = snap.db.run("nights")
    return [Record(seq, at, "night", by, None, json.loads(fields)) for seq, at, by, fields in rows]


def written_since(snap: Snapshot, floor: int, own: str) -> int:
    """Return how many entries anybody but this author wrote after a place in the log."""
    return int(snap.db.run("written_since", {"floor": floor, "own": own}).fetchone()[0])


def disputed(snap: Snapshot, now: int) -> int:
    """Return how many live entries are in open dispute."""
    return int(snap.db.run("in_dispute_now", {"now": now}).fetchone()[0])
