"""The projection: what the log implies, whichever way and however often it is derived."""

import importlib.util
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synapse
from synapse.core import Memory
from synapse.errors import IndexDamaged, NotFound, StoreBusy
from synapse.index.database import Database, load_sql
from synapse.index.index import Index
from synapse.index.replay import snapshot_of
from synapse.index.snapshot import Filter
from synapse.log.memory import MemoryLog
from synapse.model.agents import Agent, settled
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.system.lock import Lock
from synapse.testing import FrozenClock
from tests.examples import examples

_SPEC = importlib.util.spec_from_file_location("oracle", Path(__file__).with_name("oracle.py"))
oracle = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(oracle)
resolve = oracle.resolve

RANKS = {"a": 60, "b": 60, "c": 80, "d": 40, "e": 0}
ENTRY = st.tuples(
    st.just("entry"),
    st.sampled_from([*RANKS]),
    st.sampled_from(("local", "local", "local", "unverified")),
    st.sampled_from(("api/x", "api/x", "api/y")),
    st.sampled_from((None, "t", "t", "u")),
    st.sets(st.integers(0, 14), max_size=2),
    st.sampled_from(("1h", "3h", "30d", "never")),
    st.sampled_from((("all",), ("agent:a",), ("team:red",))),
)
WAIT = st.tuples(st.just("wait"), st.sampled_from(("30m", "90m", "1d")))
FILE = st.tuples(
    st.sampled_from(("archive", "restore")), st.sets(st.integers(0, 14), min_size=1, max_size=2)
)
RULE = st.tuples(st.sampled_from(("resolve", "approve", "reject", "vouch")), st.integers(0, 14))
STAGED = st.tuples(st.just("staged"), st.sampled_from([*RANKS]), st.sampled_from((None, "t")))
SHOWN = st.tuples(st.just("shown"), st.sampled_from([*RANKS]))
AGENT = st.tuples(
    st.just("agent"),
    st.sampled_from([*RANKS]),
    st.sampled_from(("registered", "edited", "removed")),
)
VOID = st.tuples(st.just("void"), st.integers(0, 14))


class Story:
    """A log in memory, told act by act."""

    def __init__(self, log=None):
        self.clock = FrozenClock()
        self.log = log or MemoryLog(self.clock)
        self.store = Store(self.log, self.clock)
        self.commit = self.store.commit
        self.ids = []

    def tell(self, acts):
        for kind, *rest in acts:
            if kind in ("resolve", "approve", "reject", "vouch"):
                self.rule(kind, *rest)
            else:
                getattr(self, kind)(*rest)
        return self

    def id(self, place):
        return self.ids[place % len(self.ids)] if self.ids else "syn-nothing"

    def entry(self, author, trust, namespace, topic, olds, ttl, to):
        olds = tuple(dict.fromkeys(self.id(old) for old in sorted(olds)))
        rank = 0 if trust == "unverified" else RANKS[author]
        entry = Entry(
            "",
            author,
            "",
            namespace,
            "info",
            f"body {len(self.ids)}",
            ttl,
            to,
            ("tag",),
            (),
            olds,
            topic,
        )
        self._append(entry._replace(authority=rank, trust=trust))

    def staged(self, author, topic):
        entry = Entry("", author, "", "api/x", "info", "waits", "30d", topic=topic, staged=True)
        self._append(entry._replace(authority=RANKS[author]), key="staging")

    def _append(self, entry, key=None):
        self.ids.append(
            self.commit.append(Record.new("entry", entry.author, {}, entry, key=key)).id
        )

    def wait(self, span):
        self.clock.advance(span)

    def archive(self, places):
        self.commit.archive([self.id(place) for place in sorted(places)], "c", "test")

    def restore(self, places):
        self.commit.restore([self.id(place) for place in sorted(places)], "c", "test")

    def rule(self, kind, place):
        more = (
            {"authority": 60, "trust": "reviewed", "priority": "critical"}
            if kind == "vouch"
            else {}
        )
        self.commit.append(Record.new(kind, "c", {"entry": self.id(place), **more}))

    def shown(self, agent):
        self.commit.append(Record.new("shown", agent, {"cursor": len(self.log.records)}))

    def agent(self, id, how):
        self.commit.append(
            Record.new("agent", "operator", {"agent": Agent(id)._asdict(), "how": how})
        )

    def void(self, place):
        if self.log.records:
            self.commit.append(
                Record.new("void", "log", {"seq": place % len(self.log.records) + 1})
            )

    # -- what the index says -----------------------------------------------------------------------

    @property
    def index(self):
        self.store.refresh()
        return self.store.index

    def every(self):
        index = self.index
        return index.current.all(0)

    def live(self, now):
        index = self.index
        found = index.current.page(None, Filter(limit=None), now)
        return {entry.id: frozenset(entry.disputed) for entry in found}


