"""A brain gives out what `authority.visible` allows to the agent that asks."""

import pytest

from synapse.compat.brain import UnifiedBrain
from synapse.errors import SynapseError
from tests.gate.world import ACT, ASKED, NONE, READERS, WHOLE, world_at

BRAIN = {
    **dict.fromkeys(
        "read_unread poll thread_history list_threads search find_provenance recent".split(), ASKED
    ),
    **dict.fromkeys("send ack remember create_atom link_atoms forget".split(), ACT),
    **dict.fromkeys("check connect strays".split(), "of the tables, which are the operator's"),
    "embed_pending": NONE,
    "close": NONE,
    "migrate": WHOLE,
}


@pytest.fixture(scope="module")
def brained(tmp_path_factory):
    """The world as the log of a brain."""
    place = tmp_path_factory.mktemp("brain")
    found = world_at(place / "brain.db.log")
    found.path = str(place / "brain.db")
    yield found
    found.mem.close()


def brain_faults(world, brain):
    """What a brain told its agent that it had not to."""
    seen = {known.id for known in world.seen_by(brain.agent)}
    rows = [
        brain.recent(hours=10_000),
        *(brain.thread_history(each["id"]) for each in brain.list_threads(None, 1_000)),
    ]
    rows += [brain.search(known.word) for known in world.known]
    if brain.agent != "operator":
        rows.append(brain.read_unread())
    told = [
        repr(rows),
        brain.poll() if brain.agent != "operator" else 0,
        {row["id"] for each in rows for row in each},
    ]
    yield from world.leaks(brain.agent, told[0])
    yield from told[2] - seen
    for known in world.known:
        try:
            yield from world.leaks(
                brain.agent, repr(brain.find_provenance(known.id)), reviewing=True
            )
        except SynapseError as error:
            yield from world.leaks(brain.agent, str(error).replace(known.id, ""))


@pytest.mark.parametrize("reader", READERS)
def test_a_brain_passes_the_gate(brained, reader):
    with UnifiedBrain(brained.path, reader, clock=brained.mem.store.clock) as brain:
        assert next(brain_faults(brained, brain), None) is None
        assert brain.check() == []


def test_the_walk_finds_a_brain_that_forgot_the_gate(brained):
    with UnifiedBrain(brained.path, "eng-c", clock=brained.mem.store.clock) as brain:
        brain.me = brained.mem.as_agent("operator")
        assert next(brain_faults(brained, brain), None) is not None
