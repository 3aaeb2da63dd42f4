"""The plan of a run: what its lead wrote since it began."""

import pytest

import synapse
from orchestrator.runs import plans
from orchestrator.runs.records import Runs
from orchestrator.runs.task import Result, Task
from synapse.log import adopt
from synapse.testing import FrozenClock

LEAD = synapse.Agent("lead", role="project-lead")
OLD, NEW = "- [eng-a] Build the old", "- [eng-b] Build the new"
HEAD = """---
id: syn-x-1
from: lead
timestamp: 2026-02-01T00:00:00Z
namespace: projects/shop
priority: info
topic: plan
---

"""


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Return a memory with a plan that a person wrote by hand."""
    monkeypatch.setattr(adopt, "SETTLED", -1)
    clock = FrozenClock("2026-02-01T09:00:00Z")
    with synapse.init(str(tmp_path / "w"), clock=clock) as memory:
        memory.register(LEAD)
        path = tmp_path / "w/entries/projects/shop/plan.md"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD + OLD + "\n")
        memory.store.refresh(whole=True)
        clock.advance("1s")
        yield memory


def test_a_plan_of_before_the_run_is_not_its_plan(memory):
    (before,) = memory.as_agent("lead").read(namespace="projects/shop")
    assert before.body.strip() == OLD
    task = Task("Plan it", "lead", "shop")
    Runs(memory.store).begin("lead-1", task, LEAD, "one", None, None)
    assert plans.latest(memory, "lead", "shop", "lead-1", {"lead-1"}) is None
    planned = Result("done", NEW, "lead-1")
    id, text = plans.of_run(memory, planned, "lead", "shop")
    assert (id == before.id, text.strip()) == (False, NEW)


def test_of_a_run_that_has_no_record_every_plan_counts(memory):
    planned = Result("done", NEW, "lead-0")
    (by_hand,) = memory.as_agent("lead").read(namespace="projects/shop")
    assert plans.latest(memory, "lead", "shop", "lead-0", {"lead-0"}) == by_hand.id
    assert plans.of_run(memory, planned, "lead", "shop")[0] == by_hand.id
