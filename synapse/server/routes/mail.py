"""Mail over HTTP: messages, and what is done with one.

An attachment is a link, or what the sender measured of a file of its own: no path that a caller
names is opened here.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from synapse.errors import InvalidEntry
from synapse.mail.mailbox import Mail
from synapse.model.message import Message
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Flag, Id, Limit, Once, Texts
from synapse.wire.forms import message_json

router = APIRouter(tags=["mail"], responses=responses(404, 409))
Attachments = Annotated[tuple[str | dict[str, Any], ...], Field(max_length=100)]
_LINKS = {
    name: {"operationId": id, "parameters": {"id": "$response.body#/id"}}
    for name, id in (
        ("get", "get_message"),
        ("reply", "reply_to_message"),
        ("edit", "edit_message"),
        ("ack", "ack_message"),
    )
}


class Answer(Body):
    """What a message says. Without addressees an answer goes to all that it was addressed to."""

    body: str
    to: str | list[str] | None = None
    subject: str | None = None
    priority: str = "normal"
    metadata: dict[str, Any] | None = None
    attachments: Attachments = ()
    pii: Flag = False


class NewMessage(Answer):
    thread: str | None = None
    tags: Texts = ()
    scope: str = "public"


class Version(Body):
    body: str
    subject: str | None = None


class Acknowledgement(Body):
    body: str | None = None


class Sign(Body):
    """A reaction, or one that is taken back."""

    reaction: str
    remove: Flag = False


class Received(Body):
    ids: Annotated[list[str], Field(max_length=1_000)]


@router.post(
    "/messages", status_code=201, response_model=shapes.Message, responses={201: {"links": _LINKS}}
)
def send(draft: NewMessage, memory: Writer, once: Once = None) -> Response:
    """Send a message to an agent, a team, several of them, or `all`."""
    values = _values(draft)
    message = Mail(memory).send(values.pop("to"), values.pop("body"), **values, once=once)
    return _sent(message)


@router.get("/messages/{id}", operation_id="get_message", response_model=shapes.Message)
def get(id: Id, request: Request, memory: Reader) -> Response:
    """Return one message with its receipts."""
    return conditional(request, message_json(Mail(memory).get(id)))


@router.post(
    "/messages/{id}/reply",
    operation_id="reply_to_message",
    status_code=201,
    response_model=shapes.Message,
)
def reply(id: Id, draft: Answer, memory: Writer, once: Once = None) -> Response:
    """Answer a message, in its thread."""
    values = _values(draft)
    return _sent(Mail(memory).reply(id, values.pop("body"), **values, once=once))


@router.post(
    "/messages/{id}/edit",
    operation_id="edit_message",
    status_code=201,
    response_model=shapes.Message,
)
def edit(id: Id, version: Version, memory: Writer, once: Once = None) -> Response:
    """Replace a message of one's own by a new version, which is unread again."""
    return _sent(Mail(memory).edit(id, version.body, subject=version.subject, once=once))


@router.post("/messages/{id}/ack", operation_id="ack_message", response_model=shapes.Message)
def ack(id: Id, said: Acknowledgement, memory: Writer, once: Once = None) -> Response:
    """Acknowledge a message, with an answer for its author or without."""
    return made(message_json(Mail(memory).ack(id, said.body, once=once)))


@router.post("/messages/{id}/react", response_model=shapes.Message)
def react(id: Id, sign: Sign, memory: Writer) -> Response:
    """Add a reaction to a message, or take one's own back."""
    return made(message_json(Mail(memory).react(id, sign.reaction, remove=sign.remove)))


@router.get("/inbox/unread", response_model=shapes.MailUnread)
def unread(request: Request, memory: Reader, agent: str | None = None) -> Response:
    """Return the number of unread messages. The operator names whose."""
    return conditional(request, {"unread": Mail(memory).poll(agent)})


@router.get("/inbox", response_model=shapes.Messages)
def inbox(
    request: Request, memory: Reader, limit: Limit = None, agent: str | None = None
) -> Response:
    """Return the unread messages, oldest first. `POST /v1/inbox/read` notes what was read."""
    messages = Mail(memory).inbox(limit, agent=agent)
    return conditional(request, {"messages": [message_json(message) for message in messages]})


@router.post("/inbox/read", response_model=shapes.Ids)
def read(received: Received, memory: Writer, once: Once = None) -> Response:
    """Note that these messages were read; those of them that had not been."""
    return made({"ids": Mail(memory).read(received.ids, once=once)})


def _values(draft: Answer) -> dict[str, Any]:
    for source in draft.attachments:
        if isinstance(source, str) and "://" not in source:
            raise InvalidEntry(
                "an attachment over HTTP is a link, or an object with a path and what was"
                " measured of the file: the server opens no files of its callers"
            )
    return draft.model_dump()


def _sent(message: Message) -> Response:
    return made(message_json(message), 201, f"/v1/messages/{message.id}")
