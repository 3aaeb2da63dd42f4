"""The index over a log in memory: what it takes in, what it says of records that are gone, and what
it does about a damaged file.
"""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from synapse.errors import IndexDamaged, StoreCorrupt, StoreError
from synapse.index.derive.progress import read_reached, write_reached
from synapse.index.index import Index
from synapse.index.snapshot import Filter
from synapse.log.commit import Commit
from synapse.log.memory import MemoryLog
from synapse.model.records import Lost, Record
from synapse.testing import FrozenClock, draft_entry


class Told(MemoryLog):
    """A log in memory that keeps what it was asked to explain."""

    def __init__(self):
        super().__init__(FrozenClock())
        self.losses = []

    def explain(self, lost):
        self.losses.append(lost)
        return super().explain(lost)


@pytest.fixture
def log():
    return Told()


@pytest.fixture
def commit(log, tmp_path):
    return Commit(log, Index(log, str(tmp_path / "i" / "brain.db")))


@pytest.fixture
def index(commit):
    made = commit.index
    made.said = []
    made.say = made.said.append
    for number in range(3):
        commit.append(draft_entry(f"body {number}"))
    made.catch_up()
    yield made
    made.db.close()


def damaged():
    raise IndexDamaged("damaged")


def unreadable():
    connection = sqlite3.connect(":memory:")
    connection.deserialize(b"no database at all, and no header of one" * 100)
    connection.execute("select 1 from sqlite_master")


def mistaken():
    sqlite3.connect(":memory:").execute("select from")


class Section:
    """Fails the first time, in this way."""

    def __init__(self, fails):
        self.fails, self.calls = fails, 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            self.fails()
        return "done"


@pytest.mark.parametrize("fails", [damaged, unreadable])
def test_a_damaged_file_is_set_aside_and_the_section_runs_again(index, tmp_path, fails):
    section, digest = Section(fails), index.digest()
    assert index.twice(section) == "done"
    assert section.calls == 2
    assert (tmp_path / "i" / "brain.db.damaged").exists()
    assert index.digest() == digest
    assert [note.split(":")[0] for note in index.said] == ["the index was damaged"]


def test_what_is_no_damage_sets_nothing_aside(index, tmp_path):
    section = Section(mistaken)
    with pytest.raises(sqlite3.OperationalError, match="syntax error"):
        index.twice(section)
    assert section.calls == 1
    assert not (tmp_path / "i" / "brain.db.damaged").exists()


def test_an_index_in_memory_has_nothing_to_set_aside():
    index = Index(Told(), ":memory:")
    with pytest.raises(StoreError):
        index.twice(Section(unreadable))


def test_a_rebuild_that_finds_every_record_gives_none_up(index):
    turn = index.turns()
    assert index.rebuild() == 3
    index.catch_up()
    assert (index.said, index.turns()) == ([], turn)


def test_a_rebuild_gives_up_what_is_gone(index, log):
    log.records.pop()
    turn = index.turns()
    assert index.rebuild() == 2
    index.catch_up()
    assert index.said == ["given up: records 3 to 3, which had been seen, are not there"]
    assert (index.turns(), log.losses) == (turn + 1, [])


def test_the_log_explains_why_it_ends_before_what_was_indexed(index, log):
    first, last = log.records[1].at, log.records[2].at
    del log.records[1:]
    index.catch_up()
    assert log.losses == [Lost(1, 3, first, last, "-")]
    assert index.said == [
        "the journal is another one than was indexed (its owner took records back):"
        " the index was made anew"
    ]


def test_a_log_that_ends_before_what_a_lost_index_had_seen_is_explained(index, log):
    log.records.pop()
    index.renew()
    index.catch_up()
    assert log.losses == [Lost(2, 3, 0, 0, "-")]
    assert index.seen() == 2


def test_a_log_of_another_proof_that_lost_nothing_is_derived_anew(index, log, commit):
    """It may hold as many records as before, or more."""
    write_reached(index.db, read_reached(index.db)._replace(proof="9"))
    commit.append(draft_entry("more"))
    index.catch_up()
    assert log.losses == []
    assert index.said == [
        "the journal is another one than was indexed (a checkout?): the index was made anew"
    ]


def test_a_fold_waits_until_there_is_enough(index):
    count = index.taken
    index.fold(count + 1)
    assert index.taken == count > 0
    index.fold(count)
    assert index.taken == 0


def test_an_index_in_memory_is_not_folded():
    log = Told()
    index = Index(log, ":memory:")
    commit = Commit(log, index)
    commit.append(draft_entry("body"))
    index.catch_up()
    count = index.taken
    index.fold()
    assert index.taken == count > 0


def test_the_names_of_a_folder_begin_with_the_first_record(index, log, commit):
    names = [f"{record.id}.md" for record in log.records]
    folder = f"entries/{log.records[0].fields['namespace']}"
    assert sorted(index.names(folder)) == names
    added = commit.append(draft_entry("more"))
    index.catch_up()
    assert sorted(index.names(folder)) == [*names, f"{added.id}.md"]


def test_who_was_shown_nothing_saw_up_to_no_place(index):
    assert index.current.shown("nobody") == 0


def test_a_thread_reads_in_the_new_file_after_one_was_set_aside(index):
    with ThreadPoolExecutor(1) as other:
        index.note("kept", "before")
        assert other.submit(index.db.meta, "kept").result() == "before"
        index.renew()
        index.note("kept", "after")
        assert other.submit(index.db.meta, "kept").result() == "after"


def test_entries_are_loaded_some_hundreds_at_a_time():
    log = Told()
    index = Index(log, ":memory:")
    commit = Commit(log, index)
    for number in range(502):
        commit.append(draft_entry(f"body {number}"))
    index.catch_up()
    found = index.current.page(None, Filter(limit=None), log.records[-1].at)
    assert sorted(entry.seq for entry in found) == list(range(1, 503))


