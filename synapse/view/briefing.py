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
from synapse.system.tokens import DEFAULT
from synapse.system.typed import NamedTuple
from synapse.view import fit, members, recall, view
from synapse.view.view import About, Fits, LeftOut, View

AT_ITS_MOMENT = "it is told at the moment that it is for (when)"
WEIGHTY = 1_000
RECENT = 1_000
ADDRESSED = 64  # of the newest info that is addressed to an agent
_HOUR = 3_600 * SECOND
Opened = Callable[[Iterable[Entry]], list[Entry]]
_BY_SEQ = attrgetter("seq")


class Request(NamedTuple):
    """What a view is asked for. All of it is the reader's; none of it is read from the log.

    `as_of` a time, the view is what the log held then; `until` a cursor, no more than that, so that
    a view with its `at` and `cursor` can be made again. `only` one priority: of the others, the
    view has no more than their number. Without `commands`, it names none of the shell's; without
    `moments`, it has nothing that is for a moment of its own, and says so of each. What the words
    of a text find that it is `about` stands at its end; with `worth`, the view is what pays.
    Entries that the reader has `without` it are not there; `quick` estimates the tokens of an entry
    that was never counted, and loads no tokenizer.
    """

    budget: int | None = None
    department: str | None = None
    as_of: str | int | None = None
    encoding: str = DEFAULT
    until: int | None = None
    only: str | None = None
    commands: bool = True
    about: str = ""
    worth: Worth | None = None
    moments: bool = True
    without: Collection[str] = ()
    quick: bool = False


class Moment(NamedTuple):
    """A time, the index and the agent as of it, and the index as it is now."""

    now: int
    snap: Snapshot | Past
    agent: Agent | None
    live: Snapshot


class Choice(NamedTuple):
    """The entries of a view in the order of the log, what of them its task's words found, how well
    they fit its reader and its task, and those that are left to the moment that they are for.
    """

    entries: list[Entry]
    about: About
    fits: Fits
    later: list[Entry]


def brief(
    store: Store,
    agent: Agent | None,
    request: Request,
    project: str | None = None,
    opened: Opened | None = None,
) -> View:
    """Return the view of an agent, or of what all agents of a department may see.

    `project` is that of the agent's run. `opened` opens what is sealed; without it, a line says for
    whom it is.
    """
    worth = request.worth
    if worth is not None and not isinstance(worth, Worth):
        raise InvalidQuery(
            f"worth is {worth!r:.60}: write what synapse.model.worth.Worth gives, or none",
            worth=str(worth),
        )
    store.refresh()
    with store.snapshot(words=bool(request.about)) as live:
        moment = _moment_of(store, live, agent, request, project)
        return render(store, moment, choose(moment, request), request, opened)


def _moment_of(
    store: Store, live: Snapshot, agent: Agent | None, request: Request, project: str | None
) -> Moment:
    """Return the moment that a view is asked for: now, or an earlier one."""
    now = store.clock()
    if request.as_of is None:
        return Moment(now, live, agent, live)
    now = _time(request.as_of, now)
    rows = None if request.about or request.worth else past_of(live, agent, now, request.until)
    snap = rows or past(store, now, request.until, words=bool(request.about))
    if agent is not None:
        agent = snap.declared.get(agent.id, agent).joined(project)
    return Moment(now, snap, agent, live)


def choose(moment: Moment, request: Request) -> Choice:
    """Return the entries that a view is made of."""
    now, snap, agent, live = moment
    members = [] if request.department is None else _members(snap, request.department)
    entries = _by_any(agent, members, lambda reader: candidates(snap, reader, now))
    about: About = {}
    fits: Fits = {}
    if request.department is not None:
        entries = _common(snap, entries, members, now)
    elif agent is not None and (request.about or request.worth):
        assert isinstance(snap, Snapshot)  # a past one is for views about nothing
        entries, about, fits = _for_task(snap, agent, request.about, entries, now)
    if snap is not live and request.until is None and live.names.contained:
        # what was tainted since is in no later view, of whichever moment that is
        entries = [entry for entry in entries if not live.is_tainted(entry.id)]
    if request.without:
        entries = [entry for entry in entries if entry.id not in request.without]
    if request.moments:
        return Choice(entries, about, fits, [])
    later = [entry for entry in entries if entry.when and is_for_a_moment(entry)]
    seqs = {entry.seq for entry in later}
    return Choice([entry for entry in entries if entry.seq not in seqs], about, fits, later)


def render(
    store: Store, moment: Moment, choice: Choice, request: Request, opened: Opened | None = None
) -> View:
    """Return the view of these entries, within the request's budget."""
    now, snap, agent, _ = moment
    entries, department = choice.entries, request.department
    sealed = any(entry.scope in SEALED for entry in entries)
    if sealed:
        entries = opened(entries) if opened else _shut(entries)
    tokens = store.index.tokens(request.encoding, quick=request.quick, keep=not sealed)
    result = view.build(
        entries,
        agent,
        now,
        tokens.measure,
        request.budget,
        title=None if department is None else f"department {department}",
        encoding=request.encoding,
        only=request.only,
        shown=partial(_shown, snap, agent) if agent and department is None else None,
        commands=request.commands,
        about=choice.about,
        fits=choice.fits,
        worth=request.worth,
    )
    left_out = (*result.left_out, *(LeftOut(entry.id, AT_ITS_MOMENT) for entry in choice.later))
    return result._replace(cursor=snap.cursor, at=now, left_out=left_out)


def _shut(entries: Iterable[Entry]) -> list[Entry]:
    from synapse.trust.keyring import shut

    return [shut(entry) for entry in entries]


def candidates(snap: Snapshot | Past, agent: Agent | None, now: int) -> list[Entry]:
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
) -> tuple[list[Entry], About, Fits]:
    """Return the entries with those that a text's words find and those addressed to the agent, what
    was found, and how well they fit the agent and its task.
    """
    team = members.Team(text, agent, snap.declared.values())
    matched = recall.matches(snap, agent, team.asked, now) if text else []
    addressed = snap.to_reader(agent, now, ADDRESSED)
    unique = {
        entry.seq: entry for entry in (*addressed, *(match.entry for match in matched), *entries)
    }
    by_seq = {match.entry.seq: (match.share, match.best) for match in matched}
    by_seq |= {entry.seq: (1.0, True) for entry in recall.on_topic(team.asked, entries)}
    fits = fit.fits(team, unique.values(), by_seq)
    return sorted(unique.values(), key=_BY_SEQ), by_seq, fits


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
    store.refresh()
    with store.snapshot() as snap:
        now = store.clock()
        since = Filter(since=_time(as_of, now) + 1, limit=None)
        members = [] if department is None else _members(snap, department)
        entries = _by_any(agent, members, lambda reader: snap.page(reader, since, now)[::-1])
        return _common(snap, entries, members, now)


def _time(as_of: str | int, now: int) -> int:
    time = parse_since(as_of, now)
    assert time is not None
    return time


def _by_any(
    agent: Agent | None, members: list[Agent], read: Callable[[Agent | None], list[Entry]]
) -> list[Entry]:
    """Return what the agent reads; for the operator, who sees what stands in the place of an entry
    for one member alone, what any of the members reads.
    """
    if agent is not None or not members:
        return read(agent)
    entries = {entry.seq: entry for member in members for entry in read(member)}
    return [entries[seq] for seq in sorted(entries)]


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
