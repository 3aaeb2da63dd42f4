"""A task becomes a run, or is answered by one that did that work already."""

import asyncio

import pytest

import synapse
from orchestrator import Task
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
    again = here.spawn("Work", "eng-a")
    assert again.repeated is repeated
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
def test_the_model_of_a_run_is_the_nearest_that_is_named(
    world, asked, own, usual, engine, model
):
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
def test_work_that_sounds_like_what_another_is_at_is_warned_of(
    world, text, project, warned
):
    spawned = []

    async def other():
        await asyncio.sleep(5)
        task = Task(text, "eng-b", project=project)
        spawned.append(await here.supervisor.spawn(task))

    here = world(lambda seen: Move("Done.", takes=20))
    first = here.spawn(
        "Draw the first page of the shop.", "eng-a", project="web", also=[other()]
    )
    warnings = here.run(spawned[0]).fields.get("warnings")
    words = f"{first.run} (eng-a) is at something that sounds like it"
    assert warnings == ([words] if warned else None)
