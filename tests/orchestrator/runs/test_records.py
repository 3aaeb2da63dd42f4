"""Records of runs: their names, and how incarnations are counted."""

import pytest

import synapse
from orchestrator.runs import records
from orchestrator.runs.records import Runs
from orchestrator.runs.task import Task
from synapse import Agent
from synapse.errors import Conflict

ENGINEER = Agent("eng", role="engineer", department="web")


@pytest.fixture
def runs():
    with synapse.open("memory:") as memory:
        memory.register(ENGINEER)
        yield Runs(memory.store)


def begun(runs, id="eng-1", parent=None, **task):
    return runs.begin(id, Task("Build it.", "eng", **task), ENGINEER, "one", parent, None)


def test_a_name_is_the_same_for_ever():
    # names of runs are on the disk: a task that is given again is found by its name
    assert records.name("eng", "Build it.", None, 1) == "eng-eb6aa9fa21"
    assert records.name("e" * 80, 1).startswith("e" * 50 + "-")


def test_a_run_is_found_as_it_was_begun(runs):
    run = begun(runs, project="shop", max_turns=3)
    assert (run.id, run.epoch, run.attempts, run.depth) == ("eng-1", 1, 1, 0)
    assert (run.root, run.parent, run.running) == ("eng-1", None, True)
    assert run.task == Task("Build it.", "eng", "shop", max_turns=3)
    assert run.fields["role"] == "engineer"
    assert runs.get("eng-1")._replace(fields=run.fields) == run
    assert begun(runs, project="other") == run  # asked again
    assert runs.get("eng-2") is None


def test_a_record_that_counts_no_attempts_is_of_the_first(runs):
    fields = dict(begun(runs).fields)
    del fields["attempts"]
    assert records.run_of(fields).attempts == 1


def test_the_role_of_a_task_stands_in_for_the_agents_own(runs):
    assert begun(runs, role="critic").fields["role"] == "critic"


def test_a_run_below_another_belongs_to_its_tree(runs):
    top = begun(runs)
    below = begun(runs, "eng-2", top)
    last = begun(runs, "eng-3", below)
    assert [(run.parent, run.root, run.depth) for run in (below, last)] == [
        ("eng-1", "eng-1", 1),
        ("eng-2", "eng-1", 2),
    ]
    assert [run.id for run in runs.children("eng-1")] == ["eng-2"]
    assert [run.id for run in runs.all(root="eng-1")] == ["eng-3", "eng-2", "eng-1"]
    assert runs.all(state="ended") == []


def test_attempts_are_counted_from_where_a_run_last_moved(runs):
    run = begun(runs)
    counts = []
    for progress in (0, 0, 5, 5, 6):
        run = runs.take(run, "other", progress)
        counts.append((run.epoch, run.attempts))
    assert counts == [(2, 2), (3, 3), (4, 2), (5, 3), (6, 2)]
    assert runs.get("eng-1").attempts == 2


def test_of_two_that_go_on_with_a_run_one_is_refused(runs):
    run = begun(runs)
    runs.take(run, "other", 0)
    with pytest.raises(Conflict):
        runs.take(run, "third", 0)
    assert runs.get("eng-1").holder == "other"


def test_why_a_run_has_to_end(runs):
    top = begun(runs)
    below = begun(runs, "eng-2", top)
    assert runs.over(top) is None
    assert runs.over(below) is None
    runs.stop("eng-1", "eng", "It is not needed.")
    assert runs.over(top) == "It is not needed."
    assert runs.over(below) == "It is not needed."
    runs.take(below, "other", 0)
    assert "as epoch 2" in runs.over(below)


def test_a_run_that_ended_says_how(runs):
    run = runs.end(begun(runs), "done", note="all of it")
    assert (run.state, run.status, run.running) == ("ended", "done", False)
    assert runs.get("eng-1").fields["note"] == "all of it"
