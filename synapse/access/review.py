"""The rulings of an agent or the operator on entries: review of what is staged or unverified,
archive and restore. Called by the methods of `AgentMemory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from synapse.access import staging, successors
from synapse.access.gate import Access, after
from synapse.authority import (
    is_merged,
    may_close,
    may_replace,
    may_restore,
    may_rule,
    may_say,
    may_vouch,
)
from synapse.errors import Conflict, InvalidEntry
from synapse.model.agents import OPERATOR, Agent, authority_in
from synapse.model.entry import DOUBTFUL, Entry
from synapse.model.records import filings

FILED, BROUGHT_BACK = "archived by hand", "restored by hand"


def vouch(access: Access, id: str) -> Entry:
    """Believe an unverified entry: from now on it counts as its author's. The operator may always
    say so.
    """
    entry = access.entry(id)
    agent = access.agent()
    if entry.trust not in DOUBTFUL and not (agent is None and _lacks_signature(access, entry)):
        raise Conflict(f"{id} needs no voucher: its trust is {entry.trust}", id=id)
    author = access.store.agents.all().get(entry.author)
    authority, priority = 0, entry.claimed or entry.priority
    if author is not None:
        level, flat = access.store.agents.standing(author), access.store.settings.flat
        authority = authority_in(level, entry.namespace, flat)
    derived = bool(entry.derived_from or entry.run)
    may_vouch(agent, entry, authority, access.store.settings, derived=derived)
    if agent is not None:
        for old in filter(None, map(access.known, entry.replaces)):
            may_replace(agent, old, entry)
    access.writer.act("vouch", entry=id, authority=authority, trust="reviewed", priority=priority)
    vouched = entry._replace(authority=authority, trust="reviewed", priority=priority)
    return after(partial(access.entry, id), vouched)


def _lacks_signature(access: Access, entry: Entry) -> bool:
    """Return whether an entry is unsigned, and of an author that has a key: by software that knew
    of none.
    """
    keys = access.store.agents.keys
    return keys is not None and entry.author in keys and not entry.signature


def approve(access: Access, id: str) -> Entry:
    """Let a staged entry take effect; one that was proposed for others has these filed away."""
    agent, entry = _waiting(access, id, "approve")
    if is_merged(entry):
        successors.approve(access.store, access.writer, agent, entry)
    elif entry.trust == "unverified" and not (
        agent is None and access.store.agents.all().get(entry.author) is None
    ):  # approved, it still has to be vouched for; what is nobody's counts as the operator's word
        access.writer.act("approve", entry=id, trust=entry.trust)
    else:
        access.writer.act("approve", entry=id)
    return after(partial(access.store.entry, id, agent), entry._replace(staged=False))


def reject(access: Access, id: str, reason: str | None) -> Entry:
    """Turn a staged entry away."""
    _, entry = _waiting(access, id, "reject")
    access.writer.act("reject", entry=id, reason=reason)
    return entry


def staged(access: Access) -> list[Entry]:
    """Return what waits for review: an agent's own entries, and those it may rule on."""
    access.store.refresh()
    staging.expire(access.store)
    with access.store.snapshot() as snap:
        waiting = snap.staged()
    return [entry for entry in waiting if access.sees_staged(entry)]


def file(access: Access, ids: Sequence[str], kind: str, reason: str) -> list[Entry]:
    """Archive or restore entries, by kind; Conflict where all of them are there already."""
    agent = access.agent()
    entries = [access.entry(id) for id in ids]
    for entry in entries:
        if agent is not None:
            may_close(agent, entry, access.store.settings, kind)
            if reason not in (FILED, BROUGHT_BACK):
                may_say(agent, f"give a reason of its own to {kind}")
            if kind == "restore" and entry.archived:
                with access.store.snapshot() as snap:
                    by = next(
                        (
                            record.by
                            for record in snap.acts(None, entry.id, 0, None)
                            if (entry.id, True) in filings(record)
                        ),
                        OPERATOR,
                    )
                filer = access.store.agents.get(by)
                may_restore(agent, entry, by, filer, access.store.settings)
        refuse_staged(entry, kind)
    if not ids:
        raise InvalidEntry(f"nothing to {kind}: name at least one entry")
    remaining = [entry.id for entry in entries if entry.archived == (kind == "restore")]
    if not remaining:
        raise Conflict(f"nothing to {kind}: {_already(access, entries, ids, kind)}")
    access.writer.file(kind, remaining, reason)
    return [
        after(partial(access.entry, entry.id), entry._replace(archived=kind == "archive"))
        for entry in entries
    ]


def refuse_staged(entry: Entry, action: str) -> None:
    """Raise Conflict where an entry has not taken effect: nothing would come of the act, and it
    would be shown once it is approved.
    """
    if entry.staged:
        raise Conflict(
            f"there is nothing to {action}: {entry.id} has not taken effect, it waits for"
            " review or was turned away",
            id=entry.id,
        )


def _waiting(access: Access, id: str, action: str) -> tuple[Agent | None, Entry]:
    """Return who rules, None for the operator, and an entry that waits for review, if it may."""
    agent = access.ruling_agent()
    staging.expire(access.store)
    entry = access.entry(id)
    with access.store.snapshot() as snap:
        waiting = {staged.id for staged in snap.staged()}
    if not entry.staged or id not in waiting:
        raise Conflict(f"{id} does not wait for review", id=id)
    if agent is not None:
        may_rule(agent, entry, access.store.settings, action)
    return agent, entry


def _already(access: Access, entries: Sequence[Entry], ids: Sequence[str], kind: str) -> str:
    """Return why there is nothing to do: what was resolved or superseded comes back with an
    undo alone.
    """
    fate = None
    if kind == "restore":
        with access.store.snapshot() as snap:
            fate = snap.fate(entries[0], access.store.clock(), access.agent())
    if fate is not None and fate.reason in ("resolved", "superseded", "replaced by its author"):
        name = fate.by if access.may_name(fate.by) else ""
        return (
            f"{ids[0]} is in no archive, it is {fate.reason}{f' ({name})' if name else ''};"
            f" `synapse audit --entry {ids[0]}` has the number of that act for `synapse undo`"
        )
    return f"{', '.join(ids)} {'is' if len(ids) == 1 else 'are'} there already"
