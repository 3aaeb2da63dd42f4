"""A copy in memory of a file that may not be written."""

import os
import shutil
import sqlite3
import time

import pytest

from synapse.index import copy
from synapse.index.database import Database


@pytest.fixture
def path(tmp_path):
    """A file that nobody has open, of a while ago."""
    path = tmp_path / "a %3f ?#.db"
    made = Database(str(path))
    made.run("set_meta", {"key": "told", "value": "once"})
    made.close()
    aged(path)
    return path


def aged(path):
    os.utime(path, (time.time() - 9, time.time() - 9))


def told(database):
    try:
        return database.meta("told")
    finally:
        database.close()


def test_a_copy_holds_what_the_file_does_and_goes_its_own_way(path):
    made = copy.in_memory(str(path))
    made.set_meta("told", "twice")
    assert told(made) == "twice"
    assert told(copy.in_memory(str(path))) == "once"


def test_the_bytes_alone_are_enough_where_sqlite_cannot_open_the_file(path):
    connection = copy._of_bytes(str(path))
    ((value,),) = connection.execute("select value from meta where key = 'told'")
    assert value == "once"
    connection.execute("update meta set value = 'twice'")
    connection.close()


def test_a_file_with_changes_beside_it_is_read_through_sqlite(path):
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("update meta set value = 'twice' where key = 'told'")
    assert copy._of_bytes(str(path)) is None
    assert told(copy.in_memory(str(path))) == "twice"
    writer.close()


def test_a_file_that_was_left_with_changes_in_a_log_of_its_own_mode_is_readable(path):
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("update meta set value = 'twice' where key = 'told'")
    writer.close()  # which takes the log's changes into the file
    assert path.read_bytes()[copy._WAL] == b"\2\2"
    alone = path.parent / "alone" / path.name
    alone.parent.mkdir()
    shutil.copy(path, alone)
    aged(alone)
    connection = copy._of_bytes(str(alone))
    ((value,),) = connection.execute("select value from meta where key = 'told'")
    assert value == "twice"
    connection.close()


def test_a_file_that_changed_just_now_is_not_taken_by_its_bytes(path):
    os.utime(path)
    assert copy._whole(str(path)) is None
    aged(path)
    assert copy._whole(str(path)) == path.read_bytes()


def test_what_is_no_file_of_sqlites_is_an_empty_copy(tmp_path):
    odd = tmp_path / "odd.db"
    odd.write_bytes(b"no database at all, though long enough" * 100)
    aged(odd)
    for path in (odd, tmp_path / "none.db"):
        assert told(copy.in_memory(str(path))) is None
