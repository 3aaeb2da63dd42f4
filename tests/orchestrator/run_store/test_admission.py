"""A task becomes a run, or is answered by one that did that work already."""

import asyncio

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from synapse.model.entry import SECOND


def done(seen):
    return "Done."


@pytest.mark.parametrize(("later", "repeated"), [(-1, True), (0, False), (1, False)])
def test_the_answer_of_a_run_that_ended_lately_is_given_again(world, later, repeated):
    here = world(done)
    first = here.spawn("Work", "eng-a")
    ended = here.run(first).fields["ended_at"]
    here.time.elapsed += (ended - here.time()) / SECOND + 600 + later
    again = here.spawn("Work", "eng-a", once=True)
    assert bool(again.repeated) is repeated
    assert (again.run == first.run) is repeated


@pytest.mark.parametrize(
    ("asked", "own", "usual", "engine", "model"),
    [
        ("a", "b", "c", "d", "a"),
        (None, "b", "c", "d", "b"),
        (None, None, "c", "d", "c"),
        (None, None, None, "d", "d"),
        (None, None, None, None, None),
    ],
)
def test_the_model_of_a_run_is_the_nearest_that_is_named(world, asked, own, usual, engine, model):
    """By its task, its agent, the supervisor, and the engine itself."""
    played = Scripted(done)
    played.model = engine
    here = world(played, model=usual)
    here.mem.register(synapse.Agent("eng-x", model=own))
    run = here.run(here.spawn("Work", "eng-x", model=asked))
    assert run.fields["model"] == model


def test_who_begins_others_says_what_engine_these_get(world):
    here = world(done, engines={"other": Scripted(done)})
    for agent, usual in (("boss", True), ("eng-a", False)):
        needs = here.run(here.spawn("Work", agent)).fields["needs"]
        assert ("usual" in needs) is usual
    as_lead = here.run(here.spawn("Work", "eng-b", role="project-lead"))
    assert "usual" in as_lead.fields["needs"]


@pytest.mark.parametrize(
    ("text", "project", "warned"),
    [
        ("Draw the first page of the shop", "web", True),
        ("Draw the first page of the shop", "bank", False),
        ("Write the terms of use", "web", False),
    ],
)
def test_work_that_sounds_like_what_another_is_at_is_warned_of(world, text, project, warned):
    spawned = []

    async def other():
        await asyncio.sleep(5)
        task = Task(text, "eng-b", project=project)
        spawned.append(await here.supervisor.spawn(task))

    here = world(lambda seen: Move("Done.", takes=20))
    first = here.spawn("Draw the first page of the shop.", "eng-a", project="web", also=[other()])
    warnings = here.run(spawned[0]).fields.get("warnings")
    words = (
        f"{first.run} (eng-a), at work since 2026-02-01T09:00:00Z, was asked for something like"
        f" it: `orchestrator tail {first.run}`"
    )
    assert warnings == ([words] if warned else None)


@pytest.mark.parametrize(
    ("reply", "again"),
    [("Done.", True), ("Blocked: no key", False), (Move("no", stop="refusal"), False)],
)
def test_only_what_was_done_is_an_answer(world, reply, again):
    here = world(lambda seen: reply)
    first = here.spawn("Work", "eng-a")
    assert bool(here.spawn("work.", "eng-a", once=True).repeated) is again
    assert len(here.supervisor.run_store.runs.all()) == (1 if again else 2)
    assert here.run(first).fields["intent"].startswith("intent:")


def admitted(here, text, id, parent=None, by=None, **more):
    """Return what becomes of a task: the run, and whether it was there already."""
    supervisor = by or here.supervisor
    task = Task(text, more.pop("agent", "eng-a"), **more)
    pool = supervisor.engine_pool
    about = (pool.for_task, pool.defaults(None))
    return supervisor.run_store.admission.admit(task, parent, id, *about)


