"""What becomes of an entry when others take its place, and when that is taken back."""

import pytest

from synapse.index.snapshot import Filter
from synapse.log.memory import MemoryLog
from synapse.model.agents import Agent, settled
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.testing import FrozenClock


class Told:
    """A log in memory, and what its index shows."""

    def __init__(self):
        self.clock = FrozenClock()
        self.log = MemoryLog(self.clock)
        self.store = Store(self.log, self.clock)
        self.commit = self.store.commit

    def say(self, author, authority, *replaces, topic=None, ttl="30d", **more):
        entry = Entry("", author, "", "api/x", "info", "body", ttl)
        entry = entry._replace(
            authority=authority, topic=topic, replaces=tuple(each.id for each in replaces), **more
        )
        return self.commit.append(Record.new("entry", author, {}, entry))

    def undo(self, *holds):
        fields = {"what": "1", "by": {}, "holds": [list(hold) for hold in holds]}
        self.commit.append(Record.new("undo", "operator", fields))

    def live(self):
        """Return the place of every live entry, with the places of those it disagrees with."""
        self.store.refresh()
        index = self.store.index
        found = index.current.page(None, Filter(limit=None), self.clock.at)
        seqs = {entry.id: entry.seq for entry in found}
        return {entry.seq: sorted(seqs[id] for id in entry.disputed) for entry in found}


@pytest.fixture
def told():
    return Told()


def test_what_was_replaced_for_good_disagrees_with_nobody(told):
    first = told.say("a", 60, topic="t")
    told.say("b", 60, topic="t")
    assert told.live() == {1: [2], 2: [1]}
    told.say("a", 60, first)
    assert told.live() == {2: [], 3: []}


def test_what_is_outranked_for_a_time_disagrees_as_before_when_it_is_shown_again(told):
    told.say("a", 60, topic="t")
    told.say("b", 60, topic="t")
    told.say("cto", 80, topic="t", ttl="1h")
    assert told.live() == {3: []}
    told.clock.advance("2h")
    assert told.live() == {1: [2], 2: [1]}


def test_what_is_shown_again_is_judged_as_if_it_came_now(told):
    first = told.say("a", 60, topic="t")
    told.say("a", 60, first)
    told.say("b", 60, topic="t")
    assert told.live() == {2: [], 3: []}
    told.undo((2, False))
    assert told.live() == {1: [3], 2: [], 3: [1]}
    told.undo((2, True))
    assert told.live() == {2: [], 3: []}


def test_what_another_entry_still_hides_judges_nobody(told):
    first = told.say("a", 80, topic="t")
    told.say("b", 80, first)
    told.undo((2, False))
    told.say("c", 80, first)
    told.undo((2, True))
    told.say("d", 60, topic="t")
    before = told.live()
    assert (1 in before, 6 in before) == (False, True)
    told.undo((2, False))
    assert told.live() == before


def test_every_entry_counts_once_in_its_lane(told):
    reader = settled(Agent("r", read=("api/*",)))
    for _ in range(3):
        told.say("a", 60)
    told.store.refresh()
    names = told.store.index.current.names
    assert names.weights(names.reach(reader), (0, 1, 2)) == (3, 3, 0)


def test_critical_entries_below_blockers_are_counted_by_place_and_author(told):
    for priority, place in (
        ("critical", "blockers/x"),
        ("critical", "blockers/x"),
        ("info", "blockers/x"),
        ("critical", "api/x"),
    ):
        told.say("a", 60, priority=priority, namespace=place)
    told.store.refresh()
    current, last = told.store.index.current, told.log.records[-1].at
    assert current.blockers(0) == [("blockers/x", "a", 2)]
    assert current.blockers(last + 1) == []


def test_what_was_replaced_for_good_and_is_vouched_for_judges_nobody(told):
    first = told.say("a", 10, topic="t")
    told.say("a", 10, first)
    told.say("b", 20, topic="t")
    stamps = {"authority": 90, "trust": "reviewed", "priority": "critical"}
    told.commit.append(Record.new("vouch", "cto", {"entry": first.id, **stamps}))
    assert told.live() == {2: [], 3: []}


