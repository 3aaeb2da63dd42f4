"""The state that a plan is made from, read from a store. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from synapse.authority import is_merged
from synapse.consolidate.limits import ALL, OWN, PLACE, LimitWarning, Room, over_limit
from synapse.consolidate.plan import IDLE, State, is_escalation
from synapse.consolidate.similarity import fingerprint
from synapse.index.questions import mailbox, maintenance
from synapse.index.snapshot import Filter
from synapse.model import namespace as ns
from synapse.model.agents import CONSOLIDATOR, OPERATOR
from synapse.model.entry import Entry
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.snapshot import Snapshot
    from synapse.store import Store

BLOCKERS = "blockers/*"
# entries that are compared at one time: a night may find any number that say the same
AT_ONCE = 5_000


def gather(store: Store, now: int, floor: int = 0) -> State:
    """Return the state for a run at this moment. Entries are compared only where something was
    written after `floor`: an earlier run compared the rest."""
    first, *later = plan_states(store, now, floor)
    live = [group for state in (first, *later) for group in state.live]
    return first._replace(live=live, room=measure(store, now, floor))


def plan_states(store: Store, now: int, floor: int = 0) -> Iterator[State]:
    """Yield what a run may merge and archive. The first state has all of it, but only as many of
    the entries to compare as are to be held at once; each later state has the next of those."""
    store.refresh()
    with store.snapshot() as snap:
        groups, own = maintenance.comparable(
            snap, now, floor, CONSOLIDATOR, lambda body: fingerprint(body).words
        )
        unfinished = dict(_unfinished_merges(snap, own, now))
        busy, past = {*unfinished, *unfinished.values()}, maintenance.lapsed(snap, now)
        portions = _load_groups(store, groups, busy, now)
        spared = maintenance.brought_back(snap)
        first = State(
            cursor=snap.cursor,
            live=next(portions, ()),
            unfinished_merges=tuple(unfinished.items()),
            superseded=maintenance.superseded(snap, now),
            lapsed=past,
            idle=mailbox.idle(snap, now - IDLE),
            blockers=tuple(_blockers(snap, past, now)),
            spared=spared,
            agents=tuple(map(store.agents.standing, snap.declared.values())),
        )
    yield first
    for live in portions:
        yield State(cursor=first.cursor, live=live, spared=spared)


def _load_groups(
    store: Store, groups: Iterable[list[int]], busy: Collection[str], now: int
) -> Iterator[list[list[Entry]]]:
    """Yield the groups at these places with their texts, in batches, without the entries that are
    part of a begun merge."""
    for batch in _batches(groups):
        places = [seq for group in batch for seq in group]
        with store.snapshot(late=True) as snap:
            entries = list(maintenance.entries(snap, places, now))
        by_place = {entry.seq: entry for entry in entries if entry.id not in busy}
        yield [[by_place[seq] for seq in group if seq in by_place] for group in batch]


def _batches(groups: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    batch, size = list[list[int]](), 0
    for group in groups:
        if batch and size + len(group) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group)
    if batch:
        yield batch


def room_state(store: Store, now: int, floor: int = 0) -> State:
    """Return the state of the room, for when the rest of the run is done."""
    store.refresh()
    with store.snapshot() as snap:
        room, spared = measure(store, now, floor), maintenance.brought_back(snap)
        return State(cursor=snap.cursor, spared=spared, room=room)


def measure(store: Store, now: int, floor: int = 0, *, by_entry: bool = True) -> Room:
    """Return how much room is taken, and by what where it is too much, unless nobody asks for that.
    Remarks go by what was written after `floor`."""
    settings = store.settings
    store.refresh()
    with store.snapshot() as snap:
        weights = [
            weight
            for weight in maintenance.weights(snap, now)
            if weight.shown and weight.namespace not in OWN
        ]
        sizes = tuple((weight.namespace, weight.shown) for weight in weights)
        full = [name for name, _, _ in over_limit(sizes, settings)]
        globs = ("*",) if ALL in full else tuple(full)
        sized = maintenance.sized(snap, now, globs) if full and by_entry else ()
        authors = (OPERATOR, CONSOLIDATOR)
        return Room(
            sizes,
            tuple(row for row in sized if row.namespace not in OWN),
            tuple(_warnings(snap, now)),
            maintenance.long(snap, floor, settings.size("per_entry")),
            maintenance.busy(snap, floor, authors) if settings.quota else (),
        )


def _warnings(snap: Snapshot, now: int) -> Iterator[LimitWarning]:
    warnings = Filter(namespaces=(PLACE,), author=CONSOLIDATOR, limit=None)
    for entry in snap.page(None, warnings, now):
        if entry.trust != "unverified" and len(entry.tags) == 2:
            yield LimitWarning(entry.id, entry.tags[1], entry.at)


def _blockers(
    snap: Snapshot, past: Iterable[maintenance.Lapsed], now: int
) -> Iterator[tuple[Entry, Entry]]:
    """Yield critical blockers that expired before anybody resolved or replaced them, each with the
    first blocker."""
    for row in past:
        if row.rank == 0 and ns.matches(BLOCKERS, row.namespace):
            entry = snap.entry(row.id, now)
            fate = entry and snap.fate(entry, now)
            if entry is not None and fate is not None and fate.reason == "expired":
                yield entry, _first_blocker(snap, entry, now)


def _first_blocker(snap: Snapshot, entry: Entry, now: int) -> Entry:
    """Return the blocker that an escalation passes on."""
    while is_escalation(entry) and (source := snap.entry(entry.derived_from[0], now)):
        entry = source
    return entry


def _unfinished_merges(
    snap: Snapshot, places: Sequence[int], now: int
) -> Iterator[tuple[str, str]]:
    """Yield the sources of merged entries that are not filed away, each with the merged one: merges
    that were begun."""
    for entry in maintenance.entries(snap, places, now):
        for id in entry.derived_from if is_merged(entry) else ():
            if snap.whereabouts(id) == "live":
                yield id, entry.id
