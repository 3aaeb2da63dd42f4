"""What is new, what an agent did, how a project went: in order, and only what the asking seat may
see.
"""

import pytest

import synapse
from synapse.history import timeline
from synapse.knowledge import memory
from synapse.model.kinds import MAIL, new_id, new_thread
from synapse.model.records import Record
from synapse.testing.tools import FrozenClock


@pytest.fixture
def mem():
    mem = synapse.open("memory:", clock=FrozenClock())
    globs = ("projects/*", "status/*", "blockers/*")
    for name in ("ann", "bob"):
        mem.register(synapse.Agent(name, role="engineer", read=globs, write=globs))
    mem.register(synapse.Agent("eve", role="engineer", read=("api/*",), write=("api/*",)))
    yield mem
    mem.close()


def told(moments):
    return [(each.kind, each.text) for each in moments]


def test_what_is_new_of_every_kind(mem):
    clock, ann = mem.store.clock, mem.as_agent("ann")
    ann.append("old news", "status/site")
    clock.advance("2d")
    ann.append("the page is up\nwith details", "status/site")
    clock.advance("1s")
    memory.remember(ann, "pages load in 40 ms")
    draw = mem.store.draw
    ann.write(
        synapse.Draft("hello", MAIL, "ann", addressees=("agent:eve",), id=new_id("message", draw(6)), kind="message",
                      more={"thread": new_thread(draw(16)), "subject": "Greeting"})
    )  # fmt: skip
    assert told(timeline.recent(ann)) == [
        ("message", "Greeting: hello"),
        ("fact", "pages load in 40 ms"),
        ("entry", "the page is up"),
    ]
    assert told(timeline.recent(mem.as_agent("eve"))) == [("message", "Greeting: hello")]
    assert told(timeline.recent(ann, kinds=["fact"])) == [("fact", "pages load in 40 ms")]
    assert told(timeline.recent(ann, "7d", limit=1)) == [("message", "Greeting: hello")]
    with pytest.raises(synapse.InvalidEntry):
        timeline.recent(ann, kinds=["rumour"])


def test_what_an_agent_did(mem):
    ann, bob = mem.as_agent("ann"), mem.as_agent("bob")
    entry = ann.append("blocked by the build", "blockers/ci", priority="critical")
    memory.remember(ann, "a secret of her own")
    bob.resolve(entry.id, "fixed")
    assert [each.kind for each in timeline.agent_acts(ann, "bob")] == ["resolve"]
    assert [each.text for each in timeline.agent_acts(bob, "ann")] == [
        f"ann wrote {entry.id} critical blockers/ci: blocked by the build"
    ]
    assert len(timeline.agent_acts(ann, "ann")) == 2
    assert timeline.agent_acts(mem.as_agent("eve"), "ann") == []
    with pytest.raises(synapse.NotFound):
        timeline.agent_acts(ann, "nobody")


def test_how_a_project_went(mem):
    clock, ann = mem.store.clock, mem.as_agent("ann")
    plan = ann.append("do it", "projects/site", topic="plan")
    clock.advance("1s")
    fields = {"run": "run-1", "agent": "ann", "epoch": 1, "project": "site", "state": "running"}
    mem.store.commit.append(Record.new("run", "ann", fields, key="run:run-1"))
    clock.advance("1s")
    ann.append("half done", "status/site")
    ann.append("of another one", "status/other")
    clock.advance("1s")
    mem.store.commit.append(
        Record.new(
            "run", "ann", {"run": "run-1", "state": "ended", "status": "done"}, key="run:run-1"
        )
    )
    ann.archive(plan.id)
    assert told(timeline.timeline(ann, "site")) == [
        ("entry", "do it"),
        ("run", "began"),
        ("entry", "half done"),
        ("run", "ended: done"),
    ]
    assert told(timeline.timeline(ann, "site", limit=1)) == [("run", "ended: done")]
    assert timeline.timeline(mem.as_agent("eve"), "site") == []
    with pytest.raises(synapse.InvalidEntry):
        timeline.timeline(ann, "../x")
