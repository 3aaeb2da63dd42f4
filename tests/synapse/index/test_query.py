"""Questions to the projection."""

import synapse
from synapse.index.pages import CACHED
from synapse.testing import FrozenClock


def test_a_page_beyond_the_cache_holds_what_was_cached_before():
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("eng-a", read=["*"], write=["*"]))
        me = mem.as_agent("eng-a")
        ids = [me.append("x", "api/x").id for _ in range(CACHED + 10)]
        assert [entry.id for entry in me.read(limit=5)] == ids[:-6:-1]
        assert [entry.id for entry in me.read()] == ids[::-1]
        assert [entry.id for entry in me.read(limit=5)] == ids[:-6:-1]


def test_a_namespace_of_several_priorities_is_read_in_the_order_of_the_log():
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("eng-a", read=["*"], write=["*"]))
        me = mem.as_agent("eng-a")
        kinds = ("info", "critical", "important", "info", "info", "important")
        ids = [me.append("x", "api/x", priority=kinds[place % 6]).id for place in range(60)]
        assert [entry.id for entry in me.read(namespace="api/x", limit=7)] == ids[:-8:-1]
        assert [entry.id for entry in me.read(namespace="api/*", limit=60)] == ids[::-1]
        found = [
            entry.id
            for entry in me.read(namespace="api/x", priority=["critical", "important"], limit=9)
        ]
        assert found == [id for place, id in enumerate(ids) if kinds[place % 6] != "info"][:-10:-1]


def test_nothing_was_there_until_a_time_before_the_first_entry():
    clock = FrozenClock()
    with synapse.open("memory:", clock=clock) as mem:
        mem.register(synapse.Agent("eng-a", read=["*"], write=["*"]))
        before = clock()
        clock.advance("1h")
        me = mem.as_agent("eng-a")
        first = me.append("endpoint", "api/x")
        clock.advance("1h")
        me.append("endpoint", "api/x")
        asked = [before, first.at, first.at + 1]
        assert [len(me.search("endpoint", until=at)) for at in asked] == [0, 0, 1]
        assert [len(me.search("endpoint", since=at)) for at in asked] == [2, 2, 1]
