"""Short references to items, as capsules show them, and the item that one means.

`fact_3f2a1c9d@b2c4d` is the fact whose id begins so and whose text's sha256 begins with b2c4d. A
short form means something only among what its reader may see: whatever else begins alike is not
there.
"""

from __future__ import annotations

import re

from synapse.agent_memory import AgentMemory
from synapse.errors import Conflict, NotFound
from synapse.index.questions.links import alike
from synapse.knowledge.capsule import digest, short
from synapse.model.entry import Entry

_FORM = re.compile(
    r"((?:syn|fact|atom)_[0-9a-f]{6,12}|syn-[A-Za-z0-9_-]{1,76})(?:@([0-9a-f]{5,64}))?"
)


def resolve_reference(me: AgentMemory, text: str) -> Entry:
    """Return the item that a reference means: a whole or a short id, with a hash or without."""
    form = _FORM.fullmatch(text)
    if form is None:
        return me.get(text)
    id, hash = form[1], form[2] or ""
    entry = (
        _matching(me, id)
        if not id.startswith("syn-") and len(id.partition("_")[2]) < 12
        else me.get(id)
    )
    if not digest(entry).startswith(hash):
        problem = f"{id} does not say what {text} said: it is {short(entry)}"
        raise Conflict(problem, id=entry.id, version=short(entry))
    return entry


def _matching(me: AgentMemory, start: str) -> Entry:
    matches: list[Entry] = []
    me.store.refresh()
    with me.store.snapshot() as snap:
        ids = alike(snap, start)
    for id in ids:
        try:
            matches.append(me.get(id))
        except NotFound:
            continue  # not this reader's
    if not matches:
        raise NotFound(f"there is no entry {start} that {me.id} may see", id=start)
    if len(matches) > 1:
        names = ", ".join(entry.id for entry in matches)
        raise Conflict(f"{start} may be any of {names}: write more of it", id=start)
    return matches[0]
