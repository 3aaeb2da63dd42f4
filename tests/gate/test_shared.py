"""The shared store gives out what `authority.visible` allows."""

import pytest

from synapse.compat.shared import SharedMemoryStore
from synapse.knowledge import recall
from tests.gate.world import GHOST, READERS, acts, refusal


def walk_store(me, world):
    """The store and its functions say what recall says, and nothing else."""
    store = SharedMemoryStore(world.mem, me.id)
    search, _, forget = store.tools()
    for scope in recall.SCOPES:
        # notes in the log, at most once an hour, what is used
        recall.search(me, "common", scope, 1_000, 1 << 16)
    for scope in recall.SCOPES:
        found = recall.search(me, "common", scope, top_k=1_000)
        told = [store.search("common", scope, top_k=1_000), search("common", scope, 1_000)]
        yield scope, told, told == [found, found.text], False
    missing = refusal(lambda: store.version(GHOST))
    for known in world.hidden_from(me.id):
        yield (
            known,
            None,
            refusal(lambda id=known.id: store.version(id)) == missing.replace(GHOST, known.id),
            False,
        )
        for told in (forget(known.id), search(known.id)):
            yield (
                known,
                told.replace(known.id, ""),
                "Error" in told or known.word not in told,
                False,
            )
    if me.id != "operator":
        yield from acts(lambda me, id: store.forget(id))(me, world)
        yield from acts(lambda me, id: store.remember("text", "agent", supersedes=id))(me, world)


SHARED = {
    **dict.fromkeys("search remember forget version tools".split(), walk_store),
    "agent_memory": "gives an AgentMemory",
    "seat": "the older name of agent_memory",
    "close": "tells of no entry",
}


@pytest.mark.parametrize("reader", READERS)
def test_every_read_of_the_shared_store_passes_the_gate(world, reader):
    for asked, told, right, reviewing in walk_store(world.mem.as_agent(reader), world):
        assert (right, world.leaks(reader, repr(told), reviewing)) == (True, []), asked
