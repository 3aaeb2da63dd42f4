"""What of the near entries a reader may see, and how many entries may have to be embedded."""

import pytest

import synapse
from synapse.index.snapshot import Filter
from synapse.index.vectors import embeddable
from synapse.model.agents import Agent
from synapse.testing import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("lead", role="cto"))
        mem.register(Agent("eng", read=("api/*",), write=("api/*",)))
        mem.register(Agent("new", review_required=True, write=("api/*",)))
        yield mem


def test_near_entries_are_known_by_the_place_at_which_they_took_effect(mem):
    """One that was approved has its text in an earlier record."""
    waiting = mem.as_agent("new").append("waits", "api/x")
    mem.as_agent("lead").append("unseen", "internal/x")
    mem.as_agent("lead").approve(waiting.id)
    record = mem.store.commit.get(waiting.id).seq
    with mem.store.snapshot() as snap:
        placed = {entry.body: entry.seq for entry in snap.all(0)}
        assert placed["waits"] > record
        found = embeddable.among(
            snap,
            sorted(placed.values()),
            mem.store.agents.get("eng"),
            Filter(limit=None),
            mem.store.clock(),
        )
    assert {seq: row[:2] for seq, row in found.items()} == {
        placed["waits"]: (placed["waits"], record)
    }


def test_what_may_have_to_be_embedded_is_counted_from_a_place_on(mem):
    made = [mem.as_agent("eng").append(f"body {n}", "api/x") for n in range(3)]
    with mem.store.snapshot() as snap:
        seqs = [snap.entry(entry.id, 0).seq for entry in made]
        counts = [embeddable.count(snap, floor) for floor in (0, *seqs)]
    assert counts == [3, 2, 1, 0]
