"""The nightly job of a workspace: consolidation, a model's proposals if wanted, then a snapshot,
then the trimming of old runs, once for each local date. The daemon starts it.

It runs in a process of its own, so that the daemon goes on answering, and so that its memory use
ends with it. That process ends with its parent: a pipe between them closes however the parent dies.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple

from orchestrator.nightly.retention import kept_for, trim_runs
from orchestrator.nightly.schedule import Job, Plan, due, instant, zone_of
from orchestrator.run_store.costs import misread
from synapse import core
from synapse.backup import take
from synapse.consolidate import Claim, claim, finish, lapsed, run_nightly
from synapse.core import Memory
from synapse.errors import EmbedderError, InvalidEntry, StoreError, SynapseError
from synapse.formats.wants import of_backup, of_retention
from synapse.model.clock import now
from synapse.model.settings import Settings
from synapse.store import Store
from synapse.trust import decisions

NIGHTLY, SEMANTIC, BACKUP, RETENTION = "night", "semantic", "backup", "retention"
JOBS = (NIGHTLY, SEMANTIC, BACKUP, RETENTION)
CONSOLIDATION = "consolidation"
DONE, HELD, FAILED = 0, 75, 6
EMBEDDED = 5_000  # entries in a night


class Snapshots(NamedTuple):
    """Where snapshots go after a night, and how many stay: `backup: {dir: ~/snapshots, keep: 14}`;
    None: all.
    """

    directory: str
    keep: int | None = None


class Past(NamedTuple):
    """What became of a job on a date: `done`, `running`, `lapsed` where whoever was at it is gone,
    `left` where it was run by hand alone, or `missed`. The holders are those who were at it, in
    their order; `told` is what came of it.
    """

    job: str
    date: str
    state: str
    holders: tuple[str, ...] = ()
    began: int | None = None
    ended: int | None = None
    phase: str | None = None
    told: Mapping[str, object] = {}


def snapshots_of(settings: Settings) -> Snapshots | None:
    declared = dict(settings.other).get("backup")
    if declared is None:
        return None
    wrong = InvalidEntry(
        "backup: write a block such as {dir: /srv/snapshots, keep: 14}; dir is a whole path"
    )
    if not isinstance(declared, Mapping) or set(declared) - {"dir", "keep"}:
        raise wrong
    directory = os.path.expanduser(str(declared.get("dir") or ""))
    keep = declared.get("keep")
    if not os.path.isabs(directory) or not (keep is None or (type(keep) is int and keep > 0)):
        raise wrong
    return Snapshots(directory, keep)


def nightly(root: str, plan: Plan) -> list[Job]:
    """Return the jobs for a daemon; none where the workspace wants no nightly maintenance."""
    return [] if plan.defrag is None else [Job(NIGHTLY, plan.defrag, partial(_in_a_process, root))]


def spend(mem: Memory, on: date) -> bool:
    """Do what is not done yet of a date, and say whether all of it is now."""
    store, day = mem.store, on.isoformat()
    run_nightly(mem, day, store.clock())
    if _state(store, NIGHTLY, day) != "done":
        return False
    if CONSOLIDATION in dict(store.settings.other):
        consolidated(mem, day)
    embed_waiting(store)
    if problems := misread(store, ("backup", "retention")):  # a misspelt `backup` is none
        raise InvalidEntry(
            f"no snapshot is taken by these settings: synapse.yaml: {'; '.join(problems)}"
        )
    semantic = _state(store, SEMANTIC, day) != "running"
    return all([semantic, _snapshot(mem, day), _trim(mem, day)])


def _snapshot(mem: Memory, day: str) -> bool:
    """Take the snapshot of a date; return whether it is taken, or none is wanted."""
    store = mem.store
    settings = snapshots_of(store.settings)
    if settings is None:
        return True
    if store.root is not None:
        declared = dict(store.settings.other).get("backup")
        decisions.demand(store.root, of_backup(declared, store.root))
    right = claim(mem, BACKUP, day, store.clock())
    if right is not None:
        finish(mem, right, path=take(store, settings.directory, settings.keep).path)
    return _state(store, BACKUP, day) == "done"


def _trim(mem: Memory, day: str) -> bool:
    """Trim the runs that are due on a date; return whether that is done, or not wanted."""
    store = mem.store
    span = kept_for(store.settings)
    if span is None or store.root is None:
        return True
    decisions.demand(store.root, of_retention(dict(store.settings.other).get("retention")))
    right = claim(mem, RETENTION, day, store.clock())
    if right is not None:
        finish(mem, right, **trim_runs(store, store.root, span)._asdict())
    return _state(store, RETENTION, day) == "done"


def consolidated(mem: Memory, day: str) -> None:
    """Ask an engine for proposals, where the workspace wants that. The record of it says what goes
    wrong.
    """
    from orchestrator.nightly.semantic.consolidation import consolidate, is_off

    if not is_off(mem.store.settings):
        consolidate(mem, day)


def embed_waiting(store: Store) -> None:
    """Embed what waits, as far as a night goes. What an embedder's failure leaves waits on."""
    from synapse.search import background, semantic

    try:
        if background.is_due(store):
            semantic.embed(store, EMBEDDED)
    except EmbedderError as error:
        sys.stderr.write(f"night: entries are embedded later: {error}\n")


