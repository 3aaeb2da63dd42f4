"""What a night asks of the projection: what is outdone, lapsed, comparable, and what was brought back. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from synapse.entry import NEVER, Entry
from synapse.index.query import Query
from synapse.records import Record, filings
from synapse.typed import NamedTuple


class Outdone(NamedTuple):
    """An entry that another one, or an act, took the place of, and that cannot come back by itself."""

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


def outdone(query: Query, now: int) -> tuple[Outdone, ...]:
    return tuple(Outdone(*row[:3]) for row in query.db.run("outdone", {"now": now}))


def lapsed(query: Query, now: int) -> tuple[Lapsed, ...]:
    return tuple(Lapsed(*row) for row in query.db.run("lapsed", {"now": now, "never": NEVER}))


def comparable(query: Query, now: int, floor: int, own: str) -> Iterator[Entry]:
    """The live entries of the namespaces in which anybody but this author wrote after a place in the log."""
    rows = query.db.run("comparable", {"now": now, "floor": floor, "own": own}).fetchall()
    for start in range(0, len(rows), 500):
        yield from query.load(rows[start : start + 500], now, query.reach(None))


def brought_back(query: Query) -> frozenset[tuple[str, str]]:
    """Entries with the phase that filed them away, where somebody brought them back from it."""
    acts = _filing_acts(query.db.run("brought_back"))
    ids = {id for act in acts for id, away in filings(act) if not away}
    return frozenset((id, phase) for id in ids for phase in _undone(query, id))


def _undone(query: Query, id: str) -> Iterator[str]:
    phase = ""
    for act in _filing_acts(query.db.run("filings_of", {"id": id})):
        if dict(filings(act))[id]:
            phase = act.fields.get("phase", "")
        elif phase:
            yield phase


def _filing_acts(rows: Iterable[tuple[int, str, str]]) -> list[Record]:
    return [Record(seq, 0, kind, "", None, json.loads(fields)) for seq, kind, fields in rows]


def weights(query: Query) -> tuple[Weight, ...]:
    return tuple(Weight(*row) for row in query.db.run("weights"))


def written_by(query: Query, author: str, floor: int) -> list[Record]:
    """What an agent wrote and did after a place in the log, oldest first."""
    rows = query.db.run("of_night", {"by": author, "floor": floor})
    return [Record(seq, at, kind, by, id, json.loads(fields)) for seq, at, kind, by, id, fields in rows]


def nights(query: Query) -> list[Record]:
    """What was noted of nightly jobs, oldest first."""
    rows = query.db.run("nights")
    return [Record(seq, at, "night", by, None, json.loads(fields)) for seq, at, by, fields in rows]


def written_since(query: Query, floor: int, own: str) -> int:
    """How many entries anybody but this author wrote after a place in the log."""
    return int(query.db.run("written_since", {"floor": floor, "own": own}).fetchone()[0])


def disputed(query: Query, now: int) -> int:
    """How many live entries are in open dispute."""
    return int(query.db.run("in_dispute_now", {"now": now}).fetchone()[0])
