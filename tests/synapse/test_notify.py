import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.authority import visible
from synapse.errors import InvalidQuery
from synapse.model.agents import Agent, settled
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.notify import Delivery, Follower, route
from synapse.testing import FrozenClock
from tests.examples import examples

AGENTS = [
    settled(Agent("eng-a", read=("api/*",), notify=("critical",))),
    settled(Agent("eng-b", read=("api/*",), notify=("critical", "important"))),
    settled(Agent("eng-c", read=("team/*",), teams=("red",), notify=())),
]


def entry(author="lead", **more):
    fields = {"namespace": "api/x", "priority": "critical", "body": "text", "ttl": "7d"} | more
    return Entry("syn-1", author, "", **fields)


@pytest.fixture
def mem(clock):
    with synapse.open("memory:", clock=clock) as mem:
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*", "vault/*")))
        mem.register(Agent("eng-b", read=("api/*",), write=("api/*", "vault/*")))
        mem.register(Agent("junior", read=("api/*",), write=("api/*",), review_required=True))
        mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        yield mem


# -- routing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, {"eng-a": "now", "eng-b": "now"}),
        ({"priority": "important"}, {"eng-a": "next", "eng-b": "now"}),
        ({"priority": "info"}, {}),
        ({"author": "eng-a"}, {"eng-b": "now"}),
        ({"staged": True}, {}),
        ({"staged": True, "author": "eng-a"}, {}),
        ({"namespace": "team/x"}, {"eng-c": "next"}),
        ({"addressees": ("team:red",)}, {"eng-c": "next"}),
        ({"addressees": ("agent:eng-a",), "namespace": "vault/x"}, {"eng-a": "now"}),
        ({"trust": "unverified", "priority": "important"}, {"eng-a": "next", "eng-b": "next"}),
    ],
)
def test_route(more, found):
    assert route(entry(**more), AGENTS) == [
        Delivery(agent, "syn-1", tier) for agent, tier in found.items()
    ]


@given(
    st.sampled_from(("eng-a", "lead")),
    st.sampled_from(("api/x", "team/x", "vault/x")),
    st.sampled_from(("critical", "important", "info")),
    st.sampled_from((("all",), ("team:red",), ("agent:eng-b",))),
    st.booleans(),
)
def test_nobody_is_told_of_what_it_may_not_see_or_wrote_itself(
    author, namespace, priority, to, staged
):
    told = entry(author, namespace=namespace, priority=priority, addressees=to, staged=staged)
    for delivery in route(told, AGENTS):
        agent = next(agent for agent in AGENTS if agent.id == delivery.agent)
        assert visible(told, agent)
        assert agent.id != author


# -- following -------------------------------------------------------------------------


def bodies(events):
    return [(event.kind, event.entry.body) for event in events]


def test_a_cursor_beyond_the_end_is_refused(mem):
    """Of a log that was put back from an older copy: who waits for it to get there again misses
    what comes.
    """
    agent_memory, end = mem.as_agent("operator"), mem.as_agent("operator").read().cursor
    assert list(agent_memory.follow(end, timeout=0)) == []
    with pytest.raises(InvalidQuery, match=f"beyond the log's end, {end}"):
        agent_memory.follow(end + 1)


def test_a_follower_is_told_of_each_once(mem):
    me = mem.as_agent("eng-a")
    mem.as_agent("eng-b").append("before", "api/x")
    start = mem.store.log.mark()[1]
    later = me.follow(timeout=0)
    for n in range(3):
        mem.as_agent("eng-b").append(f"{n}", "api/x")
        mem.as_agent("eng-b").append("hidden", "vault/x")
        me.append("own", "api/x")
    events = [*later]
    assert bodies(events) == [("entry", "0"), ("entry", "1"), ("entry", "2")]
    assert [event.cursor for event in events] == [event.entry.seq for event in events]
    assert bodies(me.follow(events[0].cursor, timeout=0)) == bodies(events)[1:]
    assert bodies(me.follow(events[-1].cursor, timeout=0)) == []
    assert bodies(me.follow(start, timeout=0)) == bodies(events)
    assert bodies(me.follow(0, timeout=0)) == [("entry", "before"), *bodies(events)]


@given(st.lists(st.sampled_from(("tell", "own", "hide", "mark", "look")), max_size=25), st.data())
@examples(40)
def test_a_follower_that_comes_back_misses_nothing(story, data):
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(Agent(id, read=("api/*",), write=("api/*", "vault/*")))
        me, other = mem.as_agent("eng-a"), mem.as_agent("eng-b")
        due, told, cursor = [], [], mem.store.log.mark()[1]
        for step in [*story, "look"]:
            if step == "tell":
                due.append(other.append("text", "api/x").id)
            elif step == "own":
                me.append("text", "api/x")
            elif step == "hide":
                other.append("text", "vault/x")
            elif step == "mark":
                me.read(mark=True)
            else:
                stop = data.draw(st.integers(0, 5))
                for event in me.follow(cursor, timeout=0):
                    told.append(event.entry.id)
                    cursor = event.cursor
                    if len(told) % 6 == stop:
                        break  # the connection is lost
        told += [event.entry.id for event in me.follow(cursor, timeout=0)]
        assert told == due


def test_only_what_is_critical(mem):
    for priority in ("critical", "important", "info"):
        mem.as_agent("lead").append(priority, "api/x", priority=priority)
    staged = mem.as_agent("junior").append("approved", "api/x", priority="critical")
    calm = mem.as_agent("junior").append("calm", "api/x")
    mem.as_agent("lead").approve(staged.id)
    mem.as_agent("lead").approve(calm.id)
    events = mem.as_agent("eng-a").follow(0, critical=True, timeout=0)
    assert bodies(events) == [("entry", "critical"), ("approve", "approved")]


def test_what_was_staged_is_told_of_when_it_is_approved(mem):
    me = mem.as_agent("eng-a")
    one = mem.as_agent("junior").append("one", "api/x")
    two = mem.as_agent("junior").append("two", "api/x")
    assert bodies(me.follow(0, timeout=0)) == []
    mem.as_agent("lead").reject(two.id)
    mem.as_agent("lead").approve(one.id)
    events = [*me.follow(0, timeout=0)]
    assert bodies(events) == [("approve", "one")]
    assert not events[0].entry.staged
    assert bodies(mem.as_agent("junior").follow(0, timeout=0)) == []


def test_a_voucher_is_told_of(mem):
    doubtful = Entry(
        "",
        "eng-b",
        "",
        "api/x",
        "important",
        "doubtful",
        "7d",
        trust="unverified",
        claimed="critical",
    )
    id = mem.store.commit.append(Record.new("entry", "eng-b", {}, doubtful)).id
    me = mem.as_agent("eng-a")
    assert bodies(me.follow(0, timeout=0)) == [("entry", "doubtful")]
    assert bodies(me.follow(0, critical=True, timeout=0)) == []
    mem.as_agent("lead").vouch(id)
    for critical in (False, True):
        events = [*me.follow(0, critical=critical, timeout=0)]
        assert bodies(events)[-1] == ("vouch", "doubtful")
        assert (events[-1].entry.priority, events[-1].entry.trust) == ("critical", "reviewed")


def test_a_change_of_reach_counts_from_then_on(mem):
    heard = Follower(mem.store, lambda: mem.store.agents.get("eng-a"), mem.store.log.mark()[1])
    mem.as_agent("eng-b").append("one", "vault/x")
    assert bodies(heard.poll()) == []
    mem.register(Agent("eng-a", read=("vault/*",)))
    mem.as_agent("eng-b").append("two", "vault/x")
    assert bodies(heard.poll()) == [("entry", "two")]


def test_an_iteration_that_is_dropped_takes_its_bell_down(tmp_path):
    with synapse.init(str(tmp_path / "w")) as mem:
        mem.register(Agent("eng-a", read=("*",)))
        mem.register(Agent("lead", role="cto"))
        mem.as_agent("lead").append("one", "api/x")
        events = mem.as_agent("eng-a").follow(0, timeout=5)
        assert next(events).entry.body == "one"
        assert len(os.listdir(mem.store.log.pipes)) == 1
        events.close()
        assert os.listdir(mem.store.log.pipes) == []


@pytest.mark.parametrize("lost", [False, True])
def test_it_is_told_at_once_and_soon_when_the_bell_is_lost(tmp_path, lost):
    with synapse.init(str(tmp_path / "w")) as mem:
        mem.register(Agent("eng-a", read=("*",)))
        mem.register(Agent("lead", role="cto"))
        lead = mem.as_agent("lead")

        def write():
            if lost:
                for name in os.listdir(mem.store.log.pipes):
                    os.unlink(os.path.join(mem.store.log.pipes, name))
            lead.append("news", "api/x")

        events = mem.as_agent("eng-a").follow(timeout=120)
        threading.Timer(0.1, write).start()
        started = time.monotonic()
        assert next(events).entry.body == "news"
        assert time.monotonic() - started < 30  # on a busy machine, of 120
        events.close()
