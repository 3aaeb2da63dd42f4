"""The memory as one agent has it. Every act is one agent's, and every read passes the read gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from synapse.access import review, staging
from synapse.access.gate import Access, after
from synapse.access.writer import Writer
from synapse.authority import (
    TAKEN,
    admit,
    authorities_of,
    check_when,
    may_close,
    may_replace,
    may_say,
)
from synapse.errors import Conflict, Forbidden, InvalidEntry, InvalidQuery, NotFound
from synapse.index.reading import asks_again
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.entry import (
    DOUBTFUL,
    Draft,
    Entry,
    addressees,
    check_priority,
    moments,
    parse_ttl,
    words,
)
from synapse.model.records import Guard, Record, all_of, entry_of
from synapse.model.results import Event, Fate, Hits, Page, UnreadPage
from synapse.search import pages
from synapse.store import Store
from synapse.system.checks import checked, fields_fit
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.access.claims import Claim
    from synapse.model.worth import Worth
    from synapse.view.view import View

Names = str | Iterable[str] | None
PAGES = 64


@asks_again(*"staged read briefing later search unread get fate".split())
@checked
class AgentMemory:
    """One agent at the memory, or the operator, who sees everything, rules on all and writes none;
    with a run, the agent in that incarnation of it, a member of the run's project."""

    def __init__(self, store: Store, id: str, run: str | None = None, epoch: int = 0) -> None:
        self.store = store
        self.id = id
        self.writer = Writer(store, id, run, epoch)
        self.access = Access(store, self.writer, id)
        self._pages: dict[object, tuple[object, int, Page]] = {}
        self._unread: tuple[object, int, int] = (None, 0, 0)
        self.access.agent()

    @property
    def agent(self) -> Agent | None:
        """Return the agent as registered, with a run as a member of its project; None is the
        operator.
        """
        return self.access.agent()

    # -- writing -----------------------------------------------------------------------------------

    def append(
        self,
        body: str,
        namespace: str,
        *,
        priority: str = "info",
        ttl: str | None = None,
        tags: Names = (),
        to: Names = "all",
        topic: str | None = None,
        supersedes: Names = None,
        related: Names = (),
        scope: str = "public",
        pii: bool = False,
        derived_from: Names = (),
        evidence: str | None = None,
        once: str | None = None,
        when: Names = None,
    ) -> Entry:
        """Write an entry; it is durable when this returns. With `once`, a second call with the same
        key writes nothing and returns the first entry. `when` names the moment of which agents are
        told it: `run git push`. NotFound where `to` names an agent that there is none of.
        """
        draft = Draft(
            body,
            namespace,
            self.id,
            priority=priority,
            ttl=ttl,
            addressees=addressees(to),
            tags=words(tags),
            related=words(related),
            replaces=words(supersedes),
            topic=topic or None,
            scope=scope,
            pii=pii,
            derived_from=words(derived_from),
            evidence=evidence,
            when=moments(when),
        )
        self.access.check_addressees(draft.addressees)
        return self._write(draft, once=once)

    def write(self, draft: Draft, *, once: str | None = None, unless: Guard | None = None) -> Entry:
        """Write what a draft says, of whatever kind, as this agent, where the guard holds. A
        message, a fact or an atom brings its id.
        """
        fields_fit(draft, "draft")
        return self._write(draft, once=once, unless=unless)

    def _write(
        self, draft: Draft, *, once: str | None = None, unless: Guard | None = None
    ) -> Entry:
        agent = self.access.writing_agent()
        if draft.author != self.id:
            draft = draft._replace(author=self.id)
        if draft.when is not None:
            check_when(draft)
        if draft.ttl is not None and parse_ttl(draft.ttl) == 0:
            raise InvalidEntry(
                f"ttl {draft.ttl!r} is over at once: write a longer one, such as 30m or 7d",
                ttl=draft.ttl,
            )
        runs = kinds.items_of(draft.more.get("cites") or ())
        trust = self.access.trust(draft.namespace, draft.derived_from, runs)
        entry = admit(draft, agent, self.store.settings, trust=trust)
        if draft.more.get("source") == TAKEN:
            sources = map(self.access.entry, draft.derived_from)
            least = min([entry.authority, *authorities_of(self.id, sources)])
            entry = entry._replace(authority=least)
        for id in entry.replaces:
            may_replace(agent, self.access.entry(id), entry)
        entry = self.store.allowances.admit(entry)
        fields, key = self.access.sight(), None
        if entry.staged:
            key, unless = staging.KEY, all_of(staging.room(self.store), unless)
            staging.expire(self.store)
        record = Record.new("entry", self.id, fields, entry, key=key)
        try:
            return entry_of(self.writer.write(record, once=once, unless=unless))
        except Conflict as error:
            raise staging.refusal(self.store, error) from error

    def resolve(
        self,
        id: str,
        note: str | None = None,
        *,
        once: str | None = None,
        unless: Guard | None = None,
    ) -> Entry:
        """Say that a blocker, or any entry, is done: it is no longer shown."""
        agent, entry = self.access.ruling_agent(), self.access.entry(id)
        if agent is not None:
            may_close(agent, entry, self.store.settings, "resolve")
        review.refuse_staged(entry, "resolve")
        if note:
            may_say(agent, "give a note of its own to resolve")
        fields = {"entry": id} | ({"note": note} if note else {})
        self.writer.write(Record.new("resolve", self.id, fields), once=once, unless=unless)
        return after(partial(self.access.entry, id), entry)

    def vouch(self, id: str) -> Entry:
        """Believe an unverified entry: from now on it counts as its author's."""
        return review.vouch(self.access, id)

    def approve(self, id: str) -> Entry:
        """Let a staged entry take effect, here and now; one that was proposed for others has these
        filed away.
        """
        return review.approve(self.access, id)

    def reject(self, id: str, reason: str | None = None) -> Entry:
        """Turn a staged entry away. It is never shown; its record stays."""
        return review.reject(self.access, id, reason)

    def staged(self) -> list[Entry]:
        """Return what waits for review: an agent's own entries, and those it may rule on."""
        waiting = review.staged(self.access)
        self.access.noticed(waiting)
        return self.access.opened(waiting)

    def archive(self, ids: Names, reason: str | None = None) -> list[Entry]:
        """File entries away: out of every page, still readable and searchable as archived ones."""
        return review.file(self.access, words(ids), "archive", reason or review.FILED)

    def restore(self, ids: Names, reason: str | None = None) -> list[Entry]:
        """Bring archived entries back to the place they had."""
        return review.file(self.access, words(ids), "restore", reason or review.BROUGHT_BACK)

    def claim(
        self, work: str, *, minutes: int = 30, note: str | None = None, once: str | None = None
    ) -> Claim:
        """Lease a piece of work, or extend one's own lease: nobody else gets it until it ends.
        Conflict says who holds it and until when. A lease ends with the run that took it.
        """
        from synapse.access import claims

        agent = self.access.writing_agent()
        if note:
            may_say(agent, "give a note to a claim")
        return claims.take(self.writer, work, minutes, note, once, self.store.clock())

    def release(self, work: str, *, once: str | None = None) -> Claim:
        """Give a piece of work back before its time."""
        from synapse.access import claims

        self.access.writing_agent()
        return claims.release(self.writer, work, once, self.store.clock())

    def ack(self, ids: Names, *, once: str | None = None) -> list[str]:
        """Say that entries which were delivered to this agent have reached it; their ids."""
        self.access.writing_agent()
        acked = [self.access.entry(id).id for id in words(ids)]
        if not acked:
            raise InvalidEntry("nothing to acknowledge: name at least one entry")
        with self.store.snapshot() as snap:
            delivered = {id: snap.deliveries(agent=self.id, entry=id) for id in acked}
        for id, deliveries in delivered.items():
            if not deliveries:
                raise NotFound(f"{id} was not delivered to {self.id}", id=id)
        self.writer.delivery("acked", acked, "said so", once)
        return acked

    # -- reading -----------------------------------------------------------------------------------

    def read(
        self,
        *,
        since: When = None,
        priority: Names = None,
        namespace: Names = None,
        author: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        archived: bool = False,
        unread: bool = False,
        budget: int | None = None,
        mark: bool = False,
    ) -> Page:
        """Return the live entries that this agent may see, newest first; with `unread`, those of
        others that it was not shown, the most urgent first, as an `UnreadPage`, and of these what
        fits into `budget` tokens. A plain read writes nothing; `mark` notes, with one record, that
        the entries of this page were shown.
        """
        query = (
            since,
            priority if isinstance(priority, str) else tuple(priority or ()),
            namespace if isinstance(namespace, str) else tuple(namespace or ()),
            author,
            tag,
            limit,
            archived,
        )
        if budget is not None and not unread:
            raise InvalidQuery(
                "a budget bounds what is unread: say unread too, or ask for a briefing",
                budget=budget,
            )
        self.store.refresh()
        page = self._unread_page(budget, *query) if unread else self._current(query)
        if self.writer.run is not None:
            self.access.noticed(page)
        if mark:
            self.access.writing_agent()
            if page or not unread:
                self.writer.shown([entry.id for entry in page], page.visible, page.cursor, "read")
        return page

    def _current(self, asked: tuple[Any, ...]) -> Page:
        """Return a page of what is live, the one that was made before where it is still true."""
        now = self.store.clock()
        with self.store.snapshot(late=True) as snap:  # refreshed a moment ago
            true_at, until, page = self._pages.get(asked, (None, 0, None))
            if page is None or true_at != snap.mark or now >= until:
                page, until = pages.page(self.store, self.access.agent(), snap, now, *asked)
                page.entries = tuple(self.access.opened(page.entries))
                if len(self._pages) >= PAGES:
                    self._pages.clear()
                self._pages[asked] = (snap.mark, until, page)
        return page

    def _unread_page(self, budget: int | None, *asked: Any) -> UnreadPage:
        from synapse.view import news

        agent = self.access.agent()
        if agent is None:
            raise Forbidden("the operator has no inbox; ask as an agent")
        return news.unread(
            self.store, agent, pages.filters(self.store.clock(), *asked), budget, self.access.opened
        )

    def briefing(
        self,
        budget: int | None = None,
        *,
        department: str | None = None,
        as_of: str | int | None = None,
        encoding: str = "o200k_base",
        mark: bool = False,
        until: int | None = None,
        only: str | None = None,
        commands: bool = True,
        about: str = "",
        worth: Worth | None = None,
        moments: bool = True,
        without: Collection[str] = (),
        quick: bool = False,
    ) -> View:
        """Return the agent's view: what it should know now, within an exact number of tokens.
        `mark` notes that the entries whose text is in it were shown: it went into a session's
        prompt. `only` one priority leaves the others out; `until` a cursor, with `as_of`, makes an
        earlier view again. Without `commands` it names none of the shell's; without `moments`, what
        is for a moment of its own (`when`) is left to whoever tells it then. `about` is the text of
        a task: what its words find in all that the agent may see stands whole at the end. With
        `worth`, only what pays is there. `without` are the ids of entries that its reader has
        already; `quick` estimates the tokens of what was never counted, and loads no tokenizer.
        """
        from synapse.view.briefing import Request, brief

        if mark:
            self.access.writing_agent()
        request = Request(
            budget=budget,
            department=department,
            as_of=as_of,
            encoding=encoding,
            until=until,
            only=check_priority(only) if only else None,
            commands=commands,
            about=about,
            worth=worth,
            moments=moments,
            without=without,
            quick=quick,
        )
        agent, project = self.access.agent(), self.writer.project()
        view = brief(self.store, agent, request, project, self.access.opened)
        if self.writer.run is not None and any(trust in view.text for trust in DOUBTFUL):
            self.access.noticed_ids(entry.id for entry in view.included)
        if mark:
            self.writer.shown(
                view.shown, len(view.included) + len(view.left_out), view.cursor, "briefing"
            )
        return view

    def later(self, as_of: str | int, department: str | None = None) -> list[Entry]:
        """Return what has come since a time that this agent would be shown now: what a view as of
        then did not have.
        """
        from synapse.view.briefing import later

        entries = later(self.store, self.access.agent(), as_of, department)
        self.access.noticed(entries)
        return self.access.opened(entries)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        namespace: Names = None,
        kind: Names = None,
        author: str | None = None,
        priority: Names = None,
        tag: str | None = None,
        since: When = None,
        until: When = None,
        when: str | None = None,
        archived: bool = False,
        mode: str | None = None,
    ) -> Hits:
        """Return what answers the query best, of every kind, among what this agent may see: by its
        `words`, by its `meaning`, or by `both`; without a mode, as the settings say. Times may be
        phrases: `last tuesday`.
        """
        from synapse.search.search import Asked, find

        self.store.refresh()
        filters = Asked(limit, namespace, kind, author, priority, tag, since, until, when, archived)
        hits = find(self.store, self.access.agent(), query, filters, mode)
        self.access.noticed(hit.entry for hit in hits)
        opened = self.access.opened(hit.entry for hit in hits)
        pairs = zip(hits, opened, strict=True)
        hits.hits = tuple(hit._replace(entry=entry) for hit, entry in pairs)
        return hits

    def unread(self) -> int:
        """Return how many live entries of others this agent has not been shown."""
        now = self.store.clock()
        with self.store.snapshot() as snap:
            mark, until, count = self._unread
            if mark != snap.mark or now >= until:
                agent = self.access.agent()
                if agent is None:
                    raise Forbidden("the operator has no inbox; ask as an agent")
                count, until = snap.unread(agent, now)
                self._unread = (snap.mark, until, count)
        return count

    def follow(
        self, since: When = None, *, critical: bool = False, timeout: float | None = None
    ) -> Iterator[Event]:
        """Return entries of others as they come, each once, from a cursor on, or a time (None: from
        now on).
        """
        from synapse import notify

        cursor = start_cursor(self.store, since)
        follower = notify.Follower(self.store, self.access.agent, cursor, critical)
        events = notify.follow(follower, self.store.log.pipes, self.store.refresh, timeout)
        return self.access.following(events)

    def get(self, id: str) -> Entry:
        """Return one entry, whatever became of it, if this agent may see it."""
        self.store.refresh()
        entry = self.access.entry(id)
        self.access.noticed((entry,))
        return self.access.opened((entry,))[0]

    def fate(self, id: str) -> Fate | None:
        """Return why an entry is not shown now: by whose act or entry, and until when. None where
        it is shown.
        """
        self.store.refresh()
        with self.store.snapshot() as snap:
            fate = snap.fate(self.access.entry(id), self.store.clock(), self.access.agent())
            return fate if fate is None or self.access.may_name(fate.by) else fate._replace(by="")


def start_cursor(store: Store, since: When = None) -> int:
    """Return the cursor from which a log is followed: a cursor, a time, or None for its end.
    InvalidQuery for a cursor that the log does not have.
    """
    store.refresh()
    with store.snapshot() as snap:
        end = snap.cursor
        if since is not None and not isinstance(since, int):
            since = min(snap.floor(parse_since(since, store.clock())), end)
    if since is not None and since > end:
        raise InvalidQuery(
            f"cursor {since} is beyond the log's end, {end}: it is another log's, or this was cut"
        )
    return end if since is None else since


Seat = AgentMemory  # its name before, which programs may import
