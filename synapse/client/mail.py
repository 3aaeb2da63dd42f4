"""`RemoteMail`: the mail of the token's agent, with the methods of `Mail`.

A file that is attached is read here, where it lies: a message holds its place and digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synapse.client.arguments import Names, path
from synapse.client.session import Session
from synapse.errors import Forbidden
from synapse.model.entry import words
from synapse.model.message import ACTIVE, Message, Thread, attachment
from synapse.system.checks import checked
from synapse.system.typed import Any
from synapse.wire import parse


@checked
class RemoteMail:
    """An agent's mail on a server."""

    def __init__(self, agent_memory: Session) -> None:
        self.agent_memory = agent_memory
        self.transport = agent_memory.transport

    def send(
        self,
        to: Names,
        body: str,
        *,
        subject: str | None = None,
        thread: str | None = None,
        priority: str = "normal",
        metadata: Mapping[str, Any] | None = None,
        attachments: Iterable[str | Mapping[str, Any]] = (),
        tags: Names = (),
        scope: str = "public",
        pii: bool = False,
        once: str | None = None,
    ) -> Message:
        """Send a message to an agent, a team, several of them, or `all`."""
        form = _message_form(body, to, subject, priority, metadata, attachments)
        form |= {"thread": thread, "tags": list(words(tags)), "scope": scope}
        form |= {"pii": pii}
        return self._act(path("messages"), form, once)

    def reply(
        self,
        id: str,
        body: str,
        *,
        to: Names = None,
        subject: str | None = None,
        priority: str = "normal",
        metadata: Mapping[str, Any] | None = None,
        attachments: Iterable[str | Mapping[str, Any]] = (),
        pii: bool = False,
        once: str | None = None,
    ) -> Message:
        """Answer a message, in its thread."""
        form = _message_form(body, to, subject, priority, metadata, attachments)
        form |= {"pii": pii}
        return self._act(self._place(id, "reply"), form, once)

    def edit(
        self, id: str, body: str, *, subject: str | None = None, once: str | None = None
    ) -> Message:
        """Replace a message of one's own by a new version, which is unread again."""
        form = {"body": body, "subject": subject}
        return self._act(self._place(id, "edit"), form, once)

    def poll(self, agent: str | None = None) -> int:
        """Return the number of unread messages, without loading them."""
        return int(self.transport.get("/v1/inbox/unread", agent=agent)["unread"])

    def inbox(
        self, limit: int | None = None, *, agent: str | None = None, mark: bool = False
    ) -> list[Message]:
        """Return the unread messages, oldest first. `mark` records that these were read, once they
        have arrived.
        """
        if mark and agent not in (None, self.agent_memory.id):
            raise Forbidden("only the agent itself can mark its mail as read", action="mark")
        answer = self.transport.get("/v1/inbox", limit=limit, agent=agent)
        messages = [parse.message(form) for form in answer["messages"]]
        if mark and messages:
            self.read([message.id for message in messages])
        return messages

    def read(self, ids: Names, *, once: str | None = None) -> list[str]:
        """Note that these messages were read; those of them that had not been."""
        form = {"ids": list(words(ids))}
        answer: list[str] = self.transport.post("/v1/inbox/read", form, once)["ids"]
        return answer

    def ack(self, id: str, body: str | None = None, *, once: str | None = None) -> Message:
        """Acknowledge a message, with an answer for its author or without."""
        return self._act(self._place(id, "ack"), {"body": body}, once)

    def react(self, id: str, reaction: str, *, remove: bool = False) -> Message:
        """Add a reaction to a message, or take one's own back."""
        form = {"reaction": reaction, "remove": remove}
        return parse.message(self.transport.post_once(self._place(id, "react"), form))

    # -- threads -----------------------------------------------------------------------------------

    def get(self, id: str) -> Message:
        """Return one message with its receipts, acknowledgements and reactions."""
        return parse.message(self.transport.get(self._place(id)))

    def threads(
        self, status: str | None = ACTIVE, *, tag: str | None = None, limit: int = 50
    ) -> list[Thread]:
        """Return the threads of a status (None: of any), most active first."""
        answer = self.transport.get(
            "/v1/threads", status=status or "all", tag=tag, limit=max(limit, 0)
        )
        return [parse.thread(form) for form in answer["threads"]]

    def thread(self, id: str) -> Thread:
        """Return one thread, if this agent may see any of it."""
        return parse.thread(self.transport.get(self._thread(id)))

    def history(self, thread: str, limit: int = 100, *, before: str | None = None) -> list[Message]:
        """Return the newest messages of a thread, or the newest before one of them, oldest first,
        archived ones too."""
        url = self._thread(thread, "messages")
        answer = self.transport.get(url, limit=max(limit, 0), before=before)
        return [parse.message(form) for form in answer["messages"]]

    def close(self, thread: str, *, summary: str | bool = False) -> Thread:
        """Say that a thread is done; `summary` leaves a fact of it."""
        return self._change(thread, "close", {"summary": summary})

    def reopen(self, thread: str) -> Thread:
        return self._change(thread, "reopen", {})

    def tag(self, thread: str, add: Names = (), *, remove: Names = ()) -> Thread:
        """Tag a thread, or take tags off it."""
        form = {"add": list(words(add)), "remove": list(words(remove))}
        return self._change(thread, "tag", form)

    def rename(self, thread: str, subject: str) -> Thread:
        return self._change(thread, "rename", {"subject": subject})

    # -- below -------------------------------------------------------------------------------------

    def _act(self, place: str, form: Mapping[str, Any], once: str | None) -> Message:
        return parse.message(self.transport.post(place, form, once))

    def _change(self, thread: str, act: str, form: Mapping[str, Any]) -> Thread:
        return parse.thread(self.transport.post_once(self._thread(thread, act), form))

    def _place(self, id: str, *act: str) -> str:
        return path("messages", self.agent_memory.known(id), *act)

    def _thread(self, id: str, *act: str) -> str:
        return path("threads", self.agent_memory.known(id), *act)


def _message_form(
    body: str,
    to: Names,
    subject: str | None,
    priority: str,
    metadata: Mapping[str, Any] | None,
    attachments: Iterable[str | Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "body": body,
        "to": None if to is None else list(words(to)),
        "subject": subject,
        "priority": priority,
        "metadata": metadata,
        "attachments": [dict(attachment(source)) for source in attachments],
    }
