"""The plan of a nightly run: what would be done to the memory, entry by entry, and why. Pure.

A state in, acts out: nothing here may read the log, ask the time, or write. Every act can be
undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter

from synapse.authority import MERGED, is_merged, passed_on, visible
from synapse.consolidate.acts import Act, NewEntry, archive_acts, without
from synapse.consolidate.heading import fitting, portions, room_beside
from synapse.consolidate.limits import Room, enforce, remarks
from synapse.consolidate.similarity import fingerprint, similarity
from synapse.index.questions.maintenance import Lapsed, Superseded
from synapse.model.agents import CONSOLIDATOR, OPERATOR, Agent, authority_in
from synapse.model.clock import DAY, seconds
from synapse.model.entry import NEVER, RANK, SEALED, SECOND, Draft, Entry
from synapse.model.entry_fields import DETAILS
from synapse.model.settings import Settings
from synapse.privacy.personal import is_in, kept
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple
from synapse.trust.keyring import shut

PHASES = ("scan", "merge", "archive", "enforce", "changelog", "metrics")
THRESHOLD = 0.85
ESCALATED = "escalated"
# be it merged at once, or by whoever goes on where another died
ALIKE = "says the same as the newest of them"
IDLE = 30 * DAY  # then a thread is filed away
_QUOTE = 2_000


class State(NamedTuple):
    """What a plan is made from: the part of the memory, at one moment, that a run may change."""

    cursor: int = 0
    live: Sequence[Sequence[Entry]] = ()  # those that may say the same, together
    # sources of merged entries that are not filed away, each with the merged entry
    unfinished_merges: Sequence[tuple[str, str]] = ()
    superseded: Sequence[Superseded] = ()
    lapsed: Sequence[Lapsed] = ()
    idle: Sequence[str] = ()  # messages of threads in which nobody writes any more
    # those that expired, each with the blocker that it was first
    blockers: Sequence[tuple[Entry, Entry]] = ()
    spared: Collection[tuple[str, str]] = ()
    agents: Sequence[Agent] = ()
    room: Room = Room()


class Plan(NamedTuple):
    """The acts to carry out, in this order, on the memory as it was at a cursor; and remarks."""

    acts: tuple[Act, ...]
    cursor: int
    now: int
    remarks: tuple[str, ...] = ()

    def phase(self, name: str) -> tuple[Act, ...]:
        return tuple(act for act in self.acts if act.phase == name)


def plan(state: State, now: int, settings: Settings, phases: Collection[str] = PHASES) -> Plan:
    """Return everything that these phases have to do. No entry is filed away twice."""
    acts: list[Act] = []
    filed: set[str] = set()
    restored = {id for id, phase in state.spared if phase == "enforce"}
    steps: dict[str, Callable[[], Iterator[Act]]] = {
        "merge": lambda: _merge(state, now, settings),
        "archive": lambda: _archive(state, settings),
        "enforce": lambda: enforce(state.room, now, settings, filed | restored),
    }
    for name, step in steps.items():
        for act in step() if name in phases else ():
            excluded = [id in filed or (id, name) in state.spared for id in act.ids]
            if not any(excluded) or (not all(excluded) and act.new_entry is None):
                filed.update(act.ids)
                acts.append(without(act, excluded))
    noted = remarks(state.room, settings) if "enforce" in phases else ()
    return Plan(tuple(acts), state.cursor, now, tuple(noted))


# -- merge -----------------------------------------------------------------------------------------


def _merge(state: State, now: int, settings: Settings) -> Iterator[Act]:
    """Yield acts that file away what was superseded, finish merges that were begun, and merge
    entries that say the same. What holds personal data, from before that was looked for, stays."""
    by_reason = sorted(state.superseded, key=lambda row: row.reason)
    for reason, rows in groupby(by_reason, key=lambda row: row.reason):
        yield from archive_acts("merge", reason, [(row.id, row.by) for row in rows])
    yield from archive_acts("merge", ALIKE, state.unfinished_merges)
    for group in chain(*map(near_duplicates, state.live)):
        if all((entry.id, "merge") not in state.spared for entry in group):
            for alike in portions(group):
                ids = tuple(entry.id for entry in alike)
                one = merged(alike, now)
                if len(ids) > 1 and not is_in(one.draft, settings):
                    yield Act("merge", "merge", ids, ALIKE, new_entry=one)


def may_have_more_merges(acts: Collection[Act]) -> bool:
    """Return whether entries may be left that say the same: there were too many for one to name
    them all, or some had to wait for a merge that was begun."""
    if any(act.reason == ALIKE and act.new_entry is None for act in acts):
        return True
    drafts = [
        act.new_entry.draft for act in acts if act.kind == "merge" and act.new_entry is not None
    ]
    return len({(draft.namespace, fingerprint(draft.body).words) for draft in drafts}) < len(drafts)


def near_duplicates(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return the groups of entries that may become one, each oldest first, in the order of the
    log."""
    # by a digest: the words of a hundred thousand entries are much to hold
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if may_merge(entry):
            key = sha256(repr((merge_key(entry), fingerprint(entry.body).words)).encode())
            groups.setdefault(key, []).append(entry)
    candidates = []
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda entry: entry.seq)
            newest = fingerprint(group[-1].body)
            candidates.append(
                [
                    entry
                    for entry in group
                    if similarity(fingerprint(entry.body), newest) >= THRESHOLD
                ]
            )
    return sorted((alike for alike in candidates if len(alike) > 1), key=lambda alike: alike[0].seq)


