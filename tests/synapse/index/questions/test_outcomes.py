"""What came of entries: lived to their end, replaced, or acted on."""

import pytest

import synapse
from synapse.index.questions import outcomes
from synapse.model.entry import NEVER
from synapse.testing import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for id in ("ann", "bob"):
            mem.register(synapse.Agent(id, read=["*"], write=["*"]))
        mem.store.clock.advance("1s")
        yield mem


def say(mem, body, who="ann", **more):
    mem.store.clock.advance("1m")
    return mem.as_agent(who).append(body, "api/x", **{"priority": "critical", **more})


def asked(mem, question, since=0, until=NEVER):
    with mem.store.snapshot() as snap:
        return [
            (fact.entry, fact.author, fact.by, fact.records)
            for fact in question(snap, since, until)
        ]


def test_a_critical_entry_that_another_builds_upon_was_acted_on(mem):
    first, second = say(mem, "one"), say(mem, "two")
    info = say(mem, "info", priority="info")
    by = say(mem, "built", "bob", priority="info", related=[first.id, info.id])
    say(mem, "again", "bob", priority="info", related=[first.id, "syn-2026-02-01-999"])
    assert asked(mem, outcomes.acted_on) == [(first.id, "ann", "bob", (first.seq, by.seq))]
    own = say(mem, "own", related=[second.id], priority="info")
    assert own.seq > second.seq
    assert len(asked(mem, outcomes.acted_on)) == 1  # its own author builds on nothing


def test_the_first_who_acts_is_named(mem):
    first = say(mem, "one")
    by = say(mem, "built", "bob", priority="info", related=[first.id])
    mem.store.clock.advance("1m")
    mem.as_agent("bob").resolve(first.id, note="done")
    assert asked(mem, outcomes.acted_on) == [(first.id, "ann", "bob", (first.seq, by.seq))]
    second = say(mem, "two")
    mem.store.clock.advance("1m")
    mem.as_agent("bob").resolve(second.id, note="done")
    say(mem, "late", "bob", priority="info", related=[second.id])
    facts = asked(mem, outcomes.acted_on)
    assert [fact[0] for fact in facts] == [first.id, second.id]
    assert facts[1][3][0] == second.seq


def test_an_entry_that_lapses_lived_to_its_end(mem):
    short = say(mem, "short", ttl="1h")
    mem.store.clock.advance("90m")
    mem.store.index.catch_up()
    now = mem.store.clock()
    assert asked(mem, outcomes.lived, 0, now) == [(short.id, "ann", "", (short.seq,))]
    assert asked(mem, outcomes.lived, now, now) == []
    assert asked(mem, outcomes.lived, 0, short.at) == []
