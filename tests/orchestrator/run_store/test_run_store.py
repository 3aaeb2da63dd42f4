"""How runs begin and end in the memory, where it will not have what is asked of it."""

from pathlib import Path

import pytest

import synapse
from orchestrator import Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs import writeback
from orchestrator.runs.records import name
from orchestrator.runs.task import Outcome
from synapse.errors import InvalidEntry


def done(seen):
    return "Done."


@pytest.mark.parametrize("project", ["Brain Suite", "shop/", "", "a/b/c/d/e/f", "../up"])
def test_a_project_that_is_no_place_in_the_memory_begins_nothing(world, project):
    here = world(done)
    with pytest.raises(InvalidEntry, match="such as brain-suite"):
        here.spawn("Work", "eng-a", project=project)
    assert here.supervisor.run_store.runs.all() == []


def test_a_lead_that_names_such_a_project_is_told(world, cast):
    def lead(seen):
        if not seen.turn:
            return Move(
                "", (("spawn_agent", {"agent": "eng-a", "task": "A part", "project": "Web Shop"}),)
            )
        return seen.messages[-1].text

    here = world(cast(lead=lead))
    result = here.spawn("Lead it", "lead", project="shop")
    assert (result.status, result.text[:34]) == ("done", "Error: project 'Web Shop' is not v")


@pytest.mark.parametrize("name", ["max_tokens", "max_usd", "max_turns", "timeout"])
@pytest.mark.parametrize("bound", [-1, float("nan"), float("inf")])
def test_what_is_no_limit_begins_nothing(world, name, bound):
    here = world(done)
    with pytest.raises(InvalidEntry, match=name):
        here.spawn("Work", "eng-a", **{name: bound})
    assert here.supervisor.run_store.runs.all() == []


def test_a_run_whose_steps_are_damaged_ends_and_says_so(world):
    here = world(lambda seen: Move("never", takes=1_000))
    run = here.dies("Work", "eng-a", after=10)
    here.folder(run).write("steps.jsonl", '{"n": 0}\n')
    (result,) = here.resumed(done)
    assert (result.status, result.entry) == ("failed", None)
    assert result.why.startswith("a line of steps.jsonl is damaged")
    assert here.run(result).fields["why"] == result.why


@pytest.mark.parametrize(
    ("text", "told"), [("", "Failed: no key"), ("Half", "Failed: no key; so far: Half")]
)
def test_an_entry_points_at_a_text_where_there_is_one(text, told):
    (note,) = writeback.settle("eng-a-1", "web", Outcome("failed", text, "no key"))
    assert note.body == told
    assert note.evidence == ("runs/eng-a-1/output.md" if text else None)


def test_what_a_script_took_says_nothing_of_a_model(world):
    """Tried out without a model first, a team is not shown less by the model after it."""
    here = world(done, engines={"other": Scripted(done, count=len)}, memory_tools="auto")
    for n in range(5):
        here.spawn(f"Work {n}", "eng-a")
    budgets = {
        engine: here.supervisor.run_store._pasts("engineer", engine)
        for engine in ("scripted", "other")
    }
    here.time.elapsed += 100
    assert len(here.supervisor.run_store._pasts("engineer", "scripted")) == 5
    assert (budgets["other"], here.supervisor.run_store._pasts("engineer", "other")) == ([], [])


def test_what_earlier_runs_took_is_looked_up_again_after_half_a_minute(world):
    here = world(done)
    store = here.supervisor.run_store
    assert store._pasts("engineer", "scripted") == []
    here.spawn("Work", "eng-a")
    store._history = (here.time(), {})
    here.time.elapsed += 29
    assert store._pasts("engineer", "scripted") == []
    here.time.elapsed += 1
    assert len(store._pasts("engineer", "scripted")) == 1


def test_a_run_that_never_got_to_a_call_was_sent_no_guide(world):
    here = world(done)
    result = here.spawn("Work", "eng-a", max_tokens=1)
    fields = here.run(result).fields
    assert (fields["guide"], fields["turns"]) == (0, 0)
    assert here.run(here.spawn("More", "eng-a")).fields["guide"] > 0


def test_a_run_of_such_a_project_ends_and_lets_others_go_on(world):
    """One that an earlier version began."""
    here = world(done)
    run_store, id = here.supervisor.run_store, name("eng-a", 1)
    task, agent = Task("Work", "eng-a", "Web Shop"), run_store.agent("eng-a")
    about = {
        "engine": "scripted",
        "model": None,
        "needs": {"engines": {"scripted": {"kind": "scripted"}}},
    }
    run_store.runs.begin(id, task, agent, "nobody", None, None, **about)
    (result,) = here.resumed(done)
    assert (result.status, result.entry) == ("done", None)
    assert result.why.startswith("no entry says so: namespace 'status/Web Shop' is not valid")
    assert not here.known(id).running


def test_a_run_ends_though_the_queue_for_review_is_full(world):
    here = world(done)
    settings = Path(here.mem.store.root, "synapse.yaml")
    settings.write_text(settings.read_text().replace("limit: 100", "limit: 1"))
    here.mem.store.refresh(whole=True)
    here.mem.register(synapse.Agent("eng-new", department="web", review_required=True))
    first, second = here.spawn("Work", "eng-new"), here.spawn("Other work", "eng-new")
    assert (first.status, bool(first.entry), first.why) == ("done", True, "")
    assert (second.status, second.text, second.entry) == ("done", "Done.", None)
    assert second.why == "no entry says so: 1 entries wait for review; approve or reject some first"
    assert not here.run(second).running


def test_work_in_a_project_that_the_giver_may_not_write_is_refused(world):
    here = world(done)
    shop = ("projects/shop/*",)
    for who in ("small", "hand"):
        agent = synapse.Agent(who, authority=20, read=shop, write=shop)
        here.mem.register(agent)
    run = here.run(here.spawn("Work", "small", project="shop"))
    refused = here.supervisor.run_store.refused
    assert refused(run, "hand", "shop") is None
    assert refused(run, "hand", "bank").startswith(
        "you may not give work in bank: you may not write "
    )
    assert refused(run, "boss", "shop").startswith("you may not give work to boss: it ")
    assert "nobody" in refused(run, "nobody", "shop")
