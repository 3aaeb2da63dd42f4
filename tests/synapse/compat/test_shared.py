"""The shared store, and the tools as plain functions."""

import inspect
import typing

import pytest

import synapse
from synapse.compat.shared import NOT_NOW, SharedMemoryStore, recall_tools
from synapse.knowledge.capsule import short
from synapse.model.agents import Agent
from synapse.testing import FrozenClock
from synapse.tools import CAPSULE


@pytest.fixture
def store():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for agent in (
            Agent("ann", teams=("red",)),
            Agent("bea", teams=("blue",)),
            Agent("cto", role="cto"),
        ):
            mem.register(agent)
        yield SharedMemoryStore(mem, "ann")


def test_each_acts_as_itself(store):
    store.remember("tea of red", "group")
    store.remember("tea of blue", "group", agent="bea")
    store.remember("tea of all", "global", agent="cto")
    for agent, seen in (
        ("ann", {"tea of red", "tea of all"}),
        ("bea", {"tea of blue", "tea of all"}),
    ):
        made = store.search("tea", agent=agent)
        assert {entry.body for entry in made.shown} == seen
        assert all(text in made.text for text in seen)
    assert store.search("tea", "global", top_k=1, max_capsule_bytes=300).shown[0].author == "cto"


def test_a_change_in_between_is_refused(store):
    old = store.remember("tea at four", "group")
    seen = store.version()
    assert store.version(old.id) == old.seq <= seen
    new = store.remember("tea at five", "group", supersedes=short(old), version=seen, once="k")
    assert (
        store.remember("tea at five", "group", supersedes=short(old), version=seen, once="k") == new
    )
    with pytest.raises(synapse.Conflict) as error:
        store.forget(old.id, version=seen)
    assert error.value.details["version"] == new.seq == store.version(old.id)
    store.forget(new.id, version=store.version(), reason="over")
    with pytest.raises(synapse.NotFound):
        store.version(new.id, agent="bea")


def test_a_root_is_opened_and_closed(tmp_path):
    with synapse.init(str(tmp_path / "w")) as mem:
        mem.register(Agent("ann"))
    with SharedMemoryStore(str(tmp_path / "w"), "ann") as store:
        store.remember("tea", "agent")
    with SharedMemoryStore(str(tmp_path / "w")) as store:
        assert [entry.body for entry in store.search("tea", agent="ann").shown] == ["tea"]
        with pytest.raises(synapse.InvalidQuery, match="missing agent: name one"):
            store.search("tea")


def test_a_memory_that_was_open_stays_open(store):
    with store:
        pass
    assert store.remember("tea", "agent").body == "tea"


def test_functions_have_the_signatures_that_were_proposed(store):
    search, remember, forget = store.tools()
    assert [each.__name__ for each in (search, remember, forget)] == [
        "memory_search", "memory_remember", "memory_forget",
    ]  # fmt: skip
    parameters = {name: each.default for name, each in inspect.signature(search).parameters.items()}
    assert parameters == {
        "query": inspect.Parameter.empty,
        "scope": "all",
        "top_k": 5,
        "max_capsule_bytes": 2_048,
    }
    assert [*inspect.signature(remember).parameters] == ["fact", "scope", "confidence", "ttl_days"]
    assert typing.get_type_hints(remember)["ttl_days"] == int | None
    assert [*inspect.signature(forget).parameters] == ["fact_id"]
    assert all(inspect.getdoc(each) for each in (search, remember, forget))


def test_functions_answer_in_text_whatever_happens(store):
    search, remember, forget = store.tools()
    kept = remember("tea at four", "group")
    assert kept.startswith("Kept as fact_")
    assert "tea at four" in search("tea")
    assert forget(kept.split()[2]).startswith("Forgot fact_")
    assert forget(kept.split()[2]).startswith("Error: fact_")
    for told in (
        search(7),
        search("tea", "moon"),
        remember("", "agent"),
        remember("x", "global"),
        forget("\0"),
    ):
        assert type(told) is str
        assert told.startswith("Error: ")
        assert len(told.encode()) <= CAPSULE


def test_when_to_recall_is_not_what_to_recall(store):
    asked = []
    store.remember("tea at four", "agent")

    def should_recall(query, scope):
        asked.append((query, scope))
        return "policy" not in query

    search, *_ = recall_tools(store.agent_memory(), should_recall)
    assert "tea at four" in search("tea")
    assert search("tea policy", "agent") == NOT_NOW
    assert asked == [("tea", "all"), ("tea policy", "agent")]
