"""Staging of proposals: one that was accepted waits, as an entry, for the approval of an agent
above its sources."""

from __future__ import annotations

from synapse.access import staging, successors
from synapse.authority import is_merged
from synapse.consolidate.apply import admit_new_entry
from synapse.consolidate.proposal import Verdict
from synapse.errors import Conflict
from synapse.model.agents import CONSOLIDATOR
from synapse.model.entry import Entry
from synapse.model.records import Guard, Record, all_of, entry_of
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store


def stage(mem: Memory, verdict: Verdict, run_name: str, guard: Guard | None = None) -> Entry | None:
    """Return the staged entry; None where the same sources were proposed before, whatever became of
    that. QueueFull where too many wait."""
    operators_alone("propose")
    store, new_entry = mem.store, verdict.new_entry
    if new_entry is None:
        raise Conflict(f"the proposal was rejected: {verdict.reason}")
    once = f"proposal:{verdict.proposal.key}"
    with store.snapshot() as snap:
        if snap.first(CONSOLIDATOR, once) is not None:
            return None
    fields = {"phase": "merge", "night": run_name, "why": verdict.reason}
    entry = admit_new_entry(store, new_entry)._replace(staged=True)
    pending = Record.new("entry", CONSOLIDATOR, fields, entry, key="staging")
    try:
        record = store.commit.append(pending, once=once, unless=all_of(guard, staging.room(store)))
    except Conflict as error:
        raise staging.refusal(store, error) from error
    store.refresh()
    return entry_of(record)


def withdraw(mem: Memory, guard: Guard | None = None) -> list[tuple[str, str]]:
    """Reject proposals whose sources have changed since, and return them, each with the reason."""
    operators_alone("withdraw proposals")
    store, withdrawn = mem.store, list[tuple[str, str]]()
    staging.expire(store)
    with store.snapshot() as snap:
        proposals = [entry for entry in snap.staged() if is_merged(entry)]
    for entry in proposals:
        if reason := successors.outdated(store, entry):
            store.commit.act("reject", CONSOLIDATOR, guard, entry=entry.id, reason=reason)
            withdrawn.append((entry.id, reason))
    store.refresh()
    return withdrawn


def waiting(store: Store) -> frozenset[str]:
    """Return the entries that are the sources of a waiting proposal."""
    with store.snapshot() as snap:
        proposals = [entry for entry in snap.staged() if is_merged(entry)]
    return frozenset(id for entry in proposals for id in entry.derived_from)