def test_what_was_replaced_for_good_and_is_untainted_judges_nobody(told):
    first = told.say("a", 80, topic="t")
    told.say("b", 80, first)
    told.commit.append(Record.new("taint", "cto", {"ids": [first.id]}))
    told.say("c", 60, topic="t")
    assert told.live() == {2: [], 4: []}
    told.commit.append(Record.new("untaint", "cto", {"ids": [first.id], "holds": []}))
    assert told.live() == {2: [], 4: []}


def test_what_is_tainted_is_shown_again_when_it_is_not(told):
    told.say("a", 60, topic="t")
    second = told.say("b", 60, topic="t")
    told.commit.append(Record.new("taint", "cto", {"ids": [second.id]}))
    assert told.live() == {1: []}
    made = told.say("c", 60, derived_from=(second.id,))
    assert told.live() == {1: []}
    ids = [second.id, made.id]
    told.commit.append(Record.new("untaint", "cto", {"ids": ids, "holds": []}))
    assert told.live() == {1: [2], 2: [1], 4: []}


def stage(told, author, authority, **more):
    entry = Entry("", author, "", "api/x", "info", "body", "30d", staged=True)
    entry = entry._replace(authority=authority, **more)
    return told.commit.append(Record.new("entry", author, {"staged": True}, entry))


def rule(told, kind, entry, **fields):
    told.commit.append(Record.new(kind, "cto", {"entry": entry.id, **fields}))


def test_a_ruling_bears_on_what_it_is_for_and_nothing_else(told):
    waiting, live = stage(told, "a", 10), told.say("b", 60)
    for kind in ("vouch", "resolve"):
        rule(told, kind, waiting)
    for kind in ("approve", "reject"):
        rule(told, kind, live)
    told.commit.append(Record.new("resolve", "cto", {"entry": "syn-2026-02-01-999"}))
    assert told.live() == {2: []}
    snap = told.store.index.current
    assert [entry.id for entry in snap.staged()] == [waiting.id]
    assert snap.whereabouts(waiting.id) == "staged"
    rule(told, "approve", waiting)
    assert told.live() == {2: [], 8: []}
    rule(told, "approve", waiting)
    rule(told, "reject", waiting)
    assert told.live() == {2: [], 8: []}
    rule(told, "resolve", waiting)
    assert told.live() == {2: []}


def test_what_is_rejected_is_never_shown(told):
    waiting = stage(told, "a", 10)
    rule(told, "reject", waiting)
    assert told.live() == {}
    snap = told.store.index.current
    assert (snap.staged(), snap.whereabouts(waiting.id)) == ([], "gone")
    fate = snap.fate(snap.entry(waiting.id, 0), 0)
    assert fate.reason == "rejected"


def test_what_is_said_of_runs_and_deliveries_begins_at_no_epoch(told):
    entry = told.say("a", 60)
    for kind, fields in (
        ("run", {"run": "r-1", "state": "running"}),
        ("delivery", {"ids": [entry.id], "run": "r-1", "state": "offered"}),
        ("delivery", {"ids": [entry.id], "state": "acked", "epoch": 2}),
    ):
        told.commit.append(Record.new(kind, "eng", fields))
    told.store.refresh()
    snap, at = told.store.index.current, [record.at for record in told.log.records]
    common = {"entry": entry.id, "agent": "eng"}
    assert snap.deliveries() == [
        common | {"run": "", "epoch": 2, "state": "acked", "at": at[3]},
        common | {"run": "r-1", "epoch": 0, "state": "offered", "at": at[2]},
    ]
    assert snap.deliveries(limit=1) == snap.deliveries()[:1]
    (run,) = snap.runs()
    assert (run["agent"], run["seq"], run["at"], run["ended_at"]) == (*("eng", 2, at[1], None),)
    epochs = snap.db.connection.execute("select epoch from runs").fetchall()
    assert epochs == [(0,)]
