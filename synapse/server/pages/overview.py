"""The overview: what waits for somebody, who was active, and what is new."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from synapse.agent_memory import AgentMemory
from synapse.errors import NotFound
from synapse.model import clock
from synapse.model.results import Page
from synapse.server.callers import Operator, Reader, gate_of, known
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import back, form, pages

router = pages()
NEWEST, LISTED, DAYS = 8, 5, 14


@router.get("/")
def overview(request: Request, memory: Reader) -> Response:
    """Show the overview."""
    frame = frame_of(request)
    workspace = gate_of(request).memory
    is_operator = known(request).operator
    critical = _critical(memory)
    questions = workspace.questions() if is_operator else None
    listed = {question.id for question in questions or ()}
    urgent = [entry for entry in critical if entry.id not in listed]
    blockers = memory.read(namespace="blockers/*", limit=2 * LISTED)
    listed |= {entry.id for entry in urgent}
    others = [entry for entry in blockers if entry.id not in listed][:LISTED]
    listed |= {entry.id for entry in others}
    newest = memory.read(limit=NEWEST + len(listed))
    waiting = memory.staged()
    last_seen = [  # of all agents for the operator, else of the reader alone
        row for row in workspace.last_seen().items() if memory.agent is None or row[0] == memory.id
    ]
    return frame.answer(
        request,
        "overview.html",
        newest=[entry for entry in newest if entry.id not in listed][:NEWEST],
        all=newest.visible,
        critical=critical,
        urgent=urgent,
        blockers=blockers,
        other_blockers=others,
        waiting=waiting,
        questions=questions,
        unread=None if is_operator else memory.unread(),
        active=sorted(last_seen, key=lambda row: -row[1])[:12],
        names=frozenset(agent.id for agent in workspace.agents()),
        cards=frame.cards(request),
    )


@router.get("/days")
def days(request: Request, memory: Reader) -> Response:
    """Show how much was written on each of the last days: a part, for each day is counted."""
    return frame_of(request).answer(request, "days.html", days=_days(memory))


@router.post("/questions/{id}/answer")
def answer(
    request: Request, id: str, memory: Operator, fields: Annotated[dict[str, str], Depends(form)]
) -> Response:
    """Answer a question to the operator; it is done with that."""
    questions = {question.id: question for question in memory.questions()}
    if id not in questions:
        raise NotFound(f"{id} is no open question to the operator", id=id)
    question = questions[id]
    memory.tell(f"agent:{question.author}", fields.get("body", ""), re=question.id)
    return back(fields, "/", "answered")


def _critical(memory: AgentMemory) -> Page:
    """Return what is critical and stands, newest first: of others, for what the reader said needs
    nothing of it.
    """
    own = memory.read(priority="critical", author=memory.id)
    page = memory.read(priority="critical", limit=LISTED + own.visible)
    entries = [entry for entry in page if entry.author != memory.id]
    return Page(entries[:LISTED], page.cursor, lambda: page.visible - own.visible)


def _days(memory: AgentMemory) -> list[tuple[int, int]]:
    """Return how many entries of each of the last days are live, as seconds and counts."""
    midnight = memory.store.clock() // clock.DAY * clock.DAY
    counts, newer = [], 0
    for back_by in range(DAYS):
        start = midnight - back_by * clock.DAY
        since = memory.read(since=clock.iso(start - 1), limit=1).visible
        counts.append((start // 1_000_000, since - newer))
        newer = since
    return counts[::-1]
