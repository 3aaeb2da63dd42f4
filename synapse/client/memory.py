"""`RemoteMemory`: the memory of a server as the token's agent has it, with the methods of
`AgentMemory`.

A method makes one request, and a second one where a page is marked as shown: that is noted after it
has arrived. What needs the folder is not here: `docs/how-to/remote.md` has the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from synapse.client.address import Token, secret
from synapse.client.address import checked as checked_address
from synapse.client.arguments import Names, moment, path, several
from synapse.client.session import Session
from synapse.client.transport import TIMEOUT, Transport
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.dates import When
from synapse.model.entry import Draft, Entry, addressees, moments, words
from synapse.model.kinds import ENTRY, NO_MORE
from synapse.model.results import Event, Fate, Hits, Page
from synapse.system.checks import checked, fields_fit
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire import parse
from synapse.wire.forms import SET_THERE, draft_json

if TYPE_CHECKING:
    from synapse.access.claims import Claim
    from synapse.client.knowledge import RemoteKnowledge
    from synapse.client.mail import RemoteMail
    from synapse.view.view import View

FILED, BROUGHT_BACK = "archived by hand", "restored by hand"


def connect(address: str, token: Token = None, *, timeout: float = TIMEOUT) -> RemoteMemory:
    """Return the memory of a server, as the agent of the token has it; by default that of
    $SYNAPSE_TOKEN. `token` may be a function that gives it. An act, with all its tries, takes at
    most about `timeout` seconds. Nothing is sent before the first act.
    """
    return RemoteMemory(Transport(checked_address(address), secret(token), timeout))


@checked
class RemoteMemory(Session):
    """The memory of a server, as one agent. Thread-safe; close it, or use it in a `with`."""

    def __enter__(self) -> RemoteMemory:
        return self

    @property
    def mail(self) -> RemoteMail:
        """Return the agent's mail, with the methods of `Mail`."""
        from synapse.client.mail import RemoteMail

        return RemoteMail(self)

    @property
    def knowledge(self) -> RemoteKnowledge:
        """Return the facts, atoms, links and trails of the agent, with the functions of
        `synapse.knowledge`."""
        from synapse.client.knowledge import RemoteKnowledge

        return RemoteKnowledge(self)

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
        """Write an entry; it is durable when this returns."""
        draft = Draft(
            body,
            namespace,
            "",
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
        return self._write(draft, once)

    def write(self, draft: Draft, *, once: str | None = None) -> Entry:
        """Write what a draft of an entry says, as this agent. Messages and knowledge have methods
        of their own.
        """
        fields_fit(draft, "draft")
        if draft.kind != ENTRY or draft.more != NO_MORE:
            raise InvalidEntry(
                f"a draft of the kind {draft.kind} is not sent to a server: use"
                " `mail` and `knowledge`"
            )
        for name in SET_THERE:
            if getattr(draft, name) is not None:
                raise InvalidEntry(
                    f"a draft with {name} is not sent to a server: it is set there", field=name
                )
        return self._write(draft, once)

    def _write(self, draft: Draft, once: str | None) -> Entry:
        return parse.entry(self.transport.post("/v1/entries", draft_json(draft), once))

    def resolve(self, id: str, note: str | None = None, *, once: str | None = None) -> Entry:
        """Say that a blocker, or any entry, is done: it is no longer shown."""
        url = path("entries", self.known(id), "resolve")
        return parse.entry(self.transport.post(url, {"note": note}, once))

    def vouch(self, id: str) -> Entry:
        """Believe an unverified entry: from now on it counts as its author's."""
        return self._rule(id, "vouch")

    def approve(self, id: str) -> Entry:
        """Let a staged entry take effect."""
        return self._rule(id, "approve")

    def reject(self, id: str, reason: str | None = None) -> Entry:
        """Turn a staged entry away. It is never shown; its record stays."""
        return self._rule(id, "reject", {"reason": reason})

    def _rule(self, id: str, act: str, body: dict[str, Any] | None = None) -> Entry:
        url = path("entries", self.known(id), act)
        return parse.entry(self.transport.post_once(url, body))

    def staged(self) -> list[Entry]:
        """Return what waits for review: an agent's own entries, and those it may rule on."""
        return parse.entries(self.transport.get("/v1/staged")["entries"])

    def archive(self, ids: Names, reason: str = FILED) -> list[Entry]:
        """File entries away: out of every page, still readable and searchable as archived ones."""
        return self._file("archive", ids, reason)

    def restore(self, ids: Names, reason: str = BROUGHT_BACK) -> list[Entry]:
        """Bring archived entries back to the place they had."""
        return self._file("restore", ids, reason)

    def _file(self, act: str, ids: Names, reason: str) -> list[Entry]:
        body = {"ids": list(words(ids)), "reason": reason}
        return parse.entries(self.transport.post_once(path(act), body)["entries"])

    def claim(
        self, work: str, *, minutes: int = 30, note: str | None = None, once: str | None = None
    ) -> Claim:
        """Lease a piece of work, or extend one's own lease."""
        body = {"work": work, "minutes": minutes, "note": note}
        return parse.claim(self.transport.post("/v1/claims", body, once))

    def release(self, work: str, *, once: str | None = None) -> Claim:
        """Give a piece of work back before its time."""
        body = {"work": work}
        return parse.claim(self.transport.post("/v1/claims/release", body, once))

    def ack(self, ids: Names, *, once: str | None = None) -> list[str]:
        """Say that entries which were delivered to this agent have reached it; their ids."""
        body = {"ids": list(words(ids))}
        answer: list[str] = self.transport.post("/v1/acks", body, once)["ids"]
        return answer

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
        others that it was not shown, as an `UnreadPage`. `mark` notes that this page was shown.
        """
        form = self.transport.get(
            "/v1/entries",
            since=moment(since),
            priority=several(priority),
            namespace=several(namespace),
            author=author,
            tag=tag,
            limit=limit,
            archived=archived,
            unread=unread,
            budget=budget,
        )
        page = parse.page(form)
        if mark and (page or not unread):
            self.writer.shown([entry.id for entry in page], page.visible, page.cursor, "read")
        return page

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
        moments: bool = True,
        without: Collection[str] = (),
        quick: bool = False,
    ) -> View:
        """Return the agent's view: what it should know now, within an exact number of tokens."""
        form = self.transport.get(
            "/v1/briefing",
            budget=budget,
            department=department,
            as_of=moment(as_of),
            encoding=encoding,
            until=until,
            only=only,
            commands=None if commands else "false",
            about=about or None,
            moments=None if moments else "false",
            without=several(tuple(without)),
            quick=quick,
        )
        view = parse.view(form)
        if mark:
            of = len(view.included) + len(view.left_out)
            self.writer.shown(view.shown, of, view.cursor, "briefing")
        return view

    def later(self, as_of: str | int, department: str | None = None) -> list[Entry]:
        """Return what has come since a time that this agent would be shown now."""
        form = self.transport.get("/v1/later", as_of=moment(as_of), department=department)
        return parse.entries(form["entries"])

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
        """Return what answers the query best, of every kind, among what this agent may see."""
        if limit < 0:
            raise InvalidQuery(f"limit {limit} is negative", limit=limit)
        form = self.transport.get(
            "/v1/search",
            q=query,
            limit=limit,
            namespace=several(namespace),
            kind=several(kind),
            author=author,
            priority=several(priority),
            tag=tag,
            since=moment(since),
            until=moment(until),
            when=when,
            archived=archived,
            mode=mode,
        )
        return parse.hits(form)

    def unread(self) -> int:
        """Return how many live entries of others this agent has not been shown."""
        return int(self.transport.get("/v1/unread")["unread"])

    def follow(
        self, since: When = None, *, critical: bool = False, timeout: float | None = None
    ) -> Iterator[Event]:
        """Return entries of others as they come, each once, from a cursor on, or a time (None: from
        now on). A connection that breaks is made anew, from the last cursor.
        """
        from synapse.client.stream import follow

        start = since if isinstance(since, int) else moment(since)
        return follow(self.transport, start, critical, timeout)

    def log(self, since: When = None, limit: int = 0) -> list[dict[str, Any]]:
        """Return what happened, as far as this agent may see it, oldest first; each act as
        `synapse log --json` prints it.
        """
        answer: list[dict[str, Any]] = self.transport.get(
            "/v1/log", since=moment(since), limit=limit
        )["acts"]
        return answer

    def get(self, id: str) -> Entry:
        """Return one entry, whatever became of it, if this agent may see it."""
        return parse.entry(self.transport.get(path("entries", self.known(id))))

    def fate(self, id: str) -> Fate | None:
        """Return why an entry is not shown now: by whose act or entry, and until when."""
        url = path("entries", self.known(id), "fate")
        return parse.fate(self.transport.get(url)["fate"])