def past(store: Store, plan: Plan, days: int, jobs: tuple[str, ...] = JOBS) -> list[Past]:
    """Return the outcomes of the jobs on the newest dates that were due, newest first."""
    if plan.defrag is None:
        return []
    newest = due(plan.defrag, zone_of(plan.zone), store.clock())
    dates = [(newest - timedelta(back)).isoformat() for back in range(days)]
    first = next((record.at for record in store.log.since(0)), store.clock())
    records = [_past(store, job, day) for day in dates for job in jobs]
    return [
        record
        for record in records
        if record.state != "missed" or (record.job == NIGHTLY and _was_there(plan, record, first))
    ]


def _was_there(plan: Plan, each: Past, first: int) -> bool:
    """Return whether the workspace had begun when the date was due."""
    assert plan.defrag is not None
    return instant(plan.defrag, date.fromisoformat(each.date), zone_of(plan.zone)) >= first


def _past(store: Store, job: str, day: str) -> Past:
    with store.snapshot() as snap:
        keyed = snap.keyed(Claim(job, day, 0, 0).key)
    records = [store.log.at(row.seq) for row in keyed]
    if not records:
        return Past(job, day, "missed")
    last = records[-1].fields
    running = last["state"] == "running"
    state = (
        "lapsed"
        if running and lapsed(store, records[-1].key or "", last, store.clock())
        else str(last["state"])
    )
    holders = dict.fromkeys(
        str(record.fields["holder"]) for record in records if "holder" in record.fields
    )
    fields = {
        name: last[name]
        for name in last
        if name not in Claim._fields and name not in ("state", "holder")
    }
    ended = None if running else records[-1].at
    return Past(job, day, state, tuple(holders), records[0].at, ended, last.get("phase"), fields)


def _state(store: Store, job: str, day: str) -> str:
    return _past(store, job, day).state


# -- a process of its own --------------------------------------------------------------


async def _in_a_process(root: str, on: date) -> bool:
    # -P: nothing is imported from the folder in which this happens to run
    argv = [sys.executable, "-P", "-m", "orchestrator.nightly.job", root, on.isoformat()]
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=sys.stderr
    )
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code not in (DONE, HELD):
        raise StoreError(f"its process ended with {code}")
    return code == DONE


def main(root: str, day: str) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    start = now()
    try:
        with core.open(root) as mem:
            if not spend(mem, date.fromisoformat(day)):
                return HELD
    except SynapseError as error:
        sys.stderr.write(f"night of {day}: {error}\n")
        return FAILED
    sys.stderr.write(f"night of {day}: done after {(now() - start) / 1_000_000:.1f} s\n")
    return DONE


def _end_with_parent() -> None:
    # not by `sys.stdin`, whose lock a thread must not hold as the interpreter ends
    while os.read(0, 4096):
        pass
    # its claim lapses, and whoever takes it over goes on from the phase that was reached
    os._exit(FAILED)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
