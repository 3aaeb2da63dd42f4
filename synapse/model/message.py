"""Messages and threads as a reader has them, and as rows of the unified-brain document. Values.

Nothing here reads the log. Attached files are read once, when they are attached.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from synapse.errors import InvalidEntry, NotFound
from synapse.model.clock import iso, micros
from synapse.model.entry import Entry
from synapse.system.typed import Any, NamedTuple

ACTIVE, CLOSED, ARCHIVED = STATUSES = ("active", "closed", "archived")


class Mark(NamedTuple):
    """An agent's read receipt, acknowledgement (`text` is its answer) or reaction (`text` is
    how)."""

    agent: str
    at: int
    text: str | None = None


class Message(NamedTuple):
    """A message with its receipts, as far as the reader may know them. `created` is when its first
    version was received, `updated` when this one was; None where it was never edited."""

    entry: Entry
    created: int
    updated: int | None
    reads: tuple[Mark, ...] = ()
    acks: tuple[Mark, ...] = ()
    reactions: tuple[Mark, ...] = ()

    @property
    def id(self) -> str:
        """Return the id of the message."""
        return self.entry.id

    @property
    def thread(self) -> str:
        """Return the id of its thread."""
        return str(self.entry.more["thread"])

    @property
    def parent(self) -> str | None:
        """Return the message that it answers, under the id that it had then."""
        return self.entry.more.get("parent")

    @property
    def subject(self) -> str | None:
        """Return its subject, if it has one."""
        return self.entry.more.get("subject")

    @property
    def body(self) -> str:
        """Return its text."""
        return self.entry.body

    @property
    def sender(self) -> str:
        """Return who sent it."""
        return self.entry.author

    @property
    def priority(self) -> str:
        """Return the sender's word for its priority: info, normal, action or urgent."""
        return str(self.entry.more["urgency"])

    @property
    def status(self) -> str:
        """Return `acknowledged` or `read` where somebody did, else `sent`."""
        return "acknowledged" if self.acks else "read" if self.reads else "sent"


class Thread(NamedTuple):
    """A thread as one reader has it: of the messages that it may see, how many there are, the first
    and the last.
    """

    id: str
    subject: str | None
    created_by: str
    created: int
    last: int
    total: int
    status: str
    tags: tuple[str, ...] = ()


def said_at(entry: Entry) -> int:
    """Return when it was first said: where it was taken over from elsewhere, that stands in
    `when`."""
    try:
        return entry.at if entry.when is None else micros(entry.when)
    except InvalidEntry:
        return entry.at


def attachment(source: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a message holds of a file or a page: where it is, never the thing itself. Of a
    file the size and the digest too, by which a reader sees whether it is still the same."""
    if not isinstance(source, str):
        if not isinstance(source, Mapping) or not ({"path", "url"} & {*source}):
            raise InvalidEntry("an attachment names a path or a url")
        return source
    if "://" in source:
        return {"url": source}
    from hashlib import sha256

    path, digest, size = os.path.abspath(os.path.expanduser(source)), sha256(), 0
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise NotFound(f"{source} cannot be attached: {error.strerror}", path=source) from error
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}


def columns(message: Message) -> dict[str, Any]:
    """Return a message as a row of the table `messages` of the unified-brain document."""
    names = [name.removeprefix("agent:") for name in message.entry.addressees if name != "all"]
    return {
        "id": message.id,
        "thread_id": message.thread,
        "parent_id": message.parent,
        "from_agent": message.sender,
        "to_agent": ",".join(names) or None,
        "priority": message.priority,
        "subject": message.subject,
        "body": message.body,
        "status": message.status,
        "created_at": iso(message.created),
        "updated_at": None if message.updated is None else iso(message.updated),
        "metadata": message.entry.more.get("metadata") or {},
    }


def receipt_rows(message: Message) -> list[dict[str, Any]]:
    """Return the rows of the document's table `read_receipts` that are of this message."""
    return [
        {"message_id": message.id, "agent_id": mark.agent, "read_at": iso(mark.at)}
        for mark in message.reads
    ]


def ack_rows(message: Message) -> list[dict[str, Any]]:
    """Return the rows of its table `acks`."""
    return [
        {
            "message_id": message.id,
            "agent_id": mark.agent,
            "ack_body": mark.text,
            "acked_at": iso(mark.at),
        }
        for mark in message.acks
    ]


def thread_columns(thread: Thread) -> dict[str, Any]:
    """Return a thread as a row of its table `threads`."""
    return {
        "id": thread.id,
        "subject": thread.subject,
        "created_by": thread.created_by,
        "created_at": iso(thread.created),
        "last_message_at": iso(thread.last),
        "message_count": thread.total,
        "status": thread.status,
        "tags": list(thread.tags),
    }


def as_json(message: Message) -> dict[str, Any]:
    """Return a message as `--json` prints it: the document's columns, and its receipts."""
    fields = columns(message) | {"tags": list(message.entry.tags), "trust": message.entry.trust}
    fields["attachments"] = list(message.entry.more.get("attachments", ()))
    fields["read_by"] = [{"agent": mark.agent, "at": iso(mark.at)} for mark in message.reads]
    fields["acks"] = [
        {"agent": mark.agent, "at": iso(mark.at), "body": mark.text} for mark in message.acks
    ]
    fields["reactions"] = [
        {"agent": mark.agent, "at": iso(mark.at), "reaction": mark.text}
        for mark in message.reactions
    ]
    return fields
