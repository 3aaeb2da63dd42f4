"""A briefing: which entries an agent's view is made of, now or as of an earlier time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter

from synapse.authority import visible
from synapse.errors import InvalidQuery
from synapse.index.derive.corrections import corrected, steps_of
from synapse.index.past import Past, past_of
from synapse.index.replay import snapshot_of
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent
from synapse.model.clock import parse_since
from synapse.model.conditions import is_for_a_moment
from synapse.model.entry import SEALED, SECOND, Entry
from synapse.model.namespace import is_component
from synapse.model.worth import Worth
from synapse.store import Store
from synapse.view import recall, view
from synapse.view.view import About, LeftOut, View

AT_ITS_MOMENT = "it is told at the moment that it is for (when)"
WEIGHTY = 1_000
RECENT = 1_000
ADDRESSED = 64  # of the newest info that is addressed to an agent
_HOUR = 3_600 * SECOND
Opened = Callable[[Iterable[Entry]], list[Entry]]
_BY_SEQ = attrgetter("seq")


def brief(
    store: Store,
    agent: Agent | None,
    project: str | None = None,
    *,
    budget: int | None = None,
    department: str | None = None,
    as_of: str | int | None = None,
    encoding: str = "o200k_base",
    until: int | None = None,
    only: str | None = None,
    commands: bool = True,
    about: str = "",
    worth: Worth | None = None,
    moments: bool = True,
    without: Collection[str] = (),
    quick: bool = False,
    opened: Opened | None = None,
) -> View:
    """Return the view of an agent, or of what all agents of a department may see.

    `project` is that of the agent's run. As of a time, the view is what the log held then; `until`
    a cursor, no more than that, so that a view with its `at` and `cursor` can be made again. `only`
    one priority: of the others, the view has no more than their number. Without `commands`, it
    names none of the shell's; without `moments`, it has nothing that is for a moment of its own,
    and says so of each. What the words of a text find that it is `about` stands at its end; with
    `worth`, the view is what pays. Entries that the reader has `without` it are not there; `quick`
    estimates the tokens of an entry that was never counted, and loads no tokenizer. `opened` opens
    what is sealed; without it, a line says for whom it is.
    """
    if worth is not None and not isinstance(worth, Worth):
        raise InvalidQuery(
            f"worth is {worth!r:.60}: write what synapse.model.worth.Worth gives, or none",
            worth=str(worth),
        )
    with store.snapshot(look=True, words=bool(about)) as live:
        now = store.clock()
        snap: Snapshot | Past = live
        if as_of is not None:
            now = _moment(as_of, now)
            then = None if about or worth else past_of(live, agent, now, until)
            snap = then or past(store, now, until, words=bool(about))
            agent = snap.declared.get(agent.id, agent).joined(project) if agent else None
        entries = chosen(snap, agent, now)
        matches: About = {}
        if agent is not None and department is None and (about or worth):
            assert isinstance(snap, Snapshot)  # a past one is for views about nothing
            entries, matches = _for_task(snap, agent, about, entries, now)
        if as_of is not None and until is None and live.names.contained:
            # what was tainted since is in no later view, of whichever moment that is
            entries = [entry for entry in entries if not live.is_tainted(entry.id)]
        if department is not None:
            entries = _common(snap, entries, _members(snap, department), now)
        if without:
            entries = [entry for entry in entries if entry.id not in without]
        later: list[Entry] = []
        if not moments:
            later = [entry for entry in entries if entry.when and is_for_a_moment(entry)]
            seqs = {entry.seq for entry in later}
            entries = [entry for entry in entries if entry.seq not in seqs] if later else entries
        title = None if department is None else f"department {department}"
        shown_before = (
            None if agent is None or department is not None else partial(_shown, snap, agent)
        )
        sealed = any(entry.scope in SEALED for entry in entries)
        if sealed:
            entries = opened(entries) if opened else _shut(entries)
        tokens = store.tokens(encoding, quick=quick, keep=not sealed)
        result = view.build(
            entries,
            agent,
            now,
            tokens.measure,
            budget,
            title=title,
            encoding=encoding,
            only=only,
            shown=shown_before,
            commands=commands,
            about=matches,
            worth=worth,
        )
    left_out = (*result.left_out, *(LeftOut(entry.id, AT_ITS_MOMENT) for entry in later))
    return result._replace(cursor=snap.cursor, at=now, left_out=left_out)


def _shut(entries: Iterable[Entry]) -> list[Entry]:
    from synapse.trust.keyring import shut

    return [shut(entry) for entry in entries]


def chosen(snap: Snapshot | Past, agent: Agent | None, now: int) -> list[Entry]:
    """Return what a view is made of, in the order of the log: all that is critical or important,
    and the info of the last day. The day ends on a whole hour, so that entries leave together and a
    prompt's beginning lasts.
    """
    heavy = snap.page(agent, Filter(("critical", "important"), limit=WEIGHTY, mail=True), now)
    since = (now - 24 * _HOUR) // (6 * _HOUR) * (6 * _HOUR)
    light = snap.page(agent, Filter(("info",), since=since, limit=RECENT), now)
    return sorted((*heavy, *light), key=_BY_SEQ)


def _for_task(
    snap: Snapshot, agent: Agent, text: str, entries: list[Entry], now: int
) -> tuple[list[Entry], About]:
    """Return the entries with those that a text's words find and those addressed to the agent, and
    what was found.
    """
    matched = recall.matches(snap, agent, text, now) if text else []
    addressed = snap.to_reader(agent, now, ADDRESSED)
    unique = {
        entry.seq: entry for entry in (*addressed, *(match.entry for match in matched), *entries)
    }
    by_seq = {match.entry.seq: (match.share, match.best) for match in matched}
    return sorted(unique.values(), key=_BY_SEQ), by_seq


def _shown(snap: Snapshot | Past, agent: Agent, entries: Sequence[Entry]) -> frozenset[int]:
    """Return the places of those of these entries that the agent wrote, or was shown as of a
    cursor.
    """
    floor, named_entries = snap.seen(agent, entries[0].seq, entries[-1].seq)
    return named_entries.union(
        entry.seq for entry in entries if entry.seq <= floor or entry.author == agent.id
    )


def past(store: Store, at: int, cursor: int | None = None, *, words: bool = False) -> Snapshot:
    """Return what the index was at a time, or a cursor, derived anew from the log up to there."""

    records = list(store.log.since(0))
    times = corrected(records, steps_of(records))
    earlier = [
        record
        for record, timed in zip(records, times, strict=True)
        if timed.at <= at and (cursor is None or record.seq <= cursor)
    ]
    return snapshot_of(store.log, earlier, words=words)


def later(
    store: Store, agent: Agent | None, as_of: str | int, department: str | None
) -> list[Entry]:
    """Return what has come since a time that would be seen now, oldest first."""
    with store.snapshot(look=True) as snap:
        now = store.clock()
        entries = snap.page(agent, Filter(since=_moment(as_of, now) + 1, limit=None), now)
        members = [] if department is None else _members(snap, department)
        return _common(snap, entries[::-1], members, now)


def _moment(as_of: str | int, now: int) -> int:
    moment = parse_since(as_of, now)
    assert moment is not None
    return moment


def _common(
    snap: Snapshot | Past, entries: list[Entry], members: list[Agent], now: int
) -> list[Entry]:
    """Return those of the entries, and of their disputes, that every one of these agents may
    see.
    """

    def shared(entry: Entry | None) -> bool:
        return entry is not None and all(visible(entry, agent) for agent in members)

    def with_disputes(entry: Entry) -> Entry:
        return entry._replace(
            disputed=tuple(id for id in entry.disputed if shared(snap.entry(id, now)))
        )

    return [with_disputes(entry) if entry.disputed else entry for entry in entries if shared(entry)]


def _members(snap: Snapshot | Past, department: str) -> list[Agent]:
    if not is_component(department):
        raise InvalidQuery(f"department {department!r} is not a valid name", department=department)
    members = [agent for agent in snap.declared.values() if agent.department == department]
    if not members:
        raise InvalidQuery(f"no agent is of the department {department}", department=department)
    return members
