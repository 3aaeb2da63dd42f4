"""Undo takes back every ruling that `audit` lists, or says why it cannot; and every undo can be
undone.
"""

import random

import pytest

import synapse
from synapse.consolidate import run_nightly, undo
from synapse.errors import Conflict, Forbidden, NotFound
from synapse.history.sentences import Act, sentence
from synapse.knowledge import memory
from synapse.model.agents import Agent

TODAY = "2026-02-03"


def standing(mem):
    """Every entry with what a reader is told of it: its place, its fate, its disputes."""
    mem.store.refresh()
    now, index = mem.store.clock(), mem.store.index
    entries = index.current.all(now)
    seen = {entry.id: entry.disputed for entry in mem.as_agent("operator").read(limit=None).entries}
    fates = {entry.id: index.current.fate(entry, now) for entry in entries}
    reasons = {id: fate and fate.reason for id, fate in fates.items()}
    return {entry.id: (entry.archived, seen.get(entry.id), reasons[entry.id]) for entry in entries}


def found(mem):
    return {hit.id for hit in mem.as_agent("a").search("noon")}


def answer(mem, what):
    try:
        return "undone" if undo(mem, what, plan=True).acts else "nothing"
    except Conflict as error:
        return "no way" if "no way to undo" in str(error) else "stands no more"


def newest(mem):
    return str(mem.audit()[0].seq)


def archive(mem, one, two):
    mem.as_agent("a").archive(one.id, "done")


def resolve(mem, one, two):
    mem.as_agent("a").resolve(one.id, "fixed")


def supersede(mem, one, two):
    mem.as_agent("a").append("newer", "api", supersedes=one.id)


def settle(mem, one, two):
    mem.as_agent("cto").append("so be it", "api", topic="port", supersedes=(one.id, two.id))


def approve(mem, one, two):
    mem.as_agent("cto").approve(mem.as_agent("junior").append("may I", "api").id)


def defrag(mem, one, two):
    mem.as_agent("a").append("newer", "api", supersedes=one.id)
    run_nightly(mem, TODAY, mem.store.clock())


@pytest.fixture
def disputed(world):
    """A memory with two entries in dispute."""
    mem, _ = world
    mem.register(Agent("cto", role="cto"))
    mem.register(Agent("b", read=("*",), write=("*",)))
    mem.register(Agent("junior", read=("*",), write=("*",), review_required=True))
    one = mem.as_agent("a").append("port 1", "api", topic="port")
    two = mem.as_agent("b").append("port 2", "api", topic="port")
    return mem, one, two


@pytest.mark.parametrize("act", [archive, resolve, supersede, settle, approve])
@pytest.mark.parametrize("name", ["last", "number"])
def test_each_ruling_is_taken_back_and_put_again(disputed, act, name):
    mem, one, two = disputed
    before = standing(mem)
    act(mem, one, two)
    after, number = standing(mem), newest(mem)
    by = mem.audit()[0].by
    assert after != before
    taken = undo(mem, "last", by=by) if name == "last" else undo(mem, number)
    shown = {id: state for id, state in standing(mem).items() if state[1] is not None}
    assert shown == {id: state for id, state in before.items() if state[1] is not None}
    undo(mem, str(taken.seq))
    assert standing(mem) == after
    with pytest.raises(Conflict):
        undo(mem, str(taken.seq))
    digest = mem.digest()
    assert mem.rebuild().digest == digest
    assert mem.verify().ok


def test_last_is_the_act_that_was_done_last_not_the_last_night(disputed):
    mem, one, two = disputed
    defrag(mem, one, two)
    before = standing(mem)
    mem.as_agent("b").archive(two.id, "by mistake")
    plan = undo(mem, "last", plan=True)
    assert (plan.seq, plan.back, plan.away) == (None, (two.id,), ())
    assert [sentence(Act(act)) for act in plan.acts] == [f"b archived {two.id}: by mistake"]
    assert undo(mem, "last").back == (two.id,)
    assert standing(mem) == before


def test_a_forgotten_fact_comes_back(disputed):
    mem, *_ = disputed
    fact = memory.remember(mem.as_agent("a"), "resets at noon")
    memory.forget(mem.as_agent("a"), fact.id, "moved")
    assert sentence(Act(mem.audit()[0])) == f"a forgot {fact.id}: moved"
    assert fact.id not in found(mem)
    with pytest.raises(Conflict, match="synapse audit --entry"):
        mem.as_agent("a").restore(fact.id)
    assert undo(mem, "last").freed == (fact.id,)
    assert fact.id in found(mem)


def test_an_agent_takes_back_its_own_acts_alone(disputed):
    mem, _, two = disputed
    mem.as_agent("b").archive(two.id, "mine")
    number = newest(mem)
    with pytest.raises(NotFound, match="the operator's"):
        undo(mem, number, by="a")
    assert undo(mem, number, by="b").back == (two.id,)
    mem.as_agent("cto").archive(two.id, "by order")
    with pytest.raises(Conflict, match="nothing to undo"):
        undo(mem, number, by="b")  # it was filed away by somebody else since
    with pytest.raises(NotFound):
        undo(mem, TODAY, by="b")
    assert undo(mem, "last").back == (two.id,)


def test_a_spawned_run_takes_back_only_what_its_agent_did(disputed, monkeypatch):
    mem, _, two = disputed
    mem.as_agent("b").archive(two.id, "mine")
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "b")
    with pytest.raises(Forbidden):
        undo(mem, "last")
    assert undo(mem, "last", by="b").back == (two.id,)


def test_every_act_in_the_audit_is_taken_back_or_says_why_not(disputed):
    mem, one, two = disputed
    for act in (approve, archive, resolve, supersede, defrag):
        try:
            act(mem, one, two)
        except synapse.SynapseError:
            continue
    mem.as_agent("cto").reject(mem.as_agent("junior").append("or this", "api").id)
    mem.as_agent("a").append("waiting", "api")
    mem.as_agent("a").read(mark=True)
    answers = {(record.kind, answer(mem, str(record.seq))) for record in mem.audit()}
    assert {kind for kind, said in answers if said == "no way"} >= {
        "agent",
        "reject",
        "shown",
        "night",
    }
    assert {kind for kind, said in answers if said == "undone"} >= {
        "approve",
        "archive",
        "resolve",
        "entry",
    }


@pytest.mark.parametrize("seed", range(6))
def test_acts_undone_one_by_one_lead_back_through_every_state(disputed, seed):
    """Whatever was ruled in whatever order: undoing the acts from the newest on passes every former
    state.
    """
    mem, one, two = disputed
    draw, states, numbers = random.Random(seed), [], []
    ids = [
        one.id,
        two.id,
        *(mem.as_agent("a").append(f"note {place}", "api").id for place in range(4)),
    ]
    for _ in range(25):
        before, id, me = standing(mem), draw.choice(ids), mem.as_agent("cto")
        archived, _, fate = before[id]
        if archived:
            me.restore(id)
        elif fate:
            continue  # what is hidden already would be hidden twice
        elif (act := draw.choice([me.archive, me.resolve, None])) is None:
            me.append("newer", "api", supersedes=id)
        else:
            act(id)
        states.append({key: state for key, state in before.items() if state[1] is not None})
        numbers.append(newest(mem))
    for number, state in zip(reversed(numbers), reversed(states), strict=True):
        undo(mem, number)
        shown = {key: now for key, now in standing(mem).items() if now[1] is not None}
        assert shown == state, number
    digest = mem.digest()
    assert mem.rebuild().digest == digest
