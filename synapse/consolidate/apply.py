"""Carrying out a plan: each act is appended records, written once, fenced to whoever holds the run.

A run that is killed in the middle is simply run again: it goes on from what is in the log, and
nothing here needs to be cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from synapse.authority import admit
from synapse.consolidate.acts import AT_ONCE, Act, AppliedAct, NewEntry
from synapse.consolidate.plan import Plan
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import Entry
from synapse.model.records import Guard, Record
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store

ACTS_AT_ONCE = 16


def apply(
    mem: Memory, plan: Plan, night: str | None = None, guard: Guard | None = None
) -> tuple[AppliedAct, ...]:
    """Carry out the acts of a plan, in order, and return them with their records. Applying it twice
    changes nothing."""
    operators_alone("consolidate")
    name = night or f"at {plan.cursor}"
    return tuple(apply_acts(mem.store, plan.acts, name, guard))


def apply_acts(
    store: Store, acts: Iterable[Act], run_name: str, guard: Guard | None
) -> Iterator[AppliedAct]:
    """Yield the acts as they are carried out, in batches. New entries are written first; their
    sources are filed away after that."""
    for batch in _batches(acts):
        entries = _write_new_entries(store, batch, run_name, guard)
        successors = [
            None if act.new_entry is None else entries[_key_of(act, run_name)] for act in batch
        ]
        filings: dict[str, Record] = {}
        for act, successor in zip(batch, successors, strict=True):
            if act.ids:
                key = f"{run_name}:{act.kind}:{_sources(act)}"
                filings[key] = _archive_record(act, successor, run_name)
        filed = iter(store.commit.append_all(filings, unless=guard) if filings else ())
        # here, and not under the log's lock at the next act: writers wait for that one
        store.refresh()
        for act, successor in zip(batch, successors, strict=True):
            seqs = [] if successor is None else [successor.seq]
            if act.ids:
                seqs.append(next(filed).seq)
            yield AppliedAct(act, tuple(seqs), successor.id if successor else None)


def _batches(acts: Iterable[Act]) -> Iterator[list[Act]]:
    """Yield the acts in batches that do not hold other writers up for long."""
    batch, size = list[Act](), 0
    for act in acts:
        if batch and (len(batch) >= ACTS_AT_ONCE or size + len(act.ids) > AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(act)
        size += len(act.ids)
    if batch:
        yield batch


def _write_new_entries(
    store: Store, acts: Iterable[Act], run_name: str, guard: Guard | None
) -> dict[str, Record]:
    """Write the new entry of each act that has one, and return the records by the acts' keys."""
    batch: dict[str, Record] = {}
    for act in acts:
        if act.new_entry is not None:
            fields = {"phase": act.phase, "night": run_name, "why": act.reason}
            entry = admit_new_entry(store, act.new_entry)
            batch[_key_of(act, run_name)] = Record.new("entry", CONSOLIDATOR, fields, entry)
    if not batch:
        return {}
    records = store.commit.append_all(batch, unless=guard)
    return dict(zip(batch, records, strict=True))


def _archive_record(act: Act, successor: Record | None, run_name: str) -> Record:
    fields: dict[str, Any] = {
        "phase": act.phase,
        "night": run_name,
        "ids": list(act.ids),
        "reason": act.reason,
    }
    successors = [successor.id] if successor else list(act.successors)
    if successors:
        fields["heirs"] = successors
    if act.notes:
        fields["notes"] = list(act.notes)
    return Record.new("archive", CONSOLIDATOR, fields)


def _key_of(act: Act, run_name: str) -> str:
    """Return the key under which the new entry of an act is written once."""
    assert act.new_entry is not None
    return (
        f"{act.kind}:{_sources(act)}"
        if act.ids
        else f"{run_name}:{act.kind}:{act.new_entry.draft.tags[-1]}"
    )


def _sources(act: Act) -> str:
    return sha256(" ".join(act.ids).encode())[:32]


def admit_new_entry(store: Store, new_entry: NewEntry) -> Entry:
    """Return a new entry as admitted by the write gate, with the authority of what it is made
    of."""
    author = Agent(CONSOLIDATOR, authority=new_entry.authority, write=("*",))
    return admit(new_entry.draft, author, store.settings, trust=new_entry.trust)._replace(
        authority=new_entry.authority
    )
