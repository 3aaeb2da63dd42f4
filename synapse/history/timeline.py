"""Questions of time: what is new, what an agent did, how a project went.

Only what the asking agent memory may see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from synapse.agent_memory import AgentMemory
from synapse.authority import sees_work
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.history.sentences import page_of_acts, sentence
from synapse.model import clock
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.entry import NEVER, Entry
from synapse.model.kinds import KINDS, MAIL
from synapse.model.namespace import check_glob, is_component
from synapse.model.results import Rows
from synapse.system.typed import NamedTuple

RUN = "run"
# where what concerns a project stands, below its name
PLACES = ("projects", "status", "blockers", "decisions", "plans")


class Moment(NamedTuple):
    """Something that happened: when, of which kind, to which item, by whom, where, and how it
    begins.
    """

    at: int
    kind: str
    id: str
    by: str
    where: str
    text: str

    @property
    def time(self) -> str:
        return clock.seconds(self.at)


def recent(
    me: AgentMemory,
    since: When = "24h",
    kinds: Iterable[str] = (),
    limit: int | None = 50,
    before: str | None = None,
) -> Rows[Moment]:
    """Return what was written lately, of all kinds or of some, newest first."""
    kind_set = frozenset(kinds) or frozenset(KINDS)
    for kind in kind_set:
        if kind not in KINDS:
            raise InvalidEntry(f"kind {kind!r} is not one of {', '.join(KINDS)}", kind=kind)
    entries: list[Entry] = []
    if kind_set != {"message"}:
        entries += me.read(since=since)
    if "message" in kind_set:
        entries += me.read(since=since, namespace=MAIL)
    page = _newest((_written(entry) for entry in entries if entry.kind in kind_set), limit, before)
    page.reverse()
    return page


def agent_acts(
    me: AgentMemory, agent: str, since: When = None, limit: int = 0, before: str | None = None
) -> Rows[Moment]:
    """Return what an agent wrote, decided and ran: the newest so many, oldest first."""
    if me.store.agents.get(agent) is None:
        raise me.store.agents.unregistered(agent)
    acts = page_of_acts(me, limit, before, agent=agent, since=since)
    moments = (
        Moment(
            act_entry.record.at,
            act_entry.record.kind,
            act_entry.record.id or "",
            agent,
            "",
            sentence(act_entry),
        )
        for act_entry in acts
    )
    return Rows(moments, acts.next)


def timeline(
    me: AgentMemory, project: str, since: When = None, limit: int = 0, before: str | None = None
) -> Rows[Moment]:
    """Return the history of a project, archived entries too: plans, decisions, status, blockers,
    runs, oldest first."""
    if not is_component(project):
        raise InvalidEntry(
            f"project {project!r} is not valid: lower-case letters, digits, - and _",
            project=project,
        )
    globs = [check_glob(f"{folder}/{project}/*") for folder in PLACES]
    entries = {
        entry.id: entry
        for away in (False, True)
        for entry in me.read(since=since, namespace=globs, archived=away)
    }
    runs = _runs(me, project, parse_since(since, me.store.clock()) or 0, limit, before)
    return _newest((*map(_written, entries.values()), *runs), limit or None, before)


def _newest(moments: Iterable[Moment], limit: int | None, before: str | None) -> Rows[Moment]:
    """Return the newest moments ahead of another, oldest first. Times are never written again, and
    no item has two moments at once.
    """
    found = sorted(moments, key=_key)
    if before is not None:
        found = found[: bisect_left(found, _place(before), key=_key)]
    if limit is None or limit >= len(found):
        return Rows(found)
    page = found[len(found) - limit :]
    return Rows(page, f"{page[0].at}.{page[0].id}" if page else None)


def _key(moment: Moment) -> tuple[int, str]:
    return moment.at, moment.id


def _place(before: str) -> tuple[int, str]:
    at, _, id = before.partition(".")
    if at.isascii() and at.isdigit() and len(at) < 19 and id:
        return int(at), id
    raise InvalidQuery(f"{before!r} is no `next` of an answer", before=before)


def _runs(
    me: AgentMemory, project: str, floor: int, limit: int, before: str | None
) -> Iterator[Moment]:
    """Yield when the runs of a project began and ended: the newest so many, and one that tells
    whether there are more. Their tasks stand in their entries.
    """
    agent = None if sees_work(me.agent, "", project) else me.id
    end = (NEVER, "") if before is None else _place(before)
    with me.store.snapshot() as snap:
        times = snap.run_times(project, agent, floor, end, limit + 1 if limit else -1)
    for run, by, parent, status, at in times:
        began = "began" + (f" for {parent}" if parent else "")
        yield Moment(at, RUN, run, by, "", began if status is None else f"ended: {status}")


def _written(entry: Entry) -> Moment:
    subject = entry.more.get("subject", "") if entry.kind == "message" else ""
    first = entry.body.partition("\n")[0]
    return Moment(
        entry.at,
        entry.kind,
        entry.id,
        entry.author,
        entry.namespace,
        f"{subject}: {first}" if subject else first,
    )