def expected(entries, now):
    """The live ones and their open disputes, as the oracle has them."""
    hidden, disputes = resolve(entries)
    live = {
        e.seq: e
        for e in entries
        if e.expires > now and hidden.get(e.seq, 0) <= now and not e.archived
    }
    return {
        e.id: frozenset(live[peer].id for peer in disputes.get(e.seq, ()) if peer in live)
        for e in live.values()
    }


@given(st.lists(ENTRY | WAIT, max_size=15))
@examples(250)
def test_the_index_shows_what_resolve_says(acts):
    story = Story().tell(acts)
    entries = story.every()
    assert len(entries) == len(story.ids)
    for hours in (0, 2, 4, 24 * 40):
        now = story.clock.at + hours * 3_600_000_000 + 1_000
        assert story.live(now) == expected(entries, now)


@given(st.lists(ENTRY | WAIT, max_size=12), st.lists(FILE, min_size=1, max_size=4))
@examples(150)
def test_what_is_archived_hides_nothing_and_what_is_restored_hides_again(acts, filing):
    story = Story().tell(acts)
    before = story.live(story.clock.at + 1_000)
    story.tell(filing)
    assert story.live(story.clock.at + 1_000) == expected(story.every(), story.clock.at + 1_000)
    if story.ids:
        story.commit.restore(story.ids, "c", "all of them")
    assert story.live(story.clock.at + 1_000) == before


EVERYTHING = st.lists(ENTRY | ENTRY | WAIT | FILE | RULE | STAGED | SHOWN | AGENT, max_size=20)


@given(EVERYTHING, st.integers(1, 5))
@examples(150)
def test_the_digest_depends_on_the_log_alone(acts, step):
    """Taken in record by record, a few at once, all at once, anew, or by way of an export: one
    digest.
    """
    story = Story()
    for start in range(0, len(acts), step):
        story.tell(acts[start : start + step]).index  # noqa: B018
    digest = story.index.digest()
    assert snapshot_of(story.log, story.log.since(0)).db.digest() == digest
    mem = Memory(story.store)
    assert mem.rebuild().digest == digest
    lines = [*mem.export()]
    with synapse.open("memory:") as copy:
        assert copy.import_(lines) == len(story.log.records)
        assert copy.digest() == digest
        assert [*copy.export()] == lines


READERS = (
    None,
    settled(Agent("a", read=("api/x",), teams=("red",))),
    settled(Agent("b", read=("api/*",))),
    settled(Agent("e", read=())),
)


@given(EVERYTHING, st.integers(1, 5), st.sampled_from((-24, -2, 0, 2, 24 * 40)))
@examples(150)
def test_counts_that_are_kept_are_what_a_look_at_every_entry_finds(acts, step, hours):
    """After anything that can happen to an entry, at the time of the last record, before it and
    after it.
    """
    story = Story()
    for start in range(0, len(acts), step):
        index = story.tell(acts[start : start + step]).index
        now = story.clock.at + hours * 3_600_000_000
        for wanted in (Filter(limit=None), Filter(("critical",), ("api/x",), limit=None)):
            for agent in READERS:
                seen = index.current.page(agent, wanted, now)
                assert index.current.count(agent, wanted, now) == len(seen)
        for agent in READERS[1:]:
            shown = index.current.shown(agent.id)
            fresh = [
                entry
                for entry in index.current.page(agent, Filter(limit=None), now)
                if entry.seq > shown
            ]
            assert index.current.unread(agent, now)[0] == sum(
                entry.author != agent.id for entry in fresh
            )