def test_one_batch_is_counted_and_one_is_enough_to_fold(index, log, commit):
    index.fold()
    commit.append(draft_entry("more"))
    index.catch_up()
    assert index.taken == 1
    index.fold()
    assert index.taken == 0


def test_two_histories_are_said_once_each_time_they_come(index, log, commit):
    index.say("begin")
    for forked in (True, True, False, True):
        log.forked = forked
        commit.append(draft_entry("more"))
        index.catch_up()
        index.say("caught up")
    note = (
        "the journal holds two histories (a git merge?), and one is shown:"
        " `synapse merge`, or the next write, makes them one"
    )
    assert index.said == [
        *("begin", note, "caught up", "caught up", "caught up", note, "caught up")
    ]


def test_damaged_records_are_said_once_until_others_are(index, log, commit):
    for damaged in ((5,), (), (6, 7)):
        log.damaged.update(damaged)
        commit.append(draft_entry("more"))
        index.catch_up()
    assert [note.partition(";")[0] for note in index.said] == [
        "the journal is damaged: record 5 cannot be read, all others can",
        "the journal is damaged: records 5 to 7 cannot be read, all others can",
    ]
    assert read_reached(index.db).lost == (5, 6, 7)


def test_an_entry_of_another_log_takes_the_place_of_the_one_before(index, log, commit):
    def shown():
        found = index.current.page(None, Filter(), log.clock())
        return [(entry.body, entry.namespace) for entry in found]

    assert shown()[0] == ("body 2", "api/endpoints")
    folder = "entries/api/endpoints"
    assert len(index.names(folder)) == 3
    del log.records[1:]
    index.catch_up()
    turn = index.turns()
    assert index.fork(turn - 1) == 1
    commit.append(draft_entry("other", namespace="db/x"))
    index.catch_up()
    assert shown() == [("other", "db/x"), ("body 0", "api/endpoints")]
    assert index.names(folder) == {f"{log.records[0].id}.md"}


def test_a_log_that_is_empty_by_now_gives_all_up(index, log):
    log.records.clear()
    assert index.rebuild() == 0
    index.catch_up()
    assert index.said == ["given up: records 1 to 3, which had been seen, are not there"]
    assert (index.seen(), log.losses) == (0, [])


def test_a_purge_begins_another_log_that_shares_nothing(index):
    turn, digest = index.turns(), index.digest()
    index.purge()
    index.catch_up()
    assert (index.turns(), index.fork(turn)) == (turn + 1, 0)
    assert index.digest() == digest


def test_a_log_restored_from_a_place_shares_what_is_before(index):
    turn = index.turns()
    index.restored(2)
    assert (index.turns(), index.fork(turn)) == (turn + 1, 2)


@pytest.mark.parametrize("together", [False, True])
def test_time_that_steps_back_after_the_first_record_is_seen(together):
    log = Told()
    index = Index(log, ":memory:")
    commit = Commit(log, index)
    log.clock.advance("24h")
    ahead = commit.append(draft_entry("from a clock ahead"))
    if not together:
        index.catch_up()
    log.clock.advance("1s")
    log.clock.at = ahead.at - 24 * 3_600_000_000
    right = commit.append(draft_entry("from a clock that is right"))
    assert right.at < ahead.at
    index.catch_up()
    assert index.steps().caps == ((2, right.at),)
    found = index.current.page(None, Filter(), right.at)
    assert [(entry.seq, entry.at) for entry in found] == [(2, right.at), (1, right.at)]


def test_as_many_records_under_another_proof_have_lost_none(index, log):
    write_reached(index.db, read_reached(index.db)._replace(proof="9"))
    index.place = (-1, -1)
    index.catch_up()
    assert log.losses == []
    assert index.said == [
        "the journal is another one than was indexed (a checkout?): the index was made anew"
    ]


def test_records_that_make_no_sense_are_named(index, log):
    at = log.records[-1].at
    log.records += [Record(seq, at + seq, "entry", "eng-a", f"syn-{seq}", {}) for seq in (4, 5)]
    with pytest.raises(
        StoreCorrupt, match=r"understood in records 4 to 5: run `synapse verify` \("
    ):
        index.catch_up()
    del log.records[3:]
    index.catch_up()
    assert index.cursor() == 3


def test_a_folder_is_without_what_was_filed_away(index, log, commit):
    folder = f"entries/{log.records[0].fields['namespace']}"
    names = [f"{record.id}.md" for record in log.records]
    assert sorted(index.names(folder)) == names
    commit.archive([log.records[1].id], "operator", "old")
    index.catch_up()
    assert sorted(index.names(folder)) == [names[0], names[2]]
    commit.restore([log.records[1].id], "operator", "needed")
    index.catch_up()
    assert sorted(index.names(folder)) == names


def test_the_words_of_the_first_record_are_filled_in():
    log = Told()
    index = Index(log, ":memory:")
    commit = Commit(log, index)
    for count in (1, 2):
        commit.append(draft_entry("needle"))
        index.catch_up()
        index.fill_words()
        rows = index.db.connection.execute(
            "select rowid from words where words match 'needle' order by rowid"
        )
        assert [seq for (seq,) in rows] == list(range(1, count + 1))
        assert index.db.meta("words") == str(count)


def test_only_who_finds_the_damaged_file_sets_it_aside(index):
    file = index.db.file
    assert index.db.set_aside()
    assert index.db.file == file + 1
    index.db.inode = 0  # as if another process had opened the file that is there now
    assert not index.db.set_aside()
