"""The state that a plan is made from, read from a store. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from synapse import namespace as ns
from synapse.authority import is_merged
from synapse.consolidate.likeness import gist
from synapse.consolidate.plan import IDLE, State, is_escalation
from synapse.consolidate.room import ALL, OWN, PLACE, Room, Warned, over
from synapse.entry import Entry
from synapse.index import mailbox, unfiled
from synapse.index.query import Filter
from synapse.typed import TYPE_CHECKING
from synapse.workspace import CONSOLIDATOR, OPERATOR

if TYPE_CHECKING:
    from synapse.index.query import Query
    from synapse.store import Store

BLOCKERS = "blockers/*"


def gather(store: Store, now: int, floor: int = 0) -> State:
    """What a night at this moment may have to do with. Entries are compared only where something was written after
    `floor`: what an earlier night compared, it compared."""
    return outworn(store, now, floor)._replace(room=measure(store, now, floor))


def outworn(store: Store, now: int, floor: int = 0) -> State:
    """What a night may merge and archive."""
    store.fresh()
    query, cursor = store.index.query, store.index.horizon
    live = tuple(unfiled.comparable(query, now, floor, CONSOLIDATOR, lambda body: gist(body).words))
    past = unfiled.lapsed(query, now)
    return State(
        cursor=cursor,
        live=live,
        outdone=unfiled.outdone(query, now),
        lapsed=past,
        idle=mailbox.idle(query, now - IDLE),
        blockers=tuple(_blockers(store, past, now)),
        filed=frozenset(_filed(store, live, now)),
        spared=unfiled.brought_back(query),
        agents=tuple(map(store.standing, query.declared.values())),
    )


def crowded(store: Store, now: int, floor: int = 0) -> State:
    """What a night may have to make room for, when the rest of it is done."""
    store.fresh()
    room, spared = measure(store, now, floor), unfiled.brought_back(store.index.query)
    return State(cursor=store.index.horizon, spared=spared, room=room)


def measure(store: Store, now: int, floor: int = 0) -> Room:
    """How much room there is, and what takes it where there is too little. What is only told of is looked for in what
    was written after `floor`."""
    store.fresh()
    query, settings = store.index.query, store.settings
    weights = [weight for weight in unfiled.weights(query, now) if weight.shown and weight.namespace not in OWN]
    shown = tuple((weight.namespace, weight.shown) for weight in weights)
    full = [name for name, _, _ in over(shown, settings)]
    return Room(
        shown,
        tuple(row for row in _sized(query, now, full) if row.namespace not in OWN),
        tuple(_warnings(store, now)),
        unfiled.long(query, floor, settings.size("per_entry")),
        unfiled.busy(query, floor, (OPERATOR, CONSOLIDATOR)) if settings.quota else (),
    )


def _sized(query: Query, now: int, full: Collection[str]) -> Iterable[unfiled.Sized]:
    return unfiled.sized(query, now, ("*",) if ALL in full else tuple(full)) if full else ()


def _warnings(store: Store, now: int) -> Iterator[Warned]:
    wanted = Filter(namespaces=(PLACE,), author=CONSOLIDATOR, limit=None)
    for entry in store.index.query.page(None, wanted, now, store.index.horizon):
        if entry.trust != "unverified" and len(entry.tags) == 2:
            yield Warned(entry.id, entry.tags[1], entry.at)


def _blockers(store: Store, past: Iterable[unfiled.Lapsed], now: int) -> Iterator[tuple[Entry, Entry]]:
    """Critical blockers whose time ran out before anybody resolved or replaced them."""
    for each in past:
        if each.rank == 0 and ns.matches(BLOCKERS, each.namespace):
            entry = store.index.entry(each.id, now)
            fate = entry and store.index.query.fate(entry, now)
            if entry is not None and fate is not None and fate.reason == "expired":
                yield entry, _first(store, entry, now)


def _first(store: Store, entry: Entry, now: int) -> Entry:
    """The blocker that an escalation passes on."""
    while is_escalation(entry) and (source := store.index.entry(entry.derived_from[0], now)):
        entry = source
    return entry


def _filed(store: Store, live: Iterable[Entry], now: int) -> Iterator[str]:
    """The sources of merged entries that are filed away already."""
    for entry in live:
        for id in entry.derived_from if is_merged(entry) else ():
            source = store.index.entry(id, now)
            if source is None or source.archived:
                yield id
