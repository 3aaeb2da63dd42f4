"""Mail: the threads that a reader may see, and one thread with its messages."""

from __future__ import annotations

from fastapi import Request, Response

from synapse.mail.mailbox import Mail
from synapse.model.message import ACTIVE, STATUSES
from synapse.server.callers import Reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages

router = pages()
THREADS, MESSAGES = 50, 100


@router.get("/threads")
def threads(request: Request, memory: Reader, status: str = ACTIVE) -> Response:
    """Show the threads of a status, the most active first."""
    chosen = status if status in STATUSES else None
    rows = Mail(memory).threads(chosen, limit=THREADS + 1)
    return frame_of(request).answer(
        request,
        "threads.html",
        threads=rows[:THREADS],
        more=len(rows) > THREADS,
        shown=chosen or "any",
        statuses=(*STATUSES, "any"),
    )


@router.get("/threads/{id}")
def thread(request: Request, id: str, memory: Reader, before: str = "") -> Response:
    """Show a thread with its newest messages, or those before one of them."""
    mail = Mail(memory)
    shared = mail.thread(id)
    messages = mail.history(shared.id, MESSAGES + 1, before=before or None)
    depths: dict[str, int] = {}  # how deep each stands below what it answers
    for message in messages:
        depth = depths.get(message.parent or "", -1)
        depths[message.id] = min(depth + 1, 4)
    return frame_of(request).answer(
        request,
        "thread.html",
        thread=shared,
        messages=messages[-MESSAGES:],
        older=len(messages) > MESSAGES,
        depths=depths,
    )
