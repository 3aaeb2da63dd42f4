"""How runs begin and end in the memory, where it will not have what is asked of it."""

from pathlib import Path

import pytest

import synapse
from orchestrator import Task
from orchestrator.engines.scripted import Move
from orchestrator.runs import name
from synapse.errors import InvalidEntry


def done(seen):
    return "Done."


@pytest.mark.parametrize("project", ["Brain Suite", "shop/", "", "a/b/c/d/e/f", "../up"])
def test_a_project_that_is_no_place_in_the_memory_begins_nothing(world, project):
    here = world(done)
    with pytest.raises(InvalidEntry, match="such as brain-suite"):
        here.spawn("Work", "eng-a", project=project)
    assert here.boss.books.runs.all() == []


def test_a_lead_that_names_such_a_project_is_told(world, cast):
    def lead(seen):
        if not seen.turn:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part", "project": "Web Shop"}),))
        return seen.messages[-1].text

    here = world(cast(lead=lead))
    result = here.spawn("Lead it", "lead", project="shop")
    assert (result.status, result.text[:34]) == ("done", "Error: project 'Web Shop' is not v")


def test_a_run_of_such_a_project_ends_and_lets_others_go_on(world):
    """One that an earlier version began."""
    here = world(done)
    books, id = here.boss.books, name("eng-a", 1)
    task, agent = Task("Work", "eng-a", "Web Shop"), books.agent("eng-a")
    books.runs.begin(id, task, agent, "nobody", None, None, engine="scripted", model=None)
    (result,) = here.resumed(done)
    assert (result.status, result.entry) == ("done", None)
    assert result.why.startswith("no entry says so: namespace 'status/Web Shop' is not valid")
    assert not here.known(id).running


def test_a_run_ends_though_the_queue_for_review_is_full(world):
    here = world(done)
    settings = Path(here.mem.store.root, "synapse.yaml")
    settings.write_text(settings.read_text().replace("limit: 100", "limit: 1"))
    here.mem.store.look(force=True)
    here.mem.register(synapse.Agent("eng-new", department="web", review_required=True))
    first, second = here.spawn("Work", "eng-new"), here.spawn("Other work", "eng-new")
    assert (first.status, bool(first.entry), first.why) == ("done", True, "")
    assert (second.status, second.text, second.entry) == ("done", "Done.", None)
    assert second.why == "no entry says so: 1 entries wait for review; approve or reject some first"
    assert not here.run(second).running
