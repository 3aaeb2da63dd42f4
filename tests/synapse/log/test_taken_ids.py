"""Which ids are taken: those of the index, and those on the lines behind it."""

import pytest

import synapse
from synapse.errors import Conflict, StoreError
from synapse.log.taken_ids import TakenIds, claim, names_of
from synapse.model import kinds
from synapse.model.placement import NOTHING
from synapse.model.records import Record
from synapse.system.digest import sha256

FACT = "fact_0123456789ab"


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "w")) as memory:
        yield memory


class Asked:
    """A journal with its index, and what is known of the lines behind that."""

    def __init__(self, memory):
        self.journal, self.index = memory.store.log.journal, memory.store.index
        self.index.catch_up()
        self.taken = TakenIds(memory.store.log)
        self.start = self.index.cursor()

    def write(self, *ids):
        record = Record.new("shown", "eng", {"cursor": 0})
        records = [record._replace(id=id) for id in ids]
        return [record for record, _ in self.journal.append(records)]

    def holds(self, id):
        tail = NOTHING._replace(seq=self.journal.last())
        return self.taken.holds(self.index, tail, id)

    @property
    def state(self):
        """Return the cursor, floor and end of what was read, counted from the start, and the ids."""
        taken = self.taken
        cursor = self.index.cursor() - self.start
        return cursor, taken.floor - self.start, taken.read - self.start, taken.ids


@pytest.fixture
def asked(memory):
    return Asked(memory)


def test_an_id_on_a_line_behind_the_index_is_taken(asked):
    asked.write("a", "b")
    assert asked.holds("b") is True
    assert asked.holds("c") is False
    assert asked.state == (0, 0, 2, {"a", "b"})
    asked.write("c")
    assert asked.holds("c") is True
    assert asked.holds("a") is True
    assert asked.state == (0, 0, 3, {"a", "b", "c"})


def test_an_id_that_the_index_holds_is_taken(memory):
    memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
    entry = memory.as_agent("eng").append("text", "api/x")
    asked = Asked(memory)
    assert asked.holds(entry.id) is True
    assert asked.holds("other") is False
    assert asked.state == (0, 0, 0, set())


@pytest.mark.parametrize(
    ("lines", "state"), [(200, (0, 0, 200, {"last"})), (201, (201, 201, 201, set()))]
)
def test_the_index_is_caught_up_where_it_is_more_than_200_lines_behind(asked, lines, state):
    asked.write(*[None] * (lines - 1), "last")
    assert asked.holds("other") is False
    assert asked.state == state


def test_lines_that_were_read_do_not_count_as_behind(asked):
    asked.write(*[None] * 150)
    asked.holds("")
    asked.write(*[None] * 150)
    asked.holds("")
    assert asked.state == (0, 0, 300, set())


def test_what_was_read_counts_as_far_as_the_index_has_not_passed_it(asked):
    asked.write("a", "b")
    asked.holds("")
    asked.index.catch_up()
    asked.holds("")
    assert asked.state == (2, 0, 2, {"a", "b"})
    asked.write("c")
    asked.index.catch_up()
    asked.holds("")
    assert asked.state == (3, 3, 3, set())
    asked.write("d")
    asked.holds("")
    assert asked.state == (3, 3, 4, {"d"})


def test_an_index_that_went_back_has_its_lines_read_again(asked):
    asked.write("a", "b")
    asked.taken.floor = asked.taken.read = asked.start + 1
    assert asked.holds("a") is True
    assert asked.state == (0, 0, 2, {"a", "b"})


@pytest.mark.parametrize(("names", "kept"), [(10_000, True), (10_001, False)])
def test_no_more_than_10_000_names_are_kept(asked, names, kept):
    asked.write("a")
    asked.holds("")
    asked.taken.ids |= {f"x{number}" for number in range(names - 1)}
    assert asked.holds("x0") is kept
    assert asked.holds("a") is True
    assert len(asked.taken.ids) == (names if kept else 1)


def test_lines_of_this_process_are_taken_from_it_as_far_as_they_are_next(asked):
    """Names that stand on no line show where they came from."""
    first, second, _, fourth = asked.write("a", "b", "c", "d")
    asked.taken.own += [
        first._replace(id="own1"),
        second._replace(id="own2"),
        fourth._replace(id="own4"),
    ]
    assert asked.holds("own2") is True
    assert asked.state == (0, 0, 4, {"own1", "own2", "c", "d"})
    assert not asked.taken.own
    (fifth,) = asked.write("e")
    asked.taken.own.append(fifth._replace(id="own5"))
    assert asked.holds("own4") is False  # it was behind a line that had to be read
    assert asked.holds("own5") is True
    assert asked.state == (0, 0, 5, {"own1", "own2", "c", "d", "own5"})
    assert not asked.taken.own


def test_a_record_takes_its_id_and_its_alias():
    record = Record.new("entry", "eng", {"alias": "plan"})._replace(id="a")
    assert names_of(record) == ("a", "plan")
    assert names_of(Record.new("shown", "eng", {})) == ()


def following(turn):
    return kinds.new_id("fact", bytes.fromhex(sha256(f"seed {turn}".encode())[:12]))


@pytest.mark.parametrize("dropped", [True, False])
def test_a_free_id_of_its_kind_is_the_writer_s(dropped):
    assert claim("fact", FACT, "seed", dropped, {"other"}.__contains__) == FACT


@pytest.mark.parametrize("wanted", [FACT, "atom_0123456789ab", "x"])
def test_an_id_that_is_taken_or_of_another_kind_is_refused(wanted):
    with pytest.raises(Conflict) as caught:
        claim("fact", wanted, "seed", False, {FACT}.__contains__)
    assert str(caught.value) == (f"{wanted!r} is taken, or is no id of facts: nothing was written")
    assert caught.value.details["id"] == wanted


@pytest.mark.parametrize("wanted", [FACT, "atom_0123456789ab", ""])
def test_a_dropped_file_gets_the_next_free_id_that_follows_from_the_log(wanted):
    assert claim("fact", wanted, "seed", True, {FACT}.__contains__) == following(0)
    held = {FACT, *map(following, range(999))}
    assert claim("fact", wanted, "seed", True, held.__contains__) == following(999)
    held.add(following(999))
    with pytest.raises(StoreError, match="no free id was found"):
        claim("fact", wanted, "seed", True, held.__contains__)
