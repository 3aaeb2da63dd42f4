"""A night: the right to run it, once for each local date, and the run itself, phase by phase.

The right is a lease in the log, taken by an append under its lock: of any number that ask, one gets
it. A dead leader's lease lapses, and the next one goes on from the phase that was reached; should
the dead wake, nothing that it writes is taken. Nothing here knows when a night is due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from synapse.consolidate import lease, metrics, pages
from synapse.consolidate.acts import Act
from synapse.consolidate.apply import Done, carry
from synapse.consolidate.limits import TOLD
from synapse.consolidate.limits import remarks as remarked
from synapse.consolidate.plan import PHASES, State, plan, unended
from synapse.consolidate.reviews import review
from synapse.consolidate.state import crowded, measure, outworn
from synapse.core import operators_alone
from synapse.errors import Conflict, InvalidQuery
from synapse.index import maintenance
from synapse.model.agents import CONSOLIDATOR
from synapse.model.clock import seconds
from synapse.model.entry import SECOND
from synapse.model.records import Guard, Pending, Record, epoch_is
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store

LEASE = 30 * 60 * SECOND  # longer than two machines' clocks may differ
JOB = "night"

OnPhase = Callable[[str], object]
OnAct = Callable[[int, int], object]


def _unwatched(done: int, of: int) -> None:
    """Nobody watches."""


class Claim(NamedTuple):
    """The right to run a job for a local date. `epoch` counts those who had it; `phase` is what the
    one before had reached. A run by hand leaves the job undone, unless it was `done` before.
    """

    job: str
    date: str
    epoch: int
    until: int
    phase: str | None = None
    by_hand: bool = False
    done: bool = False

    @property
    def key(self) -> str:
        return f"{self.job}:{self.date}"

    @property
    def fence(self) -> Guard:
        """Holds as long as nobody else has taken the job over."""
        return epoch_is(self.key, self.epoch)


class Night(NamedTuple):
    """What a night did. `ran` is false where another had, or has, the right to run it."""

    date: str
    ran: bool
    acts: tuple[Done, ...] = ()
    remarks: tuple[str, ...] = ()


def claim(
    mem: Memory, job: str, local_date: str, now: int, *, again: bool = False
) -> Claim | None:
    """The right to run a job for this date, or None: somebody is at it, or it is done. Whoever has
    it says `finish` at the end. `again` is for a run by hand: it may come after the job is done,
    and does not stand for it.
    """
    operators_alone(f"run {job}")
    store, key = mem.store, f"{job}:{date_of(local_date)}"
    with store.snapshot() as snap:
        records = snap.keyed(key)
    last = records[-1].fields if records else {}
    epoch = int(last.get("epoch", 0)) + 1
    phase = last.get("phase") if last.get("state") == "running" and not again else None
    right = Claim(
        job, local_date, epoch, now + LEASE, phase, again, last.get("state") == "done"
    )
    is_dead = lease.gone(store, key, last)
    if not lease.hold(store, key, epoch):
        return None
    try:
        store.log.append(
            _running(right, phase), unless=vacant(key, epoch, now, again, is_dead)
        )
    except BaseException as error:
        lease.let_go(store, key, epoch)
        if isinstance(error, Conflict):
            return None
        raise
    if last.get("state") == "running":
        lease.bury(store, key, last)
    return right


def reach(mem: Memory, right: Claim, phase: str, now: int) -> Claim:
    """Note that a phase begins, and hold the job for longer; Conflict where another has taken it
    over.
    """
    right = right._replace(phase=phase, until=now + LEASE)
    mem.store.log.append(_running(right, phase), unless=right.fence)
    return right


def finish(mem: Memory, right: Claim, **outcome: object) -> None:
    """Say that the run is over; `told` is what came of it."""
    state = "left" if right.by_hand and not right.done else "done"
    fields = {
        "job": right.job,
        "date": right.date,
        "epoch": right.epoch,
        "state": state,
    } | outcome
    mem.store.log.append(
        Pending("night", CONSOLIDATOR, fields, key=right.key), unless=right.fence
    )
    lease.let_go(mem.store, right.key, right.epoch)


def lapsed(store: Store, key: str, last: Mapping[str, Any], now: int) -> bool:
    """Whether nobody is at a job any more, by its last record: its lease is over, or its process is
    gone from here.
    """
    return bool(last["until"] <= now) or lease.gone(store, key, last)


def night(
    mem: Memory,
    local_date: str,
    now: int,
    on_phase: OnPhase | None = None,
    on_act: OnAct = _unwatched,
) -> Night:
    """Run the night of a local date, or go on with one whose leader died. Where somebody else has
    the right to, or it is done, nothing happens. `on_phase` is told each phase as it begins,
    `on_act` how many acts of it are done, and of how many.
    """
    right = claim(mem, JOB, local_date, now)
    return (
        Night(local_date, ran=False)
        if right is None
        else run(mem, right, now, on_phase, on_act=on_act)
    )


def run(
    mem: Memory,
    right: Claim,
    now: int,
    on_phase: OnPhase | None = None,
    phases: Collection[str] = PHASES,
    on_act: OnAct = _unwatched,
) -> Night:
    """Carry out these phases by a right that one has; where that fails, another may go on at once.
    What a run by hand does goes by its time of day, too.
    """
    try:
        return _run(mem, right, now, on_phase, phases, on_act)
    except BaseException:
        lease.let_go(mem.store, right.key, right.epoch, over=False)
        raise


def _run(
    mem: Memory,
    right: Claim,
    now: int,
    on_phase: OnPhase | None,
    phases: Collection[str],
    on_act: OnAct,
) -> Night:
    name = f"{right.date}T{seconds(now)[11:19]}" if right.by_hand else right.date
    store, floor, done = mem.store, looked_until(mem.store), list[Done]()
    portions = outworn(store, now, floor)
    todo = plan(next(portions), now, store.settings, set(phases) - {"enforce"})
    with store.snapshot() as snap:
        before, looked = maintenance.weights(snap, now), todo.cursor
        written = maintenance.written_since(snap, floor, CONSOLIDATOR)
    remarks = tuple[str, ...]()
    for phase in PHASES[PHASES.index(right.phase or PHASES[0]) :]:
        if phase in phases:
            right = reach(mem, right, phase, now)
            if on_phase is not None:
                on_phase(phase)
            if (
                phase == "enforce"
            ):  # how much there is only shows when the rest is filed away
                todo = plan(crowded(store, now, floor), now, store.settings, (phase,))
                remarks = todo.remarks
            acts = todo.phase(phase)
            for portion in (
                _merges(store, acts, portions, now, floor)
                if phase == "merge"
                else (acts,)
            ):
                done += _carried(store, portion, name, right, on_act)
        if phase == "changelog" and phase in phases:
            pages.write(mem, right.date, name, floor, now, right.fence)
    summary: dict[str, object] = {"acts": len(done)}
    if "merge" in phases:
        summary["cursor"] = looked
    if remarks:
        summary["remarks"] = list(remarks[:TOLD])
    if "metrics" in phases:
        review(store, name, now, right.fence)
        with store.snapshot() as snap:
            after = maintenance.weights(snap, now) if done or written else before
            disputed = maintenance.disputed(snap, now)
        summary |= metrics.measured(before, after, done, written, disputed)
    finish(mem, right, **summary)
    return Night(name, True, tuple(done), remarks)


def _merges(
    store: Store, acts: Sequence[Act], portions: Iterable[State], now: int, floor: int
) -> Iterator[Sequence[Act]]:
    """What there is to merge: these acts, then those for the portions of the memory that come
    after. All of it again as long as some may be left that say the same.
    """
    yield acts
    merges = [*acts]
    for state in portions:
        yield (acts := plan(state, now, store.settings, ("merge",)).acts)
        merges += acts
    if unended(merges):
        yield from _merges(store, (), outworn(store, now, floor), now, floor)


def _carried(
    store: Store, acts: Sequence[Act], night: str, right: Claim, on_act: OnAct
) -> Iterator[Done]:
    for number, result in enumerate(carry(store, acts, night, right.fence), 1):
        yield result
        on_act(number, len(acts))


def looked_until(store: Store) -> int:
    """Up to where in the log the last whole night looked at everything."""
    return max((record.fields.get("cursor", 0) for record in nights(store)), default=0)


def nights(store: Store) -> list[Record]:
    """The nights that came to their end, and the runs by hand, oldest first."""
    with store.snapshot() as snap:
        records = maintenance.nights(snap)
    return [
        record
        for record in records
        if record.fields["state"] != "running" and record.fields["job"] == JOB
    ]


def vacant(
    key: str, epoch: int, now: int, again: bool = False, is_dead: bool = False
) -> Guard:
    """Nobody holds the job, or who did is gone; it is not done (or is to be done again), and nobody
    came first.
    """

    def holds(records: Iterable[Record]) -> bool:
        last = None
        for record in records:
            last = record.fields
        if last is None:
            return epoch == 1
        free = (
            is_dead or last["until"] <= now
            if last["state"] == "running"
            else again or last["state"] == "left"
        )
        return bool(free) and last["epoch"] == epoch - 1

    return Guard(key, "vacant", holds)


def _running(right: Claim, phase: str | None) -> Pending:
    fields = {
        "job": right.job,
        "date": right.date,
        "epoch": right.epoch,
        "state": "running",
        "until": right.until,
    }
    fields |= {"holder": lease.holder()} | ({"phase": phase} if phase else {})
    return Pending("night", CONSOLIDATOR, fields, key=right.key)


def date_of(text: str) -> str:
    """A date as it is written; InvalidQuery where it is none."""
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InvalidQuery(f"{text!r} is not a date: write 2026-02-01") from error


class Measured(NamedTuple):
    """What the nights measured, oldest first; what is wrong with them; what there is to remark on
    the namespaces.
    """

    nights: tuple[metrics.Measure, ...]
    worries: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def measured(mem: Memory) -> Measured:
    """What every finished night found and did."""
    store = mem.store
    with store.snapshot(look=True) as snap:
        runs = metrics.measures(nights(store))
        since = store.log.at(1).at if snap.cursor else None
    worries = metrics.idleness(runs, since, store.clock())
    room = measure(store, store.clock(), looked_until(store))
    return Measured(tuple(runs), tuple(worries), tuple(remarked(room, store.settings)))