@given(EVERYTHING, st.lists(VOID, min_size=1, max_size=2), EVERYTHING)
@examples(60)
def test_a_void_reaches_back(before, voids, after):
    """An index that had taken the record in and one that learns of the void first come to the
    same.
    """
    story = Story().tell(before)
    story.index  # noqa: B018
    story.tell(voids).tell(after)
    digest = story.index.digest()
    assert story.index.rebuild() == len(story.log.records)
    assert story.index.digest() == digest


@given(EVERYTHING)
@settings(max_examples=15, deadline=None)
def test_files_and_memory_derive_the_same(tmp_path_factory, acts):
    story = Story().tell(acts)
    root = tmp_path_factory.mktemp("copy")
    lines = [*Memory(story.store).export()]
    with synapse.init(str(root), clock=story.clock) as mem:
        mem.import_(lines, believe=True)
        if not [*mem.store.log.since(len(lines))]:
            assert mem.digest() == story.index.digest()
            assert mem.rebuild().digest == story.index.digest()
        assert [*mem.export()][: len(lines)] == lines


def test_what_was_vouched_for_does_not_come_back_from_its_grave():
    story = Story()
    story.tell([("entry", "a", "unverified", "api/x", None, set(), "30d", ("all",))])
    story.tell([("entry", "c", "local", "api/x", None, {0}, "30d", ("all",)), ("vouch", 0)])
    assert [*story.live(story.clock.at)] == [story.ids[1]]
    story.tell(
        [
            ("entry", "a", "unverified", "api/x", None, set(), "30d", ("all",)),
            ("resolve", 2),
            ("vouch", 2),
        ]
    )
    assert story.ids[2] not in story.live(story.clock.at)


def test_a_vouch_gives_an_entry_its_say():
    story = Story()
    one, two = ("entry", "d", "local"), ("entry", "a", "unverified")
    for who in (one, two):
        story.tell([(*who, "api/x", "t", set(), "30d", ("all",))])
    assert [*story.live(story.clock.at)] == [story.ids[0]]
    story.tell([("vouch", 1)])
    assert [*story.live(story.clock.at)] == [story.ids[1]]
    assert story.index.current.all(0)[1].priority == "critical"


def test_a_page_of_more_than_the_cache_holds():
    story = Story()
    for n in range(4_200):
        entry = Entry("", "a", "", "api/x", "info", f"{n}", "30d")
        story.commit.append(Record.new("entry", "a", {}, entry))
    index = story.index
    newest = index.current.page(None, Filter(), story.clock.at)
    everything = index.current.page(None, Filter(limit=None), story.clock.at)
    assert [entry.body for entry in everything] == [str(n) for n in reversed(range(4_200))]
    assert everything[:50] == newest
    assert len(index.current.entries) <= 4_200


def test_an_index_of_another_version_is_built_again(tmp_path):
    with synapse.init(str(tmp_path / "w")) as mem:
        mem.register(Agent("eng-a"))
        mem.as_agent("eng-a").append("text", "status/x")
        digest = mem.digest()
        mem.store.index.db.set_meta("version", "0")
    with synapse.open(str(tmp_path / "w")) as mem:
        assert mem.digest() == digest
        assert len(mem.as_agent("operator").read()) == 1


def test_a_damaged_index_says_that_it_is_derived_again(tmp_path):
    path = tmp_path / "brain.db"
    path.write_bytes(b"no database at all, and longer than a header of sixteen bytes" * 100)
    with pytest.raises(IndexDamaged, match="derived again"):
        Database(str(path))


