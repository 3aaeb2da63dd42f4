"""`RemoteMemory`: the memory of a server as the token's agent has it, with the methods of
`AgentMemory`.

A method makes one request, and a second one where a page is marked as shown: that is noted after it
has arrived. What needs the folder is not here: `docs/how-to/remote.md` has the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synapse.acts import memory as acts
from synapse.client.address import Token, secret
from synapse.client.address import checked as checked_address
from synapse.client.arguments import moment
from synapse.client.remote import remote
from synapse.client.session import Session
from synapse.client.transport import TIMEOUT, Transport
from synapse.errors import InvalidEntry
from synapse.model.dates import When
from synapse.model.entry import Draft, Entry
from synapse.model.kinds import ENTRY, NO_MORE
from synapse.model.results import Event, Page, Rows
from synapse.system.checks import checked, fields_fit
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire.forms import SET_THERE, draft_json

if TYPE_CHECKING:
    from synapse.client.knowledge import RemoteKnowledge
    from synapse.client.mail import RemoteMail
    from synapse.view.view import View


def connect(address: str, token: Token = None, *, timeout: float = TIMEOUT) -> RemoteMemory:
    """Return the memory of a server, as the agent of the token has it; by default that of
    $SYNAPSE_TOKEN. `token` may be a function that gives it. An act, with all its tries, takes at
    most about `timeout` seconds. Nothing is sent before the first act.
    """
    return RemoteMemory(Transport(checked_address(address), secret(token), timeout))


def _note_page(memory: RemoteMemory, page: Page, given: Mapping[str, Any]) -> None:
    if page or not given["unread"]:
        memory.writer.shown([entry.id for entry in page], page.visible, page.cursor, "read")


def _note_view(memory: RemoteMemory, view: View, given: Mapping[str, Any]) -> None:
    count = len(view.included) + len(view.left_out)
    memory.writer.shown(view.shown, count, view.cursor, "briefing")


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

    append = remote(acts.append)

    @checked
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
        return self.append(**draft_json(draft), once=once)

    resolve = remote(acts.resolve)
    vouch = remote(acts.vouch)
    approve = remote(acts.approve)
    reject = remote(acts.reject)
    staged = remote(acts.staged)
    archive = remote(acts.archive)
    restore = remote(acts.restore)
    claim = remote(acts.claim)
    release = remote(acts.release)
    ack = remote(acts.ack)

    # -- reading -----------------------------------------------------------------------------------

    read = remote(acts.read, _note_page)
    briefing = remote(acts.briefing, _note_view)
    later = remote(acts.later)
    search = remote(acts.search)
    unread = remote(acts.unread)
    get = remote(acts.get)
    fate = remote(acts.fate)

    @checked
    def follow(
        self, since: When = None, *, critical: bool = False, timeout: float | None = None
    ) -> Iterator[Event]:
        """Return entries of others as they come, each once, from a cursor on, or a time (None: from
        now on). A connection that breaks is made anew, from the last cursor.
        """
        from synapse.client.stream import follow

        start = since if isinstance(since, int) else moment(since)
        return follow(self.transport, start, critical, timeout)

    @checked
    def log(
        self, since: When = None, limit: int = 0, before: str | None = None
    ) -> Rows[dict[str, Any]]:
        """Return what happened, as far as this agent may see it, oldest first; each act as
        `synapse log --json` prints it.
        """
        answer = self.transport.get("/v1/log", since=moment(since), limit=limit, before=before)
        return Rows(answer["acts"], answer.get("next"))
