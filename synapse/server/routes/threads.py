"""Threads of mail over HTTP: which there are, what was said in one, and what is done with it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from synapse.acts.act import LARGEST
from synapse.mail.mailbox import Mail
from synapse.model.message import ACTIVE, Thread, thread_columns
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes.parameters import Body, Flag, Id, Texts
from synapse.wire.forms import message_json

router = APIRouter(tags=["mail"], responses=responses(404, 409))
EVERY = "all"
Most = Annotated[int, Query(ge=0, le=LARGEST)]


class Closing(Body):
    """`summary` leaves a fact: its text, or true for the lines that say the most."""

    summary: str | Flag = False


class Tags(Body):
    add: Texts = ()
    remove: Texts = ()


class Subject(Body):
    subject: str


class Nothing(Body):
    """An empty object."""


@router.get("/threads", response_model=shapes.Threads)
def threads(
    request: Request, memory: Reader, status: str = ACTIVE, tag: str | None = None, limit: Most = 50
) -> Response:
    """Return the threads of a status, or of `all`, most active first."""
    state = None if status == EVERY else status
    rows = Mail(memory).threads(state, tag=tag, limit=limit)
    return conditional(request, {"threads": [thread_columns(thread) for thread in rows]})


@router.get("/threads/{id}", response_model=shapes.Thread)
def get(id: Id, request: Request, memory: Reader) -> Response:
    """Return one thread, if the agent may see any of it."""
    return conditional(request, thread_columns(Mail(memory).thread(id)))


@router.get("/threads/{id}/messages", response_model=shapes.Messages)
def messages(
    id: Id, request: Request, memory: Reader, limit: Most = 100, before: str | None = None
) -> Response:
    """Return the newest messages of a thread, oldest first, archived ones too."""
    history = Mail(memory).history(id, limit, before=before)
    return conditional(request, {"messages": [message_json(message) for message in history]})


@router.post("/threads/{id}/close", response_model=shapes.Thread)
def close(id: Id, closing: Closing, memory: Writer) -> Response:
    """Say that a thread is done: it takes no more messages until it is reopened."""
    return _changed(Mail(memory).close(id, summary=closing.summary))


@router.post("/threads/{id}/reopen", response_model=shapes.Thread)
def reopen(id: Id, memory: Writer, said: Nothing | None = None) -> Response:
    """Let a closed thread take messages again."""
    return _changed(Mail(memory).reopen(id))


@router.post("/threads/{id}/tag", response_model=shapes.Thread)
def tag(id: Id, tags: Tags, memory: Writer) -> Response:
    """Tag a thread, or take tags off it."""
    return _changed(Mail(memory).tag(id, tags.add, remove=tags.remove))


@router.post("/threads/{id}/rename", response_model=shapes.Thread)
def rename(id: Id, subject: Subject, memory: Writer) -> Response:
    """Give a thread another subject."""
    return _changed(Mail(memory).rename(id, subject.subject))


def _changed(thread: Thread) -> Response:
    return made(thread_columns(thread))
