"""Short forms of ids: what they mean, to whom, and what they do not."""

import pytest

import synapse
from synapse.knowledge import memory, provenance
from synapse.knowledge.capsule import digest, short
from synapse.knowledge.references import resolve_reference
from synapse.model.agents import Agent
from synapse.testing import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for id in ("ann", "bob"):
            mem.register(Agent(id, read=["api/*"], write=["api/*"]))
        yield mem


@pytest.fixture
def ann(mem):
    return mem.as_agent("ann")


def fact(me, text, id):
    return memory.remember(me, text, id=id)


def test_an_id_is_meant_whole_or_short_with_its_hash_or_without(ann):
    kept = fact(ann, "tea at four", "fact_0123456789ab")
    hash = digest(kept)
    assert short(kept) == f"fact_01234567@{hash[:5]}"
    for text in (
        "fact_0123456789ab",
        "fact_012345",
        short(kept),
        f"fact_0123456789ab@{hash}",
        f"fact_01234567@{hash[:9]}",
    ):
        assert resolve_reference(ann, text).id == kept.id, text
    entry = ann.append("coffee at five", "api/x")
    for text in (entry.id, short(entry), f"{entry.id}@{digest(entry)[:7]}"):
        assert resolve_reference(ann, text).id == entry.id, text


def test_another_hash_is_another_text(ann):
    kept = fact(ann, "tea at four", "fact_0123456789ab")
    with pytest.raises(synapse.Conflict, match=f"it is {short(kept)}"):
        resolve_reference(ann, "fact_01234567@000000")


def test_of_several_none_is_chosen(ann):
    fact(ann, "one", "fact_0123456789ab")
    fact(ann, "other", "fact_0123456789ac")
    with pytest.raises(
        synapse.Conflict, match="any of fact_0123456789ab, fact_0123456789ac: write more of it"
    ):
        resolve_reference(ann, "fact_01234567")


def test_what_a_reader_may_not_see_is_not_there(mem, ann):
    fact(ann, "a secret", "fact_0123456789ab")
    bob = mem.as_agent("bob")
    with pytest.raises(synapse.NotFound, match="no entry fact_01234567 that bob may see"):
        resolve_reference(bob, "fact_01234567@000000")
    own = fact(bob, "another", "fact_0123456700cd")
    assert resolve_reference(bob, "fact_01234567").id == own.id


@pytest.mark.parametrize(
    "text",
    ["", "fact_", "fact_01", "fact_0123456g", "@", "fact_012345@", "x" * 9_000, "a\0b", "%", "_"],
)
def test_anything_else_is_not_found(ann, text):
    fact(ann, "tea", "fact_0123456789ab")
    with pytest.raises(synapse.NotFound):
        resolve_reference(ann, text)


def test_why_and_forget_take_short_forms(ann):
    kept = fact(ann, "tea at four", "fact_0123456789ab")
    assert provenance.why(ann, short(kept)).id == kept.id
    memory.forget(ann, short(kept))
    assert ann.fate(kept.id).reason == "resolved"
