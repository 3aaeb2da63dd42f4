"""Taking back what a night did: one record that brings back what was filed away and files away what was written.

An undo is an act like any other, and is taken back in the same way. The log only grows.
"""

from __future__ import annotations

from collections.abc import Sequence

from synapse.core import operators_alone
from synapse.errors import Conflict, NotFound
from synapse.index import deeds, unfiled
from synapse.records import Pending, Record, filings
from synapse.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.workspace import CONSOLIDATOR, OPERATOR

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store


class Undone(NamedTuple):
    """What was taken back, and what that did: the number of the undo, the entries that came back, those filed away, the
    reviews of reputation with whether they stand now."""

    what: str
    seq: int
    back: tuple[str, ...]
    away: tuple[str, ...]
    reviews: tuple[tuple[int, bool], ...] = ()


def undo(mem: Memory, what: str, *, once: str | None = None) -> Undone:
    """Take back an act (its number), a night (its date) or, with `last`, whatever was done last, be it an undo."""
    operators_alone("undo")
    store = mem.store
    store.fresh()
    acts = _named(store, what)
    moved: dict[str, bool] = {}
    for record in reversed(acts):
        moved |= {id: not away for id, away in _filed_by(record)}
    there = {id: store.index.whereabouts(id) for id in moved}
    away = tuple(id for id, goes in moved.items() if goes and there[id] == "live")
    back = tuple(id for id, goes in moved.items() if not goes and there[id] == "archived")
    stand = {record.seq: stands for record, stands in deeds.reviews(store.index.query)}
    turned = {seq: not stood for record in reversed(acts) for seq, stood in _reviewed(record)}
    reviews = tuple((seq, stands) for seq, stands in turned.items() if stand[seq] != stands)
    if not away and not back and not reviews:
        raise Conflict(f"nothing to undo: {what} did nothing that still stands")
    fields: dict[str, Any] = {
        "what": what,
        "acts": [record.seq for record in acts],
        "back": list(back),
        "away": list(away),
    }
    if reviews:
        fields["reviews"] = list(map(list, reviews))
    done = store.log.append(Pending("undo", OPERATOR, fields), once=once)
    store.index.catch_up()
    given = done.fields
    turned_back = tuple((seq, stands) for seq, stands in given.get("reviews", ()))
    return Undone(what, done.seq, tuple(given["back"]), tuple(given["away"]), turned_back)


def _named(store: Store, what: str) -> list[Record]:
    """The records of an act, a night, or the last of both."""
    acts = [*unfiled.written_by(store.index.query, CONSOLIDATOR, 0)]
    acts += [record for record in store.index.query.acts(OPERATOR, None, 0, None) if record.kind == "undo"]
    acts = sorted((record for record in acts if _took_effect(record)), key=lambda record: record.seq)
    if what == "last":
        found = acts[-1:] and (acts[-1:] if acts[-1].kind == "undo" else _of_night(acts, acts[-1].fields["night"]))
    elif what.isdigit():
        found = _with_made(acts, [record for record in acts if record.seq == int(what)])
    else:
        found = _of_night(acts, what)
    if not found:
        raise NotFound(f"there is no act and no night {what} to undo; `synapse audit` lists them", id=what)
    return found


def _of_night(acts: Sequence[Record], night: str) -> list[Record]:
    """The acts of a night, or of all runs of a day."""
    names = ((record, record.fields.get("night", "")) for record in acts)
    return [record for record, name in names if name == night or name.startswith(f"{night}T")]


def _with_made(acts: Sequence[Record], found: list[Record]) -> list[Record]:
    """An entry that was written and what was filed away into it are one act, by whichever number it is called."""
    named = {id for record in found for id in (record.id, *record.fields.get("heirs", ()))}
    wrote = {record.id: record for record in acts if record.id and record.id in named}
    filed = [record for record in acts if not wrote.keys().isdisjoint(record.fields.get("heirs", ()))]
    whole = {record.seq: record for record in (*found, *filed, *wrote.values())}
    return [whole[seq] for seq in sorted(whole)]


def _took_effect(record: Record) -> bool:
    """Whether it did anything to entries; what was staged did not, until it was approved."""
    return bool(_filed_by(record) or _reviewed(record)) and (record.kind != "entry" or record.id is not None)


def _reviewed(record: Record) -> list[tuple[int, bool]]:
    """The reviews that an act made, or turned: each with whether it stood from then on."""
    if record.kind == "review":
        return [(record.seq, True)]
    return [(seq, stands) for seq, stands in record.fields.get("reviews", ())]


def _filed_by(record: Record) -> list[tuple[str, bool]]:
    """What an act did to entries: each with whether it took it away. An entry that was written came."""
    if record.kind == "entry":
        return [(record.id or "", False)]
    return filings(record)