def may_merge(entry: Entry) -> bool:
    """Return whether an entry may go into another at all. A critical, private, unverified or
    disputed entry, or one under a topic, stays itself: a merge would wake agents again, widen its
    audience, settle a dispute, or lower what others rely on."""
    if entry.author == CONSOLIDATOR and not is_merged(entry):
        return False
    plain = (
        entry.topic is None
        and entry.scope not in SEALED
        and not entry.replaces
        and not entry.disputed
    )
    return plain and entry.priority != "critical" and entry.trust != "unverified"


def merged(alike: Sequence[Entry], now: int) -> NewEntry:
    """Return one entry that says what these say, in the words of the newest, with the least of
    their authorities."""
    newest, until = alike[-1], max(entry.expires for entry in alike)
    room = room_beside(newest) // 4
    draft = Draft(
        body=newest.body,
        namespace=newest.namespace,
        author=CONSOLIDATOR,
        priority=max((entry.priority for entry in alike), key=RANK.__getitem__),
        ttl="never" if until == NEVER else f"{max(-((now - until) // SECOND), 1)}s",
        addressees=newest.addressees,
        tags=fitting(chain((MERGED,), *(entry.tags for entry in alike)), room),
        related=fitting(chain(*(entry.related for entry in alike)), room),
        scope=newest.scope,
        derived_from=tuple(entry.id for entry in alike),
        timestamp=newest.timestamp,
        **{name: getattr(newest, name) for name in DETAILS},
    )
    return _new_entry(draft, alike, min(entry.authority for entry in alike))


# The fields that have to be the same, besides the words, for entries to be merged.
MERGE_KEY = ("namespace", "scope", "addressees", "priority", *DETAILS)
merge_key = attrgetter(*MERGE_KEY)


# -- archive ---------------------------------------------------------------------------------------


def _archive(state: State, settings: Settings) -> Iterator[Act]:
    """Yield acts that file away what has expired; a critical blocker that nobody resolved is
    escalated first."""
    open_blockers = {entry.id for entry, _ in state.blockers}
    for entry, first in state.blockers:
        recipients = next_above(entry, first, state.agents, settings)
        if recipients is None:
            yield Act("archive", "archive", (entry.id,), "past its time; the operator was told")
        else:
            reason = f"past its time and unresolved: told {' and '.join(recipients)}"
            yield Act(
                "archive",
                "escalate",
                (entry.id,),
                reason,
                new_entry=escalation(entry, recipients, settings),
            )
    past = [(row.id, "") for row in state.lapsed if row.id not in open_blockers]
    yield from archive_acts("archive", "past its time", past)
    yield from archive_acts(
        "archive",
        f"nobody wrote in its thread for {IDLE // DAY} days",
        [(id, "") for id in state.idle],
    )


def next_above(
    entry: Entry, first: Entry, agents: Sequence[Agent], settings: Settings
) -> tuple[str, ...] | None:
    """Return whom an unresolved blocker goes to: the agents of the next higher authority that may
    see the first blocker, else the operator; None where it was the operator's already."""
    authority = entry.authority
    if is_escalation(entry):
        if entry.addressees == (f"agent:{OPERATOR}",):
            return None
        addressed = [agent for agent in agents if f"agent:{agent.id}" in entry.addressees]
        authority = max(
            (authority_in(agent, entry.namespace, settings.flat) for agent in addressed),
            default=100,
        )
    ranks = {agent.id: authority_in(agent, entry.namespace, settings.flat) for agent in agents}
    superiors = [
        agent.id for agent in agents if ranks[agent.id] > authority and visible(first, agent)
    ]
    lowest = min((ranks[id] for id in superiors), default=0)
    return tuple(f"agent:{id}" for id in sorted(superiors) if ranks[id] == lowest) or (
        f"agent:{OPERATOR}",
    )


def escalation(entry: Entry, recipients: tuple[str, ...], settings: Settings) -> NewEntry:
    """Return the blocker, passed on. It reaches nobody who might not have seen the blocker itself,
    but the operator; of a sealed one it has the line that stands for its text."""
    sealed, entry = entry.scope in SEALED, shut(entry)
    tags = (kept(tag, settings) for tag in entry.tags)
    body = (
        entry.body
        if len(entry.body) <= _QUOTE
        else f"{entry.body[:_QUOTE]} ... (`synapse read {entry.id}`)"
    )
    room = room_beside(entry._replace(addressees=())) // 3
    head = (
        f"Nobody resolved this before its time was up. {entry.author} wrote it on"
        f" {seconds(entry.at)} ({entry.id}):"
    )
    draft = Draft(
        body=kept(body if is_escalation(entry) else f"{head}\n\n{body}", settings),
        namespace=entry.namespace,
        author=CONSOLIDATOR,
        priority=entry.priority,
        addressees=fitting(recipients, room),
        tags=fitting((ESCALATED, *tags), room),
        related=fitting((entry.id, *entry.related), room),
        derived_from=(entry.id,),
        scope="public" if sealed else entry.scope,
    )
    return _new_entry(draft, (entry,), entry.authority)


def is_escalation(entry: Entry) -> bool:
    return entry.author == CONSOLIDATOR and entry.trust != "unverified" and ESCALATED in entry.tags


# -- both ------------------------------------------------------------------------------------------


def _new_entry(draft: Draft, sources: Sequence[Entry], authority: int) -> NewEntry:
    return NewEntry(draft, authority, passed_on(entry.trust for entry in sources))
