"""Carrying out a plan: each act is appended records, written once, fenced to whoever holds the night.

Whatever is killed in the middle is done again from the state that it left: nothing here needs to be cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable

from synapse.authority import admit
from synapse.consolidate.acts import Act, Made
from synapse.consolidate.plan import Plan
from synapse.core import operators_alone
from synapse.digest import sha256
from synapse.entry import Entry
from synapse.records import Guard, Pending, Record
from synapse.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.workspace import CONSOLIDATOR, Agent

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store


class Done(NamedTuple):
    """An act that was carried out: the records that it made, and the entry that it wrote, if it wrote one."""

    act: Act
    seqs: tuple[int, ...]
    id: str | None = None


Told = Callable[[Done], None]


def apply(mem: Memory, plan: Plan, night: str | None = None, guard: Guard | None = None) -> tuple[Done, ...]:
    """Do what the plan says, in its order, in the name of a night or of the place in the log that it was made at.
    Doing it twice changes nothing."""
    operators_alone("consolidate")
    name = night or f"at {plan.cursor}"
    return tuple(carry(mem.store, act, name, guard) for act in plan.acts)


def carry(store: Store, act: Act, night: str, guard: Guard | None) -> Done:
    """One act. What it writes comes first, and what goes into that is filed away after it."""
    about = {"phase": act.phase, "night": night}
    seqs, heir = [], None
    if act.made is not None:
        made = store.log.append(
            Pending("entry", CONSOLIDATOR, about | {"why": act.reason}, written(store, act.made)),
            once=f"{act.kind}:{_sources(act)}" if act.ids else f"{night}:{act.kind}:{act.made.draft.tags[-1]}",
            unless=guard,
        )
        heir = made.id
        seqs.append(made.seq)
    if act.ids:
        seqs.append(_file(store, act, heir, about, guard).seq)
    store.index.catch_up()  # here, and not under the log's lock at the next act: writers wait for that one
    return Done(act, tuple(seqs), heir)


def _file(store: Store, act: Act, heir: str | None, about: dict[str, Any], guard: Guard | None) -> Record:
    fields = about | {"ids": list(act.ids), "reason": act.reason}
    heirs = [heir] if heir else list(act.heirs)
    if heirs:
        fields["heirs"] = heirs
    if act.notes:
        fields["notes"] = list(act.notes)
    once = f"{about['night']}:{act.kind}:{_sources(act)}"
    return store.log.append(Pending("archive", CONSOLIDATOR, fields), once=once, unless=guard)


def _sources(act: Act) -> str:
    return sha256(" ".join(act.ids).encode())[:32]


def written(store: Store, made: Made) -> Entry:
    """What the consolidator writes goes through the gate like anything else, and counts for what it is made of."""
    author = Agent(CONSOLIDATOR, authority=made.authority, write=("*",))
    return admit(made.draft, author, store.settings, trust=made.trust)._replace(authority=made.authority)