def test_a_log_that_was_cut_is_noticed():
    """An index that has seen more than the log holds starts over."""
    story = Story().tell([("entry", "a", "local", "api/x", None, set(), "30d", ("all",))] * 3)
    assert len(story.every()) == 3
    story.log.records.pop()
    assert len(story.every()) == 2


def test_statements_are_named_once_and_whole():
    statements = load_sql("queries.sql")
    with open(
        Index.__init__.__code__.co_filename.replace("index.py", "queries.sql"), encoding="utf-8"
    ) as file:
        names = [line for line in file if line.startswith("-- name: ")]
    assert len(names) == len(set(names)) == len(statements)
    lists = {
        "aids",
        "kinds",
        "tids",
        "names",
        "nids",
        "audiences",
        "prios",
        "within",
        "seqs",
        "digests",
        "conditions",  # fixed forms, of which a question takes some
    }
    for text in statements.values():
        for fragment in ("live", "seen", "heard", "asked", "stands", "standing", "wanted"):
            assert "{" + fragment + "}" not in text
        assert {part.partition("}")[0] for part in text.split("{")[1:]} <= lists


def test_what_is_not_there_is_not_found():
    story = Story()
    with pytest.raises(NotFound):
        story.store.entry("syn-2026-02-01-001")
    assert story.index.current.entry("syn-2026-02-01-001", 0) is None


def is_held(lock):
    other = Lock(lock.path, patience=0.0)
    try:
        other.run(lambda: None)
    except StoreBusy:
        return True
    finally:
        other.close()
    return False


def test_a_fold_lets_the_log_of_changes_begin_anew(tmp_path, monkeypatch):
    """Whatever is taken in beside it: what came meanwhile is folded alone, so that the next begins
    at its beginning.
    """
    with synapse.init(str(tmp_path)) as mem:
        mem.register(Agent("a"))
        index, fold, alone = mem.store.index, mem.store.index.db.fold, []
        index.db.connection.execute("pragma wal_autocheckpoint = 0")

        def taken_in(count):
            for n in range(count):
                mem.as_agent("a").append(f"note {n}", "status/x")
                index.catch_up()
            return (tmp_path / ".index" / "brain.db-wal").stat().st_size

        def folds():
            fold()
            alone.append(is_held(index.lock))
            if not alone[-1]:
                taken_in(40)

        monkeypatch.setattr(index.db, "fold", folds)
        before = taken_in(20)
        index.fold()
        grown = (tmp_path / ".index" / "brain.db-wal").stat().st_size
        assert (grown > before, alone) == (True, [False, True])
        assert taken_in(20) < grown  # it began anew, and was cut


def test_nothing_is_lost_while_the_log_of_changes_is_folded(tmp_path):
    """From another thread, while entries come."""
    with synapse.init(str(tmp_path)) as mem:
        mem.register(Agent("a"))
        index, over = mem.store.index, threading.Event()
        before = index.digest()

        def fold():
            while not over.wait(0.01):
                index.fold(10)
            index.db.let_go()

        thread = threading.Thread(target=fold)
        thread.start()
        try:
            for n in range(200):
                mem.as_agent("a").append(f"note {n}", "status/x")
                index.catch_up()
        finally:
            over.set()
            thread.join()
        digest = index.digest()
        index.rebuild()
        assert index.digest() == digest != before
        assert index.check() == "ok"


def test_the_log_of_changes_of_a_first_filling_is_cut_when_it_begins_anew(tmp_path):
    """By SQLite alone a file keeps the most that ever was in it."""
    with synapse.init(str(tmp_path)) as mem:
        mem.register(Agent("a"))
        db, wal = mem.store.index.db, tmp_path / ".index" / "brain.db-wal"
        db.whole(lambda: db.set_meta("filled", "x" * (16 << 20)))
        filled = wal.stat().st_size
        db.set_meta("next", "1")
        assert wal.stat().st_size < 2 << 20 < 16 << 20 < filled
