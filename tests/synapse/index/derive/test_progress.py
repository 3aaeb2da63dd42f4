"""How far an index had come, and where its log and another one part."""

import pytest

import synapse
from synapse.index.derive.progress import (
    Reached,
    fork_since,
    last_common,
    note_fork,
    read_reached,
    write_reached,
)
from synapse.model.records import Record
from synapse.testing import FrozenClock

COUNT = 11


def grown(common, own):
    """A memory whose first records are those of all, and the others its own."""
    clock = FrozenClock()
    mem = synapse.open("memory:", clock=clock)
    for number in range(COUNT):
        clock.advance("1s" if number < common else own)
        mem.store.commit.append(Record.new("shown", "eng", {"cursor": number}))
    mem.store.index.catch_up()
    return mem


@pytest.mark.parametrize("common", range(COUNT + 1))
def test_where_two_logs_part_is_found(common):
    with grown(common, "2s") as one, grown(common, "3s") as other:
        for end in (COUNT, COUNT - 1, common, 0):
            found = last_common(one.store.index.db, other.store.log, end)
            assert found == min(common, end)


def test_forks_since_a_turn_are_remembered():
    with grown(0, "1s") as mem:
        db = mem.store.index.db
        write_reached(db, read_reached(db)._replace(turn=3))
        assert fork_since(db, 3) is None  # the same log
        note_fork(db, 4, 9)
        note_fork(db, 5, 6)
        note_fork(db, 6, 8)
        assert [fork_since(db, turn) for turn in (2, 3, 4, 5, 6)] == [None, 6, 6, 8, None]
        assert read_reached(db).turn == 6


def test_what_was_reached_comes_back():
    with grown(0, "1s") as mem:
        db = mem.store.index.db
        was = read_reached(db)
        assert isinstance(was, Reached)
        write_reached(db, was._replace(seen=7, proof="p", lost=(1, 2)))
        again = read_reached(db)
        assert again == was._replace(seen=7, proof="p", lost=(1, 2))
