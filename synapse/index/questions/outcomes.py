"""Questions about what became of entries: which lived, were superseded, were acted on. They are
asked for reputation; nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from synapse.index.snapshot import Snapshot
from synapse.model.agents import CONSOLIDATOR
from synapse.model.entry import NEVER
from synapse.model.records import Record
from synapse.system.typed import Any, NamedTuple


class Fact(NamedTuple):
    """Something that became of an entry at a time, by whose act, and the records that say so."""

    entry: str
    author: str
    at: int
    by: str
    records: tuple[int, ...]


def lived(snap: Snapshot, since: int, until: int) -> Iterator[Fact]:
    """Yield the entries whose time came to its end with nothing that was held against them; what a
    night filed away lived.
    """
    values = {"since": since, "until": min(until, NEVER - 1), "night": CONSOLIDATOR}
    for seq, id, author, at, head in snap.db.run("lived", values).fetchall():
        if _believed(json.loads(head)):
            yield Fact(id, author, at, "", (seq,))


def superseded(snap: Snapshot, since: int, until: int) -> Iterator[Fact]:
    """Yield the entries that another one took the place of before their time."""
    values = {"since": since, "until": until, "night": CONSOLIDATOR}
    for seq, id, author, at, by, successor, head in snap.db.run("superseded", values).fetchall():
        if _believed(json.loads(head)):
            yield Fact(id, author, at, by, (seq, successor))


def acted_on(snap: Snapshot, since: int, until: int) -> Iterator[Fact]:
    """Yield the critical entries that somebody resolved, acknowledged in so many words, or built
    upon; each with the first.
    """
    values = {"since": since, "until": until, "night": CONSOLIDATOR}
    facts: dict[str, Fact] = {}
    for fact in sorted(
        (*_acts(snap, values), *_citations(snap, values)), key=lambda fact: fact.records[-1]
    ):
        if fact.by != fact.author:
            facts.setdefault(fact.entry, fact)
    yield from facts.values()


def seen_by(snap: Snapshot, id: str, until: int) -> tuple[str, ...]:
    """Return the agents whose prompts an entry was in by a time."""
    return tuple(agent for (agent,) in snap.db.run("seen_by", {"id": id, "until": until}))


def reviews(snap: Snapshot) -> list[tuple[Record, bool]]:
    """Return the reviews of reputation, oldest first, each with whether it stands: an undo may have
    taken it back.
    """
    records: dict[int, Record] = {}
    stands: dict[int, bool] = {}
    for seq, at, kind, by, fields in snap.db.run("reviews"):
        record = Record(seq, at, kind, by, None, json.loads(fields))
        if kind == "review":
            records[seq], stands[seq] = record, True
        stands |= {int(number): stood for number, stood in record.fields.get("reviews", ())}
    return [(record, stands[seq]) for seq, record in records.items()]


def shifts(snap: Snapshot) -> Mapping[str, int]:
    """Return by how much the reviews that stand have moved each agent's authority."""
    total: dict[str, int] = {}
    for record, stands in reviews(snap):
        for agent, move in record.fields["moves"].items() if stands else ():
            total[agent] = total.get(agent, 0) + int(move)
    return total


def _acts(snap: Snapshot, values: Mapping[str, Any]) -> Iterator[Fact]:
    for seq, id, author, act, at, by, kind, fields, head in snap.db.run(
        "critical_acts", values
    ).fetchall():
        act_fields = json.loads(fields)
        acked = act_fields.get("state") == "acked" and act_fields.get("how") == "said so"
        if (kind == "resolve" or acked) and _believed(json.loads(head)):
            yield Fact(id, author, at, by, (seq, act))


def _citations(snap: Snapshot, values: Mapping[str, Any]) -> Iterator[Fact]:
    for successor, at, by, head in snap.db.run("citing", values).fetchall():
        header = json.loads(head)
        cited = {*header.get("related", ()), *header.get("derived_from", ())} - {
            *header.get("replaces", ())
        }
        for id in cited if _believed(header) else ():
            row = snap.db.run("critical", {"id": id}).fetchone()
            if row and row[0] < successor and _believed(json.loads(row[2])):
                yield Fact(id, row[1], at, by, (row[0], successor))


def _believed(head: Mapping[str, Any]) -> bool:
    return head.get("trust") != "unverified"
