"""The state that a plan is made from, read from a store. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from synapse import namespace as ns
from synapse.authority import is_merged
from synapse.consolidate.plan import State, is_escalation
from synapse.entry import Entry
from synapse.index import unfiled
from synapse.typed import TYPE_CHECKING
from synapse.workspace import CONSOLIDATOR

if TYPE_CHECKING:
    from synapse.store import Store

BLOCKERS = "blockers/*"


def gather(store: Store, now: int, floor: int = 0) -> State:
    """What a night at this moment may have to do with. Entries are compared only where something was written after
    `floor`: what an earlier night compared, it compared."""
    store.fresh()
    query, cursor = store.index.query, store.index.horizon
    live = tuple(unfiled.comparable(query, now, floor, CONSOLIDATOR))
    past = unfiled.lapsed(query, now)
    return State(
        cursor=cursor,
        live=live,
        outdone=unfiled.outdone(query, now),
        lapsed=past,
        blockers=tuple(_blockers(store, past, now)),
        filed=frozenset(_filed(store, live, now)),
        spared=unfiled.brought_back(query),
        agents=tuple(query.declared.values()),
    )


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
