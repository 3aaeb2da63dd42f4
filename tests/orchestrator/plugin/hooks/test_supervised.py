"""What a client that a supervisor spawned is told by its hooks: what others changed in files, and
nothing else; its session is none of a person's.
"""

import os

import pytest

from orchestrator.plugin.hooks import supervised
from orchestrator.plugin.sessions import state
from orchestrator.runs.records import Runs
from orchestrator.runs.task import Task
from synapse import Agent
from tests.orchestrator.plugin.hooks.test_changes import DB, RENAMED, Session, put, repository, text


@pytest.fixture
def clients(memory):
    """Three clients of runs in one repository: two side by side, and one below the first."""
    folder = os.path.dirname(memory.store.root)
    repository(folder)
    put(os.path.join(folder, "src/db.py"), DB)
    runs = Runs(memory.store)
    made = []
    for name, parent in (("one", None), ("two", None), ("three", "one")):
        agent = memory.register(Agent(name, read=("*",), write=("*",)))
        above = runs.get(parent) if parent else None
        task = Task("Work", name, project="shop")
        run = runs.begin(name, task, agent, "a-supervisor", above, None, engine="claude-code")
        client = Session(memory, folder, name)
        client.run = f"{run.id}:{run.epoch}"
        made.append(client)
    return made


def test_a_client_of_a_run_is_told_what_another_changed_and_nothing_else(clients, memory):
    one, two, _ = clients
    memory.as_agent("boss").append("Never push.", "decisions/all", priority="critical")
    assert two("SessionStart", source="startup") == {}
    assert two.prompt("Use it") == ""
    two.read("src/db.py")
    assert one.edit("src/db.py", *RENAMED) == ""
    assert "one changed src/db.py just now: fetch_all is now fetch_page" in two.bash("true")
    assert two.bash("true") + two.read("src/db.py") == ""
    assert text(two("Stop", last_assistant_message="Done.")) == ""
    assert memory.as_agent("boss").read(namespace="status/*").entries == ()


def test_it_is_not_told_of_its_own_nor_of_what_a_run_below_it_did(clients):
    one, two, three = clients
    for client in clients:
        client.read("src/db.py")
    assert "changed" not in one.edit("src/db.py", "return 1", "return 2") + one.bash("true")
    assert "one changed src/db.py" in three.bash("true")
    two.bash("true")
    three.edit("src/db.py", *RENAMED)
    assert one.bash("true") == ""
    assert "three changed src/db.py" in two.bash("true")


def test_a_person_s_session_and_a_run_hear_of_each_other(clients, memory):
    _, two, _ = clients
    person = Session(memory, two.folder, "p").start()
    for client in (person, two):
        client.read("src/db.py")
    person.edit("src/db.py", *RENAMED)
    assert "lead changed src/db.py" in two.bash("true")
    two.edit("src/db.py", "return 1", "return 2")
    assert "two changed src/db.py" in person.bash("true")


@pytest.mark.parametrize("run", ["two:2", "two", "four:1", "two:x"])
def test_a_client_of_another_incarnation_is_told_nothing_and_records_nothing(clients, memory, run):
    one, two, _ = clients
    two.read("src/db.py")
    one.read("src/db.py")
    two.run = run
    assert two.edit("src/db.py", *RENAMED) == ""
    assert "two changed" not in one.bash("true")
    assert two.bash("true") == ""


def test_its_session_is_not_one_that_is_woken_or_ended(clients, memory):
    one, _, _ = clients
    one.read("src/db.py")
    one("SessionEnd", reason="exit")
    assert list(state.stored_sessions(memory.store.root)) == []
    assert Runs(memory.store).get("one").running


def test_who_takes_all_runs_for_others_is_found(clients, monkeypatch):
    one, _, three = clients
    monkeypatch.setattr(supervised.SupervisedRun, "is_own", lambda *_: False)
    one.read("src/db.py")
    three.edit("src/db.py", *RENAMED)
    assert "three changed src/db.py" in one.bash("true")
