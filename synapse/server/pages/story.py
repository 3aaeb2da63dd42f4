"""One entry and its story: who wrote it, where it came from, who was shown it, what became of it,
and what a reader may do about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from synapse.agent_memory import AgentMemory
from synapse.core import asks_operator
from synapse.errors import Conflict, Forbidden, InvalidEntry, NotFound
from synapse.history.sentences import Act, page_of_acts
from synapse.index.questions.containment import reach
from synapse.knowledge.provenance import why
from synapse.model.entry import DOUBTFUL, Entry
from synapse.model.entry_fields import DETAILS
from synapse.server.callers import Operator, Reader, gate_of, known, reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import back, form, pages
from synapse.system.typed import NamedTuple

router = pages()
ACTS, DEEP, MADE = 200, 6, 100
Form = Annotated[dict[str, str], Depends(form)]
DONE = {
    "resolve": "resolved",
    "approve": "approved",
    "reject": "rejected",
    "vouch": "vouched",
    "archive": "archived",
    "restore": "restored",
}


class Came(NamedTuple):
    """What came of an entry: what was made of it, what may be affected by it, how many of each are
    not named, to whom it was shown (None: not the reader's to know), and the runs in whose prompts
    it stood, each with its agent.
    """

    made: list[Entry]
    may: list[Entry]
    unnamed: int
    agents: tuple[str, ...] | None
    prompts: tuple[tuple[str, str], ...] = ()


@router.get("/entries/{id}")
def story(request: Request, id: str, memory: Reader) -> Response:
    """Show an entry with its story."""
    entry = memory.get(id)
    return frame_of(request).answer(
        request,
        "story.html",
        entry=entry,
        details=DETAILS,
        fate=memory.fate(id),
        trail=why(memory, id, DEEP),
        may=_offered(request, entry),
        asks=known(request).operator and asks_operator(gate_of(request).memory, entry),
    )


@router.get("/entries/{id}/acts")
def happened(request: Request, id: str, memory: Reader) -> Response:
    """Show what was done to an entry: a part, for the acts of a long log take a moment."""
    id = memory.get(id).id
    if known(request).operator:
        records = gate_of(request).memory.audit(entry=id, limit=ACTS)
        acts = [Act(record) for record in reversed(records)]
    else:
        acts = page_of_acts(memory, ACTS, entry=id)
    return frame_of(request).answer(request, "acts.html", acts=acts)


@router.get("/entries/{id}/reach")
def came_of_it(request: Request, id: str, memory: Reader) -> Response:
    """Show what was made of an entry: a part, for it takes one look at all entries."""
    entry = memory.get(id)
    memory.store.refresh()
    with memory.store.snapshot() as snap:
        reached = reach(snap, [entry.id])
        rows = snap.deliveries(entry=entry.id) if known(request).operator else []
    derived = _visible(memory, [id for id in reached.made if id != entry.id])
    may = _visible(memory, [id for id in reached.may if id != entry.id])
    lists = derived[:MADE], may[:MADE]
    came = Came(
        *lists,
        len(derived) + len(may) - sum(map(len, lists)),
        reached.agents if known(request).operator else None,
        tuple(sorted({(row["run"], row["agent"]) for row in rows if row["run"]})),
    )
    return frame_of(request).answer(request, "reach.html", came=came)


@router.post("/entries/{id}/answer")
def answer(id: str, memory: Operator, fields: Form) -> Response:
    """Answer a blocker or a question to the operator: its author is told, and it is done."""
    entry = memory.store.entry(id)
    if not asks_operator(memory, entry):
        raise Conflict(f"nobody waits for an answer to {id}", id=id)
    memory.tell(f"agent:{entry.author}", fields.get("body", ""), re=id)
    return back(fields, f"/entries/{id}", "answered")


@router.post("/entries/{id}/{verb}")
def rule(request: Request, id: str, verb: str, fields: Form) -> Response:
    """Do what a button of an entry says."""
    if verb not in DONE:
        raise NotFound(f"nothing is called {verb}", id=id)
    caller = known(request)
    if caller.read_only:
        raise Forbidden("this login may read alone", agent=caller.agent, action=verb)
    memory, text = reader(request), fields.get("text", "").strip()
    acts: dict[str, Callable[[], Any]] = {
        "resolve": lambda: memory.resolve(id, text or None),
        "approve": lambda: memory.approve(id),
        "reject": lambda: memory.reject(id, text or None),
        "vouch": lambda: memory.vouch(id),
        "archive": lambda: memory.archive(id),
        "restore": lambda: memory.restore(id),
    }
    if len(text) > 10_000:
        raise InvalidEntry("a note is at most 10,000 characters long")
    acts[verb]()
    return back(fields, f"/entries/{id}", DONE[verb])


def _visible(memory: AgentMemory, ids: list[str]) -> list[Entry]:
    entries = []
    for id in ids:
        try:
            entries.append(memory.get(id))
        except NotFound:
            continue
    return entries


def _offered(request: Request, entry: Entry) -> list[str]:
    """Return the acts whose buttons stand there. Whether one is allowed, the library says."""
    if known(request).read_only:
        return []
    if entry.staged:
        return ["approve", "reject"]
    closed = ["restore"] if entry.archived else ["resolve", "archive"]
    return closed + (["vouch"] if entry.trust in DOUBTFUL else [])
