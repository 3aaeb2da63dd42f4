"""A snapshot: one state for all questions of an act, caught up once, and nothing written inside."""

import os
import threading

import pytest

import synapse
from synapse import Agent
from synapse.authority import admit
from synapse.index.index import Index
from synapse.index.questions.maintenance import weights
from synapse.index.snapshot import Filter
from synapse.log.commit import Commit
from synapse.log.memory import MemoryLog
from synapse.model.agents import settled
from synapse.model.entry import NEVER, Draft
from synapse.model.records import Record
from synapse.model.results import Fate
from synapse.testing import FrozenClock, draft_entry


@pytest.fixture(params=["files", "memory"])
def mem(request, tmp_path):
    root = str(tmp_path / "w")
    opened = synapse.init(root) if request.param == "files" else synapse.open("memory:")
    with opened:
        opened.register(Agent("eng", read=("*",), write=("*",)))
        yield opened


def bodies(snap, now):
    return [entry.body for entry in snap.page(None, Filter(), now)]


def test_it_knows_what_was_written_before_it(mem):
    mem.as_agent("eng").append("one", "api/x")
    with mem.store.snapshot() as snap:
        assert bodies(snap, mem.store.clock()) == ["one"]


def test_inside_of_another_it_is_that_one(mem):
    with mem.store.snapshot() as snap:
        mem.store.refresh()
        with mem.store.snapshot() as inner:
            assert inner is snap


def test_one_that_nothing_changed_for_is_the_same(mem):
    with mem.store.snapshot() as snap:
        pass
    with mem.store.snapshot() as later:
        assert later is snap
    mem.as_agent("eng").append("one", "api/x")
    with mem.store.snapshot() as later:
        assert later.mark != snap.mark
        assert later.cursor > snap.cursor


def test_a_late_one_takes_nothing_in(mem):
    with mem.store.snapshot() as snap:
        before = snap.cursor
    mem.as_agent("eng").append("one", "api/x")
    with mem.store.snapshot(late=True) as snap:
        assert snap.cursor == before


def test_nothing_is_written_inside(mem):
    me = mem.as_agent("eng")
    me.append("one", "api/x")
    with mem.store.snapshot(), pytest.raises(RuntimeError, match="leave it before"):
        mem.store.index.catch_up()
    with mem.store.snapshot() as snap, pytest.raises(RuntimeError, match="leave it"):
        mem.store.index.note("key", str(snap.cursor))


def test_counts_that_are_made_inside_are_kept_when_it_is_left(mem):
    with mem.store.snapshot():
        made = mem.store.index.tokens("o200k_base").count("A text that nobody counted.")
        assert mem.store.index.tokens("o200k_base").count("A text that nobody counted.") == made
        assert stored(mem) == []
    assert stored(mem) == [(made,)]


def stored(mem):
    return mem.store.index.db.connection.execute("select n from tokens").fetchall()


def test_words_must_be_asked_for_outside(mem):
    with (
        mem.store.snapshot(),
        pytest.raises(RuntimeError, match="without words"),
        mem.store.snapshot(words=True),
    ):
        pass


def test_others_who_write_meanwhile_are_not_seen(tmp_path):
    """All questions of an act see one state of the file, filing and rulings too."""
    root = str(tmp_path / "w")
    with synapse.init(root) as mem, synapse.open(root) as other:
        mem.register(Agent("eng", read=("*",), write=("*",)))
        entry = mem.as_agent("eng").append("one", "api/x")
        now = mem.store.clock()
        with mem.store.snapshot() as snap:
            assert bodies(snap, now) == ["one"]
            other.as_agent("eng").archive(entry.id)
            other.store.refresh()
            with mem.store.snapshot() as inner:
                assert bodies(inner, now) == ["one"]
                assert not inner.entry(entry.id, now).archived
        with mem.store.snapshot() as snap:
            assert bodies(snap, now) == []


def test_threads_hold_their_own(mem):
    inside, written = threading.Event(), threading.Event()
    states = []

    def hold():
        with mem.store.snapshot() as snap:
            inside.set()
            written.wait(10)
            states.append(snap.cursor)

    with mem.store.snapshot() as snap:
        before = snap.cursor
    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(10)
    mem.as_agent("eng").append("one", "api/x")
    with mem.store.snapshot() as snap:
        assert snap.cursor == before + 1
    written.set()
    thread.join(10)
    assert states == [before]


def test_the_bytes_of_an_entry_are_those_of_its_fields_and_its_text(mem):
    mem.register(synapse.Agent("lead", role="cto", read=["*"], write=["*"]))
    mem.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
    lead, junior = mem.as_agent("lead"), mem.as_agent("junior")
    lead.append("plain", "api/x", tags=["a", "b"])
    lead.append("ä" * 300, "api/x", priority="critical")
    lead.approve(junior.append("staged", "api/x").id)
    forged = Draft("from elsewhere", "api/y", "junior", "critical")
    entry = admit(forged, None, mem.store.settings, trust="unverified")
    id = mem.store.commit.append(Record.new("entry", "junior", {}, entry)).id
    lead.vouch(id)
    with mem.store.snapshot() as snap:
        rows = snap.db.connection.execute(
            "select e.bytes, t.head, t.body from entries e join texts t on t.rec = e.rec"
        ).fetchall()
        assert len(rows) == 4
        for size, head, body in rows:
            assert size == len(head.encode()) + len(body.encode())
        (one, other) = weights(snap, mem.store.clock())
    assert (one.entries, one.bytes) == (3, sum(row[0] for row in rows[:3]))
    assert (other.entries, other.bytes) == (1, rows[3][0])


