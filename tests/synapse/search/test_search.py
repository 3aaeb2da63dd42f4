"""What a search is asked for, as people write it."""

import pytest

import synapse
from synapse.errors import InvalidQuery
from synapse.search.search import MOST, Asked, find
from synapse.testing.tools import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(synapse.Agent("ana", read=["*"], write=["*"]))
        yield mem


def test_what_is_asked_reaches_the_index(mem):
    me = mem.as_agent("ana")
    entry = me.append("gateway", "api/x", priority="critical", tags=["a"])
    mem.store.refresh()
    whole = Asked(5, "api/*", "entry", "ana", ["critical"], "a", "yesterday", "today", None, False)
    assert [hit.id for hit in find(mem.store, None, "gateway", whole)] == [entry.id]
    for other in ({"namespace": "db/*"}, {"kind": "fact"}, {"author": "x"}, {"priority": "info"}, {"tag": "b"},
                  {"since": "2026-02-02"}, {"until": "yesterday"}, {"archived": True}, {"limit": 0}):  # fmt: skip
        assert list(find(mem.store, None, "gateway", whole._replace(**other))) == []


def test_no_search_gives_more_than_there_is_room_for(mem):
    me = mem.as_agent("ana")
    for _ in range(3):
        me.append("gateway", "api/x")
    mem.store.refresh()
    assert len(find(mem.store, None, "gateway", Asked(limit=MOST * 1_000))) == 3


def test_when_is_since_and_until(mem):
    with pytest.raises(InvalidQuery, match="`when` says"):
        find(mem.store, None, "gateway", Asked(when="today", until="today"))
