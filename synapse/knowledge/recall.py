"""Recall: searching, storing and withdrawing facts in the scopes agent, group, global and all.

Each function acts as the agent memory that it is given. A scope is a namespace that comes with an
agent; `all` is whatever the agent may see, mail and entries too. What changed since it was looked
at is neither withdrawn nor replaced.
"""

from __future__ import annotations

from synapse.agent_memory import AgentMemory
from synapse.errors import Conflict, InvalidEntry, InvalidQuery, NotFound
from synapse.knowledge import memory
from synapse.knowledge.capsule import LEAST, MOST, Capsule, capsule, short
from synapse.knowledge.references import resolve_reference
from synapse.model.entry import Entry
from synapse.model.records import Guard, unchanged
from synapse.model.results import Hits
from synapse.system.typed import Any, NamedTuple

SCOPES = ("agent", "group", "global", "all")
TOP = 5
BYTES = 2_048
DEEP = 40  # found at least, so that what is shown does not depend on how much of it is


class Seen(NamedTuple):
    """An item as it stood when it was looked at, and how far the log had been read then."""

    entry: Entry
    version: int


def search(
    me: AgentMemory,
    query: str,
    scope: str = "all",
    top_k: int = TOP,
    max_capsule_bytes: int = BYTES,
) -> Capsule:
    """Return the facts, entries and messages that answer best, as text within a limit of bytes."""
    _whole("top_k", top_k, 1, 1_000)
    _whole("max_capsule_bytes", max_capsule_bytes, LEAST, MOST)
    if not isinstance(query, str):
        raise InvalidQuery(f"query {query!r} is not a text")
    places = within(me, scope)
    hits = me.search(query, limit=max(top_k, DEEP), namespace=places) if places != () else Hits(())
    with me.store.snapshot(late=True) as snap:
        version = snap.cursor
    result = capsule(hits[:top_k], max(hits.ranked, len(hits)), query, max_capsule_bytes, version)
    memory.used(me, [entry.id for entry in result.shown])
    return result


def within(me: AgentMemory, scope: str) -> tuple[str, ...] | None:
    """Return the globs of a scope: None for everything, an empty tuple for an agent without a
    group."""
    agent = me.agent
    kind, _, name = scope.partition(":") if isinstance(scope, str) else ("", "", "")
    if kind not in SCOPES or (name and kind != "group"):
        raise InvalidQuery(
            f"scope {scope!r} is not one of {', '.join(SCOPES)}, group:NAME", scope=str(scope)
        )
    if kind == "all":
        return None
    if kind == "global":
        return ("global/*",)
    if agent is None:
        return (f"{'agents' if kind == 'agent' else 'groups'}/*",)
    if name or kind == "agent":
        return (f"{memory.place(agent, scope)}/*",)
    return tuple(f"groups/{team}/*" for team in sorted(agent.groups))


def remember(
    me: AgentMemory,
    fact: str,
    scope: str,
    confidence: float = 1.0,
    ttl_days: int | None = None,
    *,
    supersedes: str | None = None,
    version: int | None = None,
    once: str | None = None,
    **extra: Any,
) -> Entry:
    """Keep a fact; with `supersedes`, in the place of one that has not changed since."""
    if ttl_days is not None:
        _whole("ttl_days", ttl_days, 1, 3_650)
    extra |= {
        "scope": scope,
        "confidence": confidence,
        "ttl": f"{ttl_days}d" if ttl_days else None,
        "once": once,
    }
    if supersedes is None or _was_done(me, once):
        return memory.remember(me, fact, **extra)
    precondition = _expect_version(me, supersedes, version)
    try:
        return memory.remember(
            me, fact, supersedes=precondition.entry.id, unless=_guard(precondition), **extra
        )
    except Conflict as error:
        raise _as_conflict(me, precondition, error) from error


def forget(
    me: AgentMemory,
    fact_id: str,
    *,
    version: int | None = None,
    reason: str | None = None,
    once: str | None = None,
) -> Entry:
    """Withdraw a fact or an atom that has not changed since `version`; it stays in the log."""
    if _was_done(me, once):
        return resolve_reference(me, fact_id)
    precondition = _expect_version(me, fact_id, version)
    try:
        return memory.forget(
            me, precondition.entry.id, reason, once=once, unless=_guard(precondition)
        )
    except Conflict as error:
        raise _as_conflict(me, precondition, error) from error


def version_by(me: AgentMemory, fact_id: str) -> int:
    """Return the log position of the last act that changed what is shown of an item."""
    return _version(me, resolve_reference(me, fact_id))


# -- below -----------------------------------------------------------------------------------------


def _expect_version(me: AgentMemory, reference: str, version: int | None) -> Seen:
    """Return the item with the version that it must still have; by default the current one."""
    entry = resolve_reference(me, reference)
    if version is None:
        with me.store.snapshot(late=True) as snap:
            version = snap.cursor
    precondition = Seen(entry, version)
    if me.fate(entry.id) or _version(me, entry) > precondition.version:
        raise _change_conflict(me, precondition)
    return precondition


def _version(me: AgentMemory, entry: Entry) -> int:
    with me.store.snapshot() as snap:
        touched = snap.keyed(f"item:{entry.id}")
    return max((record.seq for record in touched), default=entry.seq)


def _guard(seen: Seen) -> Guard:
    return unchanged(f"item:{seen.entry.id}", seen.version)


def _as_conflict(me: AgentMemory, seen: Seen, error: Conflict) -> Conflict:
    """Return a guard's error as a Conflict that names what changed in between."""
    return (
        _change_conflict(me, seen) if error.details.get("key") == f"item:{seen.entry.id}" else error
    )


def _change_conflict(me: AgentMemory, seen: Seen) -> Conflict:
    entry, fate, version = seen.entry, me.fate(seen.entry.id), _version(me, seen.entry)
    change = (
        "changed" if fate is None else "forgotten" if fate.reason == "resolved" else fate.reason
    )
    by = ""
    if fate and fate.by:
        try:
            by = f" by {short(me.get(fate.by))}"
        except NotFound:
            by = f" by {fate.by}"  # an agent
    message = (
        f"{short(entry)} was {change}{by} since: nothing was written; it is at version {version}"
    )
    return Conflict(message, id=entry.id, version=version)


def _was_done(me: AgentMemory, once: str | None) -> bool:
    """Return whether this key was used for the act before."""
    if once is None:
        return False
    with me.store.snapshot() as snap:
        return snap.first(me.id, once) is not None


def _whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidEntry(
            f"{name} {value!r} is not a whole number from {least} to {most}", field=name
        )