def test_work_that_is_under_way_is_not_begun_again_where_it_is_to_be_once(world):
    here = world(done)
    first, repeated = admitted(here, "Work", "eng-a-1")
    assert (first.id, first.running, repeated) == ("eng-a-1", True, False)
    again, repeated = admitted(here, "Work.", "eng-a-2", once=True)
    assert (again.id, repeated) == ("eng-a-1", True)
    anew, repeated = admitted(here, "Work", "eng-a-3")
    assert (anew.id, repeated) == ("eng-a-3", False)
    assert anew.fields["intent"] == first.fields["intent"]
    other, repeated = admitted(here, "Work", "eng-b-1", agent="eng-b", once=True)
    assert (other.id, repeated) == ("eng-b-1", False)
    one, repeated = admitted(here, "Draw it", "eng-a-4", intent="the page")
    same, again = admitted(here, "Paint it", "eng-b-2", intent="The page", agent="eng-b", once=True)
    assert (same.id, repeated, again) == (one.id, False, True)


def test_a_run_that_is_asked_for_by_its_id_is_its_own_supervisors_alone(world):
    """A spawn that is carried out once more has its run; what another holds or what has ended is
    not begun here."""
    here = world(done)
    run, _ = admitted(here, "Work", "eng-a-1")
    again, repeated = admitted(here, "Something else", "eng-a-1")
    assert (again.task.text, again.seq, repeated) == ("Work", run.seq, False)
    with Supervisor(here.mem, engine=Scripted(done), seed=8, inline=True) as other:
        again, repeated = admitted(here, "Work", "eng-a-1", by=other)
        assert (again.seq, repeated) == (run.seq, True)
    here.supervisor.run_store.runs.end(run, "done")
    ended, repeated = admitted(here, "Work", "eng-a-1")
    assert (ended.status, repeated) == ("done", True)


def test_what_cannot_be_recorded_is_not_counted(world):
    """Another incarnation goes on with its parent."""
    here = world(done)
    parent, _ = admitted(here, "Lead it", "lead-1", agent="lead")
    here.supervisor.run_store.runs.take(parent, "another", 0)
    budget = here.supervisor.run_store.costs.budget
    before = budget.standing(f"run:{parent.id}")
    with pytest.raises(synapse.Conflict):
        admitted(here, "A part", "eng-a-1", parent=parent)
    assert budget.standing(f"run:{parent.id}") == before
    assert [run.id for run in here.supervisor.run_store.runs.all()] == ["lead-1"]


def test_of_two_that_begin_the_same_work_in_one_moment_one_does(world):
    here = world(done)
    budget = here.supervisor.run_store.costs.budget
    admit = budget.admit

    def beaten(*about):
        budget.admit = admit
        admitted(here, "Work", "eng-a-1")
        admit(*about)

    budget.admit = beaten
    run, repeated = admitted(here, "Work", "eng-a-2", once=True)
    assert (run.id, repeated) == ("eng-a-1", True)
    assert budget.standing("department:web").runs == 1


@pytest.mark.parametrize("folder", [None, "site"])
def test_where_a_client_works_is_recorded(world, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    engine = Scripted(done)
    engine.takes_tools = False
    run = world(engine)
    fields = run.run(run.spawn("Work", "eng-a", folder=folder)).fields
    assert fields["folder"] == str(tmp_path / (folder or ""))
    model = world(done)
    assert "folder" not in model.run(model.spawn("Work", "eng-a")).fields


def test_whoever_begins_others_needs_the_engine_that_these_get(world):
    other = Scripted(done)
    other.name = "other"
    here = world(done, engines={"other": other})
    leads = here.run(here.spawn("Lead", "boss", engine="other")).fields
    works = here.run(here.spawn("Work", "eng-a", engine="other")).fields
    assert (leads["engine"], works["engine"]) == ("other", "other")
    assert {*leads["needs"]["engines"]} == {"other", "scripted"}
    assert {*works["needs"]["engines"]} == {"other"}
    other.takes_tools = False
    alone = here.run(here.spawn("Lead it", "boss", engine="other")).fields
    assert {*alone["needs"]["engines"]} == {"other"}
