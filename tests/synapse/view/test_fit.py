"""What no word of a task finds is there where it may be of use: not what is about another thing, nor
what its reader did before.
"""

import pytest

import synapse
from synapse.model.agents import Agent
from synapse.model.records import Record
from synapse.model.worth import CHANCES, STATUS, Worth
from synapse.testing import FrozenClock

TASK = "Install printer 4 in the library."
# at which all of it pays here, and nothing that fits a tenth as well
WORTH = Worth(150_000.0, 30.0, {**CHANCES, STATUS: 0.05}, 2_000, 2_000, 600)


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for id in ("ann", "ben", "eve"):
            mem.register(Agent(id, read=("*",), write=("*",)))
        for number in range(20):  # so that no word of the task finds an entry by itself
            note = f"Printers of the library, note {number} on what is where."
            mem.as_agent("eve").append(note, "notes/house")
        mem.store.clock.advance("1s")
        yield mem


def runs(mem, id, agent):
    """Begin a run and return its memory."""
    fields = {"run": id, "agent": agent, "project": "house", "epoch": 1, "state": "running"}
    mem.store.commit.append(Record.new("run", agent, fields, key=f"run:{id}"))
    return mem.as_agent(agent, id, 1)


def says(memory, body, **more):
    return memory.append(body, "status/house", **more).id


def shown(memory, text=TASK, worth=WORTH):
    return set(memory.briefing(about=text, worth=worth).shown)


@pytest.mark.parametrize("priority", ["info", "important"])
def test_of_what_a_task_names_by_number_one_is_meant(mem, priority):
    ben = mem.as_agent("ben")
    other = says(ben, "Printer 7 prints upside down in the hall.", priority=priority)
    own = says(ben, "The library is closed: printer 4 stands in the hall.", priority=priority)
    both = says(ben, "Printer 7 and printer 4 share a cable.", priority=priority)
    neither = says(ben, "The library has 2 doors.", priority=priority)
    assert shown(mem.as_agent("ann")) & {other, own, both, neither} == {own, both, neither}
    assert other in shown(mem.as_agent("ann"), "Install the printer in the library.")


def test_a_status_shares_a_word_with_the_task(mem):
    ben = mem.as_agent("ben")
    strange = says(ben, "Lunch is at noon.")
    near = says(ben, "The library has been painted.")
    rule = says(ben, "Whoever leaves last locks up.", priority="important")
    assert shown(mem.as_agent("ann")) & {strange, near, rule} == {near, rule}


def test_a_text_that_asks_nothing_says_nothing_of_what_is_there(mem):
    strange = says(mem.as_agent("ben"), "Lunch is at noon.")
    own = says(runs(mem, "r1", "ann"), "Done: the lamp hangs.")
    assert {strange, own} <= shown(mem.as_agent("ann"), "Go on.")


def test_what_a_reader_did_before_is_told_where_its_task_goes_on_with_it(mem):
    before = runs(mem, "r1", "ann")
    done = says(before, "Done: the library has new lamps.")
    again = runs(mem, "r2", "ann")
    assert done not in shown(again)
    assert done in shown(again, "The new lamps of the library flicker."), "its words find it"
    assert done in shown(mem.as_agent("ben")), "to others it is news"


def test_a_plan_for_another_is_not_its_readers(mem):
    """It has the words of the task, as each part of a plan has those of the whole."""
    eve, ann = mem.as_agent("eve"), mem.as_agent("ann")
    plan = {"topic": "plan", "priority": "important"}
    theirs = eve.append("ben: install all the printers of the library.", "projects/house", **plan)
    assert theirs.id not in shown(ann)
    assert theirs.id in shown(mem.as_agent("ben"))
    ours = eve.append("ben: carry printer 4; ann: install it.", "projects/house", **plan)
    assert ours.id in shown(ann)
