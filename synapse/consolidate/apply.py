"""Carrying out a plan: each act is appended records, written once, fenced to whoever holds the
night.

Whatever is killed in the middle is done again from the state that it left: nothing here needs to be
cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from synapse.authority import admit
from synapse.consolidate.acts import AT_ONCE, Act, Made
from synapse.consolidate.plan import Plan
from synapse.core import operators_alone
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import Entry
from synapse.model.records import Guard, Pending, Record
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store

ACTS_AT_ONCE = 16


class Done(NamedTuple):
    """An act that was carried out: the records that it made, and the entry that it wrote, if it
    wrote one.
    """

    act: Act
    seqs: tuple[int, ...]
    id: str | None = None


def apply(
    mem: Memory, plan: Plan, night: str | None = None, guard: Guard | None = None
) -> tuple[Done, ...]:
    """Do what the plan says, in its order, in the name of a night or of the place in the log that
    it was made at. Doing it twice changes nothing.
    """
    operators_alone("consolidate")
    name = night or f"at {plan.cursor}"
    return tuple(carry(mem.store, plan.acts, name, guard))


def carry(
    store: Store, acts: Iterable[Act], night: str, guard: Guard | None
) -> Iterator[Done]:
    """The acts, some at a time. What they write comes first, and what goes into that is filed away
    after it.
    """
    for batch in _batches(acts):
        entries = _written(
            store,
            {_once(act, night): act for act in batch if act.made is not None},
            night,
            guard,
        )
        heirs = [
            entries[_once(act, night)] if act.made is not None else None
            for act in batch
        ]
        filings = {
            f"{night}:{act.kind}:{_sources(act)}": _filing(act, heir, night)
            for act, heir in zip(batch, heirs, strict=True)
            if act.ids
        }
        filed = iter(store.log.append_all(filings, unless=guard) if filings else ())
        # here, and not under the log's lock at the next act: writers wait for that one
        store.refresh()
        for act, heir in zip(batch, heirs, strict=True):
            records = [
                record for record in (heir, next(filed) if act.ids else None) if record
            ]
            yield Done(
                act, tuple(record.seq for record in records), heir.id if heir else None
            )


def _batches(acts: Iterable[Act]) -> Iterator[list[Act]]:
    """As many as do not hold others up for long."""
    batch, size = list[Act](), 0
    for act in acts:
        if batch and (len(batch) >= ACTS_AT_ONCE or size + len(act.ids) > AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(act)
        size += len(act.ids)
    if batch:
        yield batch


def _written(
    store: Store, acts: Mapping[str, Act], night: str, guard: Guard | None
) -> dict[str, Record]:
    """What each act wrote, by its key."""
    about = {
        key: {"phase": act.phase, "night": night, "why": act.reason}
        for key, act in acts.items()
    }
    made = {key: act.made for key, act in acts.items() if act.made is not None}
    batch = {
        key: Pending("entry", CONSOLIDATOR, about[key], written(store, each))
        for key, each in made.items()
    }
    return (
        dict(zip(batch, store.log.append_all(batch, unless=guard), strict=True))
        if batch
        else {}
    )


def _filing(act: Act, heir: Record | None, night: str) -> Pending:
    fields: dict[str, Any] = {
        "phase": act.phase,
        "night": night,
        "ids": list(act.ids),
        "reason": act.reason,
    }
    heirs = [heir.id] if heir else list(act.heirs)
    if heirs:
        fields["heirs"] = heirs
    if act.notes:
        fields["notes"] = list(act.notes)
    return Pending("archive", CONSOLIDATOR, fields)


def _once(act: Act, night: str) -> str:
    """The key under which what an act writes is written once."""
    assert act.made is not None
    return (
        f"{act.kind}:{_sources(act)}"
        if act.ids
        else f"{night}:{act.kind}:{act.made.draft.tags[-1]}"
    )


def _sources(act: Act) -> str:
    return sha256(" ".join(act.ids).encode())[:32]


def written(store: Store, made: Made) -> Entry:
    """What the consolidator writes goes through the gate like anything else, and counts for what it
    is made of.
    """
    author = Agent(CONSOLIDATOR, authority=made.authority, write=("*",))
    return admit(made.draft, author, store.settings, trust=made.trust)._replace(
        authority=made.authority
    )
