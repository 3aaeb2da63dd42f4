"""The act of an agent that hands a sealed entry on: it is shared with one more who may read it."""

from __future__ import annotations

from synapse.access.gate import Access


def share(access: Access, id: str, to: str) -> str:
    """Share a sealed entry with one more agent, as one that can open it; the id of the key that it
    is shared with. Nothing is rewritten: a record has what the other's key opens.
    """
    store = access.store
    access.writing_agent()
    name = to.removeprefix("agent:")
    if name not in store.agents.all():
        raise store.agents.unregistered(name)
    fields = store.keyring.share(access.entry(id), access.id, name)
    access.writer.act("share", **fields)
    return str(fields["to"])