def test_a_page_of_no_entries_is_empty(mem):
    mem.as_agent("eng").append("one", "api/x")
    now = mem.store.clock()
    with mem.store.snapshot() as snap:
        for namespaces in ((), ("api/x",)):
            assert snap.page(None, Filter(namespaces=namespaces, limit=0), now) == []


@pytest.fixture
def team():
    """A log in memory whose first record is an entry, and a way to look at it."""
    clock = FrozenClock()
    log = MemoryLog(clock)
    index = Index(log, ":memory:")
    commit = Commit(log, index)

    def look():
        index.catch_up()
        return index.current

    return commit, look


def places(entries):
    return [entry.seq for entry in entries]


def test_what_is_addressed_to_a_reader_is_found_from_the_first_record(team):
    commit, look = team
    for priority, to in (
        ("info", ("agent:r",)),
        ("critical", ("agent:r", "agent:s")),
        ("important", ("agent:r",)),
        ("info", ("agent:s",)),
        ("info", ("team:t", "agent:s")),
        ("info", ("all",)),
    ):
        commit.append(draft_entry("x", priority=priority, addressees=to))
    snap, now = look(), commit.log.clock()
    reader = settled(Agent("r", teams=("t",), read=("*",)))
    assert places(snap.to_reader(reader, now, 9)) == [5, 1]
    assert places(snap.to_reader(reader, now, 1)) == [5]
    assert places(snap.addressed("agent:r", now)) == [3, 2, 1]
    assert places(snap.addressed("agent:s", now)) == [5, 4, 2]
    assert places(snap.addressed("agent:nobody", now)) == []
    assert places(snap.all(now)) == [1, 2, 3, 4, 5, 6]
    assert places(snap.criticals(0, now)) == [2]
    assert places(snap.standing((6, 1, 99), now, reader)) == [1, 6]


def test_what_became_of_an_entry(team):
    commit, look = team
    lapsing = commit.append(draft_entry("a", ttl="1h"))
    old = commit.append(draft_entry("b"))
    new = commit.append(draft_entry("c", replaces=(old.id,)))
    filed = commit.append(draft_entry("d"))
    commit.archive([filed.id], "operator", "old")
    snap = look()
    ends = snap.entry(lapsing.id, 0).expires

    def fate(record, now):
        return snap.fate(snap.entry(record.id, now), now)

    assert fate(lapsing, ends - 1) is None
    assert fate(lapsing, ends) == Fate("expired", "", NEVER)
    assert fate(new, ends) is None
    assert fate(filed, ends) == Fate("archived", "", NEVER)
    assert fate(old, ends)[:2] == ("superseded", new.id)
    hidden = [snap.hidden_until(record.seq) for record in (lapsing, old, new)]
    assert hidden == [0, NEVER, 0]
    assert [snap.whereabouts(record.id) for record in (lapsing, filed)] == [*("live", "archived")]
    assert snap.whereabouts("syn-none") == "gone"
    assert snap.entry("syn-none", 0) is None


def test_the_fields_of_a_record_are_those_that_were_written(team):
    commit, look = team
    one = commit.append(draft_entry("one", tags=("a",)))
    two = commit.append(draft_entry("two", tags=("b",)))
    snap = look()
    assert snap.record_fields(one.id)["tags"] == ["a"]
    assert snap.record_fields(two.id)["tags"] == ["b"]
    assert snap.record_fields("syn-none") == {}


def test_the_fields_of_what_was_approved_are_those_of_its_record():
    with synapse.open("memory:") as mem:
        mem.register(Agent("lead", role="cto", read=("*",), write=("*",)))
        mem.register(Agent("jr", read=("*",), write=("*",), review_required=True))
        id = mem.as_agent("jr").append("staged", "api/x", tags=["a"]).id
        mem.as_agent("lead").append("between", "api/x", tags=["b"])
        mem.as_agent("lead").approve(id)
        with mem.store.snapshot() as snap:
            assert snap.record_fields(id)["tags"] == ["a"]
            assert snap.staged() == []
            assert not snap.is_tainted(id)


def test_acts_runs_and_keys_are_found_as_they_were_written(team):
    commit, look = team
    entry = commit.append(draft_entry("one"), once="k")
    for run, parent in (("r-1", None), ("r-2", "r-1"), ("r-3", "r-1")):
        fields = {"run": run, "agent": "eng", "state": "running", "parent": parent}
        commit.append(Record.new("run", "eng", fields, key=f"run:{run}"))
    commit.append(Record.new("resolve", "eng", {"entry": entry.id}))
    snap = look()
    assert [act.seq for act in snap.acts(None, None, 0, None)] == [5, 4, 3, 2, 1]
    assert [act.seq for act in snap.acts(None, None, 0, 2)] == [5, 4]
    assert [act.seq for act in snap.acts("eng", entry.id, 0, None)] == [5]
    assert [run["run"] for run in snap.runs()] == ["r-3", "r-2", "r-1"]
    assert [run["run"] for run in snap.runs(limit=1)] == ["r-3"]
    assert [run["run"] for run in snap.children("r-1")] == ["r-3", "r-2"]
    assert snap.run("r-9") is None
    assert (snap.first("eng-a", "k"), snap.first("eng-a", "l")) == (1, None)
    (kept,) = snap.keyed("run:r-2")
    assert (kept.seq, kept.fields["run"], kept.key) == (3, "r-2", "run:r-2")
    assert snap.last_active().keys() == {"eng", "eng-a"}


def test_threads_that_end_leave_nothing_open(mem):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    def read():
        mem.store.index.db.meta("version")
        all_read.wait(30)

    read_before, all_read = open_files(), threading.Barrier(20)
    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    # SQLite keeps one of each for the next connection, as long as another one has the file open
    assert open_files() <= read_before + len(threads) + 2
