"""Leases on work: one holder at a time, an end to each, and what becomes of them when a run
ends.
"""

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry, NotFound
from synapse.access.claims import named
from synapse.model.agents import Agent
from synapse.model.records import Record


@pytest.fixture
def mem(clock):
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(Agent(id))
        yield mem


def keep(mem, run, **fields):
    mem.store.commit.append(
        Record.new("run", "eng-a", {"run": run, "agent": "eng-a", **fields}, key=f"run:{run}")
    )


def test_nobody_else_gets_the_same_work(mem, clock):
    mine = mem.as_agent("eng-a").claim("Fix  the Login page.")
    assert mine == ("fix the login page", "eng-a", None, clock.at + 30 * 60_000_000, None)
    with pytest.raises(
        Conflict, match=r"eng-a holds 'fix the login page' until 2026-02-01T09:30:00Z"
    ) as caught:
        mem.as_agent("eng-b").claim("fix the login page!")
    assert (caught.value.agent, caught.value.until) == ("eng-a", mine.until)
    assert mem.as_agent("eng-b").claim("fix the logout page").agent == "eng-b"


def test_a_lease_ends_by_itself(mem, clock):
    mem.as_agent("eng-a").claim("work", minutes=10)
    clock.advance("599s")
    with pytest.raises(Conflict):
        mem.as_agent("eng-b").claim("work")
    clock.advance("1s")
    assert mem.as_agent("eng-b").claim("work").agent == "eng-b"
    with pytest.raises(NotFound):
        mem.as_agent("eng-a").release("work")


def test_ones_own_is_extended(mem, clock):
    me = mem.as_agent("eng-a")
    first = me.claim("work", note="half done")
    clock.advance("20m")
    assert me.claim("work").until == first.until + 20 * 60_000_000
    assert first.note == "half done"


def test_what_is_given_back_is_free(mem):
    me = mem.as_agent("eng-a")
    me.claim("work")
    with pytest.raises(NotFound, match="eng-b does not hold"):
        mem.as_agent("eng-b").release("work")
    assert me.release("WORK").work == "work"
    assert mem.as_agent("eng-b").claim("work").agent == "eng-b"
    with pytest.raises(NotFound):
        me.release("work")


def test_a_retry_claims_once(mem):
    me = mem.as_agent("eng-a")
    first = me.claim("work", once="r/1/0")
    assert me.claim("work", once="r/1/0") == first
    assert len([record for record in mem.store.log.since() if record.kind == "claim"]) == 1


def test_a_lease_ends_with_its_run(mem):
    keep(mem, "one", epoch=1, state="running")
    keep(mem, "two", epoch=1, state="running")
    mem.as_agent("eng-a", run="one", epoch=1).claim("work")
    other = mem.as_agent("eng-a", run="two", epoch=1)
    with pytest.raises(Conflict, match=r"eng-a \(run one\) holds"):
        other.claim("work")
    keep(mem, "one", epoch=2)
    assert mem.as_agent("eng-a", run="one", epoch=2).claim("work").run == "one"
    keep(mem, "one", state="ended", status="failed")
    assert other.claim("work").run == "two"
    with pytest.raises(Conflict, match="run one has ended"):
        mem.as_agent("eng-a", run="one", epoch=2).claim("other work")


def test_the_operator_does_no_work(mem):
    with pytest.raises(Forbidden):
        mem.as_agent("operator").claim("work")


@pytest.mark.parametrize("work", ["", " . ", "x" * 201, "a\x07b"])
def test_work_has_a_name(mem, work):
    with pytest.raises(InvalidEntry):
        mem.as_agent("eng-a").claim(work)


@pytest.mark.parametrize("minutes", [0, -5, 24 * 60 + 1])
def test_a_lease_has_a_length(mem, minutes):
    with pytest.raises(InvalidEntry):
        mem.as_agent("eng-a").claim("work", minutes=minutes)


@pytest.mark.parametrize("minutes", [1, 24 * 60])
def test_a_lease_is_a_minute_at_least_and_a_day_at_most(mem, clock, minutes):
    claim = mem.as_agent("eng-a").claim("work", minutes=minutes)
    assert claim.until == clock() + minutes * 60_000_000


def test_named():
    assert named("  Fix\tthe\nＬＯＧＩＮ page. ") == "fix the login page"
