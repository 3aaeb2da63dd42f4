"""What nightly maintenance asks: who wrote how much, what was ruled and noted, who hides what."""

import pytest

from synapse.index.index import Index
from synapse.index.questions import maintenance
from synapse.index.questions.maintenance import Busy, Lapsed, Superseded, Weight
from synapse.log.commit import Commit
from synapse.log.memory import MemoryLog
from synapse.model.records import Record
from synapse.testing import FrozenClock, draft_entry


class Team:
    """A log in memory whose first record is an entry, with its index."""

    def __init__(self):
        self.clock = FrozenClock("2026-02-01T23:59:00Z")
        self.log = MemoryLog(self.clock)
        self.index = Index(self.log, ":memory:")
        self.commit = Commit(self.log, self.index)

    def write(self, body="body", **more):
        return self.commit.append(draft_entry(body, **more))

    def act(self, kind, by="cto", **fields):
        return self.commit.append(Record.new(kind, by, fields))

    @property
    def snap(self):
        self.index.catch_up()
        return self.index.current


@pytest.fixture
def team():
    return Team()


def test_a_day_is_counted_by_author_from_that_of_a_place_on(team):
    assert maintenance.busy(team.snap, 0, ()) == ()
    one = team.write(author="a")
    for author in ("a", "b", "night"):
        team.write(author=author)
    team.clock.advance("10m")
    last = team.write(author="b")
    first_day, second_day = "2026-02-01", "2026-02-02"
    every = (Busy("a", first_day, 2), Busy("b", first_day, 1))
    assert maintenance.busy(team.snap, last.seq, ()) == (Busy("b", second_day, 1),)
    for floor in (0, one.seq, 4):
        assert maintenance.busy(team.snap, floor, ("night",)) == (*every, Busy("b", second_day, 1))
    assert Busy("night", first_day, 1) in maintenance.busy(team.snap, 0, ())


def test_what_is_lapsed_superseded_heavy_or_long(team):
    short = team.write("x", ttl="1h")
    old = team.write("y" * 9, namespace="db/x")
    new = team.write("z", namespace="db/x", replaces=(old.id,))
    now = team.clock() + 3 * 3_600_000_000
    snap = team.snap
    assert maintenance.lapsed(snap, now) == (Lapsed(short.seq, short.id, 2, "api/endpoints"),)
    assert maintenance.lapsed(snap, team.clock()) == ()
    assert maintenance.superseded(snap, now) == (Superseded(old.id, "superseded", new.id),)
    sizes = dict(snap.db.connection.execute("select seq, bytes from entries"))
    assert maintenance.weights(snap, now) == (
        Weight("api/endpoints", 1, sizes[1], 0),
        Weight("db/x", 2, sizes[2] + sizes[3], sizes[3]),
    )
    assert maintenance.counts_by_author(snap, now) == {"eng-a": 1}
    assert maintenance.written_since(snap, 0, "eng-a") == 0
    assert maintenance.written_since(snap, 1, "another") == 2
    assert maintenance.long(snap, 0, None) == ()


def test_what_may_say_the_same_stands_together(team):
    for body, author, more in (
        ("same", "a", {}),
        ("other", "a", {}),
        ("same", "b", {}),
        ("same", "b", {"priority": "important"}),
        ("same", "night", {}),
        ("other", "night", {"namespace": "db/x"}),
    ):
        team.write(body, author=author, **more)
    snap, now = team.snap, team.clock()
    same, its = maintenance.comparable(snap, now, 0, "night", str)
    assert (same, its) == ([[1, 3, 5]], [5, 6])
    assert maintenance.comparable(snap, now, 6, "night", str) == ([], [])
    read = maintenance.entries(snap, [5, 1, 3], now)
    assert sorted(entry.seq for entry in read) == [1, 3, 5]
    newest = maintenance.mergeable(snap, now, 0, "night", 3)
    assert [entry.seq for entry in newest] == [5, 4, 3]


def test_disputes_are_counted(team):
    assert maintenance.disputed(team.snap, team.clock()) == 0
    for author in ("a", "b"):
        team.write(author=author, topic="t")
    assert maintenance.disputed(team.snap, team.clock()) == 2


def test_acts_come_back_as_they_were_written(team):
    entry = team.write()
    filed = team.act("archive", ids=[entry.id], reason="old", phase="expired")
    shown = team.act("restore", ids=[entry.id], reason="needed")
    night = team.act("night", by="consolidator", date="2026-02-01")
    snap = team.snap
    assert maintenance.last_filing(snap, entry.id).seq == shown.seq
    assert maintenance.last_filing(snap, "syn-none") is None
    assert maintenance.brought_back(snap) == {(entry.id, "expired")}
    by_seq = [maintenance.act(snap, seq) for seq in (1, filed.seq, 99)]
    assert [act and (act.seq, act.kind, act.by) for act in by_seq] == [
        (1, "entry", "eng-a"),
        (filed.seq, "archive", "cto"),
        None,
    ]
    assert by_seq[0].id == entry.id
    assert by_seq[1].fields == filed.fields
    assert maintenance.last_ruling(snap, "cto").seq == shown.seq
    assert maintenance.last_ruling(snap, "operator").seq == shown.seq
    assert maintenance.last_ruling(snap, "eng-a").seq == 1
    assert maintenance.last_ruling(snap, "nobody") is None
    nights = maintenance.nightly_records(snap)
    assert [(act.seq, act.by, act.fields) for act in nights] == [
        (night.seq, "consolidator", {"date": "2026-02-01"})
    ]
    since = list(maintenance.acts_since(snap, filed.at))
    assert [(act.seq, read) for act, read in since] == [(2, None), (3, None), (4, None)]
    first = next(maintenance.acts_since(snap, entry.at))
    assert (first[0].seq, first[1].body) == (1, "body")
    written = maintenance.written_by(snap, "cto", 0)
    assert [act.seq for act in written] == [filed.seq, shown.seq]


def test_what_a_record_hides_is_named_until_it_is_lifted(team):
    old = team.write()
    new = team.write(replaces=(old.id,))
    assert maintenance.held_by(team.snap, new.seq, lifted=False) == [old.id]
    assert maintenance.held_by(team.snap, new.seq, lifted=True) == []
    fields = {"what": "1", "by": {}, "holds": [[new.seq, False]]}
    team.commit.append(Record.new("undo", "operator", fields))
    assert maintenance.held_by(team.snap, new.seq, lifted=False) == []
    assert maintenance.held_by(team.snap, new.seq, lifted=True) == [old.id]


def test_approvals_are_found_by_the_entry(team):
    entry = draft_entry("staged", staged=True).entry
    record = team.commit.append(Record.new("entry", "jr", {"staged": True}, entry))
    assert maintenance.approvals(team.snap, record.id) == []
    ruling = team.act("approve", entry=record.id)
    found = maintenance.approvals(team.snap, record.id)
    assert [(act.seq, act.by) for act in found] == [(ruling.seq, "cto")]
    assert maintenance.approvals(team.snap, "syn-none") == []


def test_what_is_shown_is_sized(team):
    entry = team.write("body", namespace="db/x")
    team.write(namespace="api/x")
    (sized,) = maintenance.sized(team.snap, team.clock(), ("db/*",))
    assert sized[:5] == (entry.seq, entry.id, "db/x", 2, entry.at)
    assert (sized.uses, sized.stays) == (0, 0)
