"""The nightly run: the right to run it, once for each local date, and the run itself, phase by
phase.

The right is a lease in the log, taken by an append under its lock: of any number that ask, one gets
it. The lease of a dead process lapses, and the next one goes on from the phase that was reached;
should the dead one wake, nothing that it writes is accepted. Nothing here knows when a run is due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from synapse.consolidate import lease, metrics, pages
from synapse.consolidate.acts import Act, AppliedAct
from synapse.consolidate.apply import apply_acts
from synapse.consolidate.limits import MOST_REMARKS
from synapse.consolidate.limits import remarks as remarked
from synapse.consolidate.plan import PHASES, State, may_have_more_merges, plan
from synapse.consolidate.reviews import review
from synapse.consolidate.state import measure, plan_states, room_state
from synapse.errors import Conflict, InvalidQuery
from synapse.index.questions import maintenance
from synapse.integrity import checkpoints
from synapse.model.agents import CONSOLIDATOR
from synapse.model.clock import seconds
from synapse.model.entry import SECOND
from synapse.model.records import Guard, Record, epoch_is
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store

LEASE = 30 * 60 * SECOND  # longer than two machines' clocks may differ
JOB = "night"

OnPhase = Callable[[str], object]
OnAct = Callable[[int, int], object]


def _unwatched(done: int, of: int) -> None:
    """Do nothing: nobody watches the progress."""


class Claim(NamedTuple):
    """The right to run a job for a local date. `epoch` counts those who had it; `phase` is what the
    one before had reached. A run by hand leaves the job undone, unless it was `done` before."""

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
        """Return the guard that holds as long as nobody else has taken the job over."""
        return epoch_is(self.key, self.epoch)


class NightlyRun(NamedTuple):
    """The outcome of a nightly run. `ran` is false where another process had, or has, the right to
    run it."""

    date: str
    ran: bool
    acts: tuple[AppliedAct, ...] = ()
    remarks: tuple[str, ...] = ()


def claim(mem: Memory, job: str, local_date: str, now: int, *, again: bool = False) -> Claim | None:
    """Return the right to run a job for this date, or None: it is being run, or is done. Whoever
    has the right calls `finish` at the end. `again` is for a run by hand: it may come after the job
    is done, and does not stand for it."""
    operators_alone(f"run {job}")
    store, key = mem.store, f"{job}:{date_of(local_date)}"
    with store.snapshot() as snap:
        records = snap.keyed(key)
    last = records[-1].fields if records else {}
    epoch = int(last.get("epoch", 0)) + 1
    phase = last.get("phase") if last.get("state") == "running" and not again else None
    right = Claim(job, local_date, epoch, now + LEASE, phase, again, last.get("state") == "done")
    is_dead = lease.is_dead(store, key, last)
    if not lease.acquire(store, key, epoch):
        return None
    try:
        store.commit.append(_running(right, phase), unless=vacant(key, epoch, now, again, is_dead))
    except BaseException as error:
        lease.release(store, key, epoch)
        if isinstance(error, Conflict):
            return None
        raise
    if last.get("state") == "running":
        lease.remove_stale(store, key, last)
    return right


def reach(mem: Memory, right: Claim, phase: str, now: int) -> Claim:
    """Record that a phase begins, and hold the job for longer; Conflict where another has taken it
    over."""
    right = right._replace(phase=phase, until=now + LEASE)
    mem.store.commit.append(_running(right, phase), unless=right.fence)
    return right


def finish(mem: Memory, right: Claim, **outcome: object) -> None:
    """Record that the run is over, with its outcome."""
    state = "left" if right.by_hand and not right.done else "done"
    fields = {"job": right.job, "date": right.date, "epoch": right.epoch, "state": state} | outcome
    mem.store.commit.append(
        Record.new("night", CONSOLIDATOR, fields, key=right.key), unless=right.fence
    )
    lease.release(mem.store, right.key, right.epoch)


def lapsed(store: Store, key: str, last: Mapping[str, Any], now: int) -> bool:
    """Return whether nobody runs a job any more, by its last record: its lease is over, or its
    process died here."""
    return bool(last["until"] <= now) or lease.is_dead(store, key, last)


def run_nightly(
    mem: Memory,
    local_date: str,
    now: int,
    on_phase: OnPhase | None = None,
    on_act: OnAct = _unwatched,
) -> NightlyRun:
    """Run the nightly job of a local date, or go on with one whose process died. Where another
    process has the right to, or it is done, nothing happens. `on_phase` is called with each phase
    as it begins, `on_act` with how many of its acts are done, and of how many."""
    right = claim(mem, JOB, local_date, now)
    return (
        NightlyRun(local_date, ran=False)
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
) -> NightlyRun:
    """Carry out these phases by a right that one has; where that fails, another may go on at once.
    The acts of a run by hand are named by its time of day, too."""
    try:
        return _run(mem, right, now, on_phase, phases, on_act)
    except BaseException:
        lease.release(mem.store, right.key, right.epoch, over=False)
        raise


def _run(
    mem: Memory,
    right: Claim,
    now: int,
    on_phase: OnPhase | None,
    phases: Collection[str],
    on_act: OnAct,
) -> NightlyRun:
    name = f"{right.date}T{seconds(now)[11:19]}" if right.by_hand else right.date
    store, floor, done = mem.store, compared_until(mem.store), list[AppliedAct]()
    portions = plan_states(store, now, floor)
    todo = plan(next(portions), now, store.settings, set(phases) - {"enforce"})
    with store.snapshot() as snap:
        before, looked = maintenance.weights(snap, now), todo.cursor
        admit_new_entry = maintenance.written_since(snap, floor, CONSOLIDATOR)
    remarks = tuple[str, ...]()
    for phase in PHASES[PHASES.index(right.phase or PHASES[0]) :]:
        if phase in phases:
            right = reach(mem, right, phase, now)
            if on_phase is not None:
                on_phase(phase)
            # how much there is only shows when the rest is filed away
            if phase == "enforce":
                todo = plan(room_state(store, now, floor), now, store.settings, (phase,))
                remarks = todo.remarks
            acts = todo.phase(phase)
            for portion in (
                _merges(store, acts, portions, now, floor) if phase == "merge" else (acts,)
            ):
                done += _apply_with_progress(store, portion, name, right, on_act)
        if phase == "changelog" and phase in phases:
            pages.write(mem, right.date, name, floor, now, right.fence)
    summary: dict[str, object] = {"acts": len(done)}
    if "merge" in phases:
        summary["cursor"] = looked
    if remarks:
        summary["remarks"] = list(remarks[:MOST_REMARKS])
    if "metrics" in phases:
        review(store, name, now, right.fence)
        with store.snapshot() as snap:
            after = maintenance.weights(snap, now) if done or admit_new_entry else before
            disputed = maintenance.disputed(snap, now)
        summary |= metrics.measure_fields(before, after, done, admit_new_entry, disputed)
    finish(mem, right, **summary)
    checkpoints.attempt(store)
    return NightlyRun(name, True, tuple(done), remarks)


def _merges(
    store: Store, acts: Sequence[Act], portions: Iterable[State], now: int, floor: int
) -> Iterator[Sequence[Act]]:
    """Yield what there is to merge: these acts, then those for the later portions of the memory,
    and all of it again as long as some entries may be left that say the same."""
    yield acts
    merges = [*acts]
    for state in portions:
        yield (acts := plan(state, now, store.settings, ("merge",)).acts)
        merges += acts
    if may_have_more_merges(merges):
        yield from _merges(store, (), plan_states(store, now, floor), now, floor)


def _apply_with_progress(
    store: Store, acts: Sequence[Act], run_name: str, right: Claim, on_act: OnAct
) -> Iterator[AppliedAct]:
    for number, result in enumerate(apply_acts(store, acts, run_name, right.fence), 1):
        yield result
        on_act(number, len(acts))


def compared_until(store: Store) -> int:
    """Return the place in the log up to which the last whole run compared everything."""
    return max((record.fields.get("cursor", 0) for record in finished_runs(store)), default=0)


def finished_runs(store: Store) -> list[Record]:
    """Return the records of the finished runs, those by hand included, oldest first."""
    with store.snapshot() as snap:
        records = maintenance.nightly_records(snap)
    return [
        record
        for record in records
        if record.fields["state"] != "running" and record.fields["job"] == JOB
    ]


def vacant(key: str, epoch: int, now: int, again: bool = False, is_dead: bool = False) -> Guard:
    """Return the guard of a claim: nobody holds the job, or who did is dead; it is not done, unless
    it is to be run again; and nobody claimed it first."""

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


def _running(right: Claim, phase: str | None) -> Record:
    fields = {
        "job": right.job,
        "date": right.date,
        "epoch": right.epoch,
        "state": "running",
        "until": right.until,
    }
    fields |= {"holder": lease.process_name()} | ({"phase": phase} if phase else {})
    return Record.new("night", CONSOLIDATOR, fields, key=right.key)


def date_of(text: str) -> str:
    """Return a date in its usual form; InvalidQuery where it is none."""
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InvalidQuery(f"{text!r} is not a date: write 2026-02-01") from error


class RunHistory(NamedTuple):
    """The figures of the runs, oldest first; what is wrong with them; remarks on the namespaces."""

    runs: tuple[metrics.Measure, ...]
    worries: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def run_history(mem: Memory) -> RunHistory:
    """Return the figures of every finished run, with remarks on the room that entries take."""
    return run_figures(mem)._replace(remarks=tuple(room_remarks(mem)))


def run_figures(mem: Memory) -> RunHistory:
    """Return the figures of every finished run, without the remarks: these look at all entries."""
    store = mem.store
    store.refresh()
    with store.snapshot() as snap:
        runs = metrics.measures(finished_runs(store))
        since = store.log.at(1).at if snap.cursor else None
    return RunHistory(tuple(runs), tuple(metrics.idleness(runs, since, store.clock())), ())


def room_remarks(mem: Memory) -> list[str]:
    """Return remarks on the room that entries take."""
    store = mem.store
    room = measure(store, store.clock(), compared_until(store), by_entry=False)
    return list(remarked(room, store.settings))
