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
    mem.store.write(Record.new(kind, "eng", fields))


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
