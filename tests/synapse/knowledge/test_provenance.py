"""Trails: every step down to the conversation or the prompt, and nothing on them that the reader
may not see.
"""

import pytest

import synapse
from synapse.knowledge import memory
from synapse.knowledge.provenance import why
from synapse.model.kinds import MAIL, new_id, new_thread
from synapse.model.records import Record
from synapse.testing.tools import FrozenClock


@pytest.fixture
def mem():
    mem = synapse.open("memory:", clock=FrozenClock())
    for name in ("ann", "bob"):
        mem.register(
            synapse.Agent(name, role="engineer", teams=("web",), read=("api/*",), write=("api/*",))
        )
    yield mem
    mem.close()


def begun(mem, run, agent, **more):
    fields = {
        "run": run,
        "agent": agent,
        "epoch": 1,
        "state": "running",
        "task": "Mend the login",
        **more,
    }
    mem.store.commit.append(Record.new("run", agent, fields, key=f"run:{run}"))
    return mem.as_agent(agent, run, 1)


def kinds(step):
    """The trail along its first sources."""
    yield step.kind
    if step.sources:
        yield from kinds(step.sources[0])


def test_six_steps_from_a_message_to_a_prompt(mem):
    shown = mem.as_agent("bob").append("the login is at /v2", "api/login")
    me = begun(mem, "run-1", "ann")
    me.writer.write(
        Record.new("shown", "ann", {"cursor": 9, "run": "run-1", "epoch": 1, "ids": [shown.id]})
    )
    entry = me.append("the login answers 500", "api/login")
    ann = mem.as_agent("ann")
    atom = memory.atom(ann, "login", "was moved", "old clients fail", cites=[entry.id])
    fact = memory.remember(ann, "old clients must be told", cites=[atom.id])
    draw = mem.store.draw
    own = {"thread": new_thread(draw(16)), "subject": "Login"}
    message = ann.write(
        synapse.Draft("Please tell the clients", MAIL, "ann", addressees=("agent:bob",), derived_from=(fact.id,),
                      id=new_id("message", draw(6)), kind="message", more=own)
    )  # fmt: skip
    trail = why(ann, message.id)
    assert list(kinds(trail)) == ["message", "fact", "atom", "entry", "run", "prompt", "entry"]
    assert [each.id for each in _along(trail)][-1] == shown.id
    assert trail.sources[0].how == "made from"


def _along(step):
    yield step
    if step.sources:
        yield from _along(step.sources[0])


def test_what_the_reader_may_not_see_is_a_gap(mem):
    ann, bob = mem.as_agent("ann"), mem.as_agent("bob")
    secret = memory.remember(ann, "the password is swordfish")
    told = ann.append("I know the password", "api/login", derived_from=[secret.id])
    trail = why(bob, told.id)
    assert [(each.kind, each.id, each.text) for each in trail.sources] == [("hidden", "", "")]
    assert "swordfish" in why(ann, told.id).sources[0].text
    with pytest.raises(synapse.NotFound):
        why(bob, secret.id)
    with pytest.raises(synapse.NotFound):
        why(bob, "run-nobody")


def test_the_task_of_a_run_is_its_agents_business(mem):
    me = begun(mem, "run-1", "ann")
    entry = me.append("done", "api/login")
    assert why(mem.as_agent("ann"), entry.id).sources[0].text == "Mend the login"
    assert why(mem.as_agent("operator"), "run-1").text == "Mend the login"
    assert why(mem.as_agent("bob"), entry.id).sources[0].text == ""


def test_a_trail_in_a_circle_ends(mem):
    ann = mem.as_agent("ann")
    one, two = (memory.atom(ann, name, "does", "that") for name in ("one", "two"))
    memory.link(ann, one.id, two.id)
    memory.link(ann, two.id, one.id, "enables", 0.2)
    trail = why(ann, one.id)
    assert trail.sources[0].id == two.id
    assert trail.sources[0].how == "enables it (0.2)"
    assert trail.sources[0].sources[0].cut


def test_a_long_trail_is_cut(mem):
    ann, last = mem.as_agent("ann"), ()
    for number in range(20):
        last = (ann.append(f"step {number}", "api/x", derived_from=last).id,)
    steps = list(_along(why(ann, last[0])))
    assert len(steps) == 13
    assert steps[-1].cut


def test_a_run_of_a_run(mem):
    begun(mem, "run-1", "bob")
    me = begun(mem, "run-2", "ann", parent="run-1")
    memory.remember(me, "found in run 2")
    fact = next(iter(me.read(namespace="agents/ann")))
    assert list(kinds(why(mem.as_agent("ann"), fact.id))) == ["fact", "run", "run"]
    cited = memory.remember(mem.as_agent("bob"), "from that run", cites=["run-2"])
    assert why(mem.as_agent("bob"), cited.id).sources[0].how == "came out of"
