"""Which runs had an entry in sight: those that were shown it, and those that they told."""

import pytest

import synapse
from synapse.index.questions import containment
from synapse.model.records import Record
from synapse.testing import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(synapse.Agent("eng", read=["*"], write=["*"]))
        yield mem


def note(mem, kind, run, **fields):
    mem.store.clock.advance("1s")
    fields = {"run": run, "agent": "eng", "epoch": 1, **fields}
    mem.store.commit.append(Record.new(kind, "eng", fields))


def begin(mem, run, parent=None):
    note(mem, "run", run, project="shop", state="running", parent=parent)


def end(mem, run):
    note(mem, "run", run, state="ended", status="done")


def show(mem, run, entry):
    note(mem, "shown", run, ids=[entry.id], cursor=entry.seq)


def exposed(mem, entry):
    with mem.store.snapshot() as snap:
        return containment.reach(snap, [entry.id]).runs


def test_a_run_tells_the_one_that_began_it_what_it_saw_before_its_end(mem):
    entry = mem.as_agent("eng").append("text", "api/x")
    begin(mem, "r-1")
    begin(mem, "r-2", "r-1")
    show(mem, "r-2", entry)
    assert exposed(mem, entry) == ("r-2",)  # it has told nobody yet
    end(mem, "r-2")
    assert exposed(mem, entry) == ("r-1", "r-2")


def test_a_run_tells_nobody_what_it_is_shown_after_its_end(mem):
    entry = mem.as_agent("eng").append("text", "api/x")
    begin(mem, "r-1")
    begin(mem, "r-2", "r-1")
    end(mem, "r-2")
    show(mem, "r-2", entry)
    assert exposed(mem, entry) == ("r-2",)


@pytest.mark.parametrize("known", [True, False])
def test_a_run_that_nobody_began_tells_nobody(mem, known):
    entry = mem.as_agent("eng").append("text", "api/x")
    if known:
        begin(mem, "r-1")
    show(mem, "r-1", entry)
    if known:
        end(mem, "r-1")
    assert exposed(mem, entry) == ("r-1",)


def plan(mem, project):
    mem.store.clock.advance("1s")
    return mem.as_agent("eng").append("- [eng] work", f"projects/{project}", topic="plan")


def test_a_run_that_began_while_an_entry_was_the_plan_of_its_project_had_it_in_sight(mem):
    begin(mem, "before")
    first = plan(mem, "shop")
    begin(mem, "during")
    other = plan(mem, "site")
    second = plan(mem, "shop")
    begin(mem, "after")
    assert exposed(mem, first) == ("during",)
    assert exposed(mem, second) == ("after",)
    assert exposed(mem, other) == ()


def test_a_run_that_begins_as_the_plan_changes_is_told_the_new_one(mem):
    first = plan(mem, "shop")
    second = plan(mem, "shop")
    fields = {"run": "r-1", "agent": "eng", "epoch": 1, "project": "shop", "state": "running"}
    mem.store.commit.append(Record.new("run", "eng", fields))  # in the same moment
    assert exposed(mem, first) == ()
    assert exposed(mem, second) == ("r-1",)


def test_no_other_entry_of_a_project_is_its_plan(mem):
    note_entry = mem.as_agent("eng").append("text", "projects/shop", topic="status")
    begin(mem, "r-1")
    assert exposed(mem, note_entry) == ()


def test_who_was_shown_an_entry_is_told_of_entries_that_are_there_alone(mem):
    mem.register(synapse.Agent("qa", read=["*"]))
    entry = mem.as_agent("eng").append("text", "api/x")
    mem.as_agent("qa").read(mark=True)
    with mem.store.snapshot() as snap:
        assert containment.reach(snap, ["nothing", entry.id]).agents == ("qa",)
        assert containment.reach(snap, ["nothing"]).agents == ()


def test_what_an_agent_wrote_since_a_time_is_named_with_what_waits(mem):
    eng = mem.as_agent("eng")
    eng.append("old", "api/x")
    mem.store.clock.advance("1s")
    since = mem.store.clock()
    new = eng.append("new", "api/x")
    with mem.store.snapshot() as snap:
        assert containment.written_by(snap, "eng", since) == [new.id]
        assert containment.written_by(snap, "nobody", since) == []
