"""A journal by itself: lines in segments, read from any cursor, proven, and torn ends sealed."""

import errno
import os
from pathlib import Path

import pytest

from synapse.errors import ReadOnly, StoreCorrupt, StoreError
from synapse.log import journal as journal_module
from synapse.log import reader
from synapse.log.chain import decode
from synapse.log.journal import Journal
from synapse.log.reader import JournalReader
from synapse.model.placement import GENESIS, Keeper
from synapse.model.records import Record
from synapse.system import lock
from synapse.system.digest import sha256

COUNT = 40
SEGMENT = 2_000


class Ticking:
    """A clock that goes on by a second with each look."""

    def __init__(self):
        self.now = 10**15

    def __call__(self):
        self.now += 1_000_000
        return self.now


@pytest.fixture(params=[1 << 20, SEGMENT], ids=["one segment", "many segments"])
def journal(tmp_path, request):
    (tmp_path / "journal").mkdir()
    made = Journal(str(tmp_path / "journal"), Ticking(), request.param)
    yield made
    made.close()


@pytest.fixture
def filled(journal):
    journal.append(shown(number) for number in range(1, COUNT + 1))
    return journal


@pytest.fixture
def other(filled):
    """Another process's look at the same files."""
    made = JournalReader(filled.directory, readonly=True)
    yield made
    made.close()


def shown(number):
    return Record.new("shown", "eng", {"cursor": number})


def seqs(records):
    return [record.seq for record in records]


def files(journal):
    return sorted(Path(journal.directory).glob("*.jsonl"))


def test_lines_go_on_in_segments_that_are_named_by_their_first(filled):
    starts = [int(path.stem) for path in files(filled)]
    assert starts[0] == 1
    assert (len(starts) > 3) is (filled.segment_bytes == SEGMENT)
    seen = 0
    for path in files(filled):
        lines = path.read_bytes().splitlines(keepends=True)
        assert decode(lines[0]).seq == int(path.stem) == seen + 1
        seen += len(lines)
        if path != files(filled)[-1]:
            assert path.stat().st_size >= filled.segment_bytes
            assert path.stat().st_size - len(lines[-1]) < filled.segment_bytes
    assert seen == COUNT


def test_every_cursor_has_the_records_behind_it(filled, other):
    for look in (filled, other):
        for cursor in range(COUNT + 1):
            assert seqs(look.since(cursor)) == list(range(cursor + 1, COUNT + 1))
            heads = look.since(cursor, texts=False)
            assert seqs(heads) == list(range(cursor + 1, COUNT + 1))
        assert look.last() == COUNT
        assert len(list(look.lines())) == len(list(look.raw_lines())) == COUNT
    assert seqs(other.since(COUNT + 5)) == []


@pytest.mark.parametrize("name", ["notes", "1x", "00000000000x", "", "1.2"])
def test_a_file_of_another_name_is_no_segment(filled, other, name):
    Path(filled.directory, f"{name}.jsonl").write_text("a note\n")
    Path(filled.directory, "000000000099.json").write_text("a note\n")
    assert seqs(other.since(0)) == list(range(1, COUNT + 1))
    assert other.last() == COUNT


def test_lines_that_stand_there_twice_are_read_once(filled, other):
    path = files(filled)[-1]
    raws = path.read_bytes().splitlines(keepends=True)
    with path.open("ab") as file:
        file.writelines([raws[-1], raws[0]])
    assert seqs(other.since(COUNT - 3)) == [COUNT - 2, COUNT - 1, COUNT]
    assert seqs(other.batch(COUNT - 3, 9)[0]) == [COUNT - 2, COUNT - 1, COUNT]
    assert seqs(other.since(COUNT)) == []


@pytest.mark.parametrize("near", [0, 3, 200])
def test_records_are_found_by_their_numbers(filled, other, near, monkeypatch):
    monkeypatch.setattr(reader, "_NEAR", near)
    for wanted in ([1], [COUNT], [1, 2, 9, 10, 31, COUNT], list(range(1, COUNT + 1))):
        assert seqs(other.these(wanted)) == wanted
    assert seqs(other.these([3, COUNT + 1])) == [3]
    assert other.at(7).fields == {"cursor": 7}
    assert other.at(COUNT + 1) is None


def test_batches_go_on_where_the_last_one_ended(filled, other):
    for size in (1, 3, COUNT, COUNT + 1):
        cursor, proof, found = 0, "", []
        while True:
            records, last = other.batch(cursor, size, proof)
            if not records:
                assert last == ""
                break
            assert len(records) <= size
            found += seqs(records)
            cursor, proof = records[-1].seq, last
            assert proof == other.proof(cursor)
            assert other.holds(proof) is True
        assert found == list(range(1, COUNT + 1))


def test_a_proof_is_of_one_record_at_its_place(filled, other):
    proofs = [other.proof(seq) for seq in range(COUNT + 2)]
    assert proofs[0] == proofs[-1] == ""
    assert other.holds("") is True
    assert len(set(proofs[1:-1])) == COUNT
    assert all(other.holds(proof) for proof in proofs)
    assert other.doubts == 0
    one = proofs[5].split(" ")
    for place in (1, 2, 3):
        odd = list(one)
        odd[place] = str(int(odd[place]) + 1) if place != 2 else "0" * 64
        before = other.doubts
        assert other.holds(" ".join(odd)) is False
        assert other.doubts == before + 1
    assert other.holds("99 " + " ".join(one[1:])) is False
    assert other.holds(" ".join(one[:4])) is True  # of an earlier version


def test_a_proof_without_a_place_is_of_one_record_of_one_number(filled, other):
    """It was made while the files held two histories."""
    for seq in (1, 5, COUNT):
        chain = other.proof(seq).split(" ")[2]
        assert other.holds(f"0 {seq} {chain} 0 1") is True
        assert other.holds(f"0 {seq} {'0' * 64} 0 1") is False
        assert other.holds(f"0 {seq + 1} {chain} 0 1") is False


@pytest.mark.parametrize("damage", ["cut", "zeros", "changed"])
def test_a_line_that_is_there_in_part_does_not_hold(filled, other, damage):
    proof = other.proof(COUNT)
    raw = (path := files(filled)[-1]).read_bytes()
    if damage == "cut":
        os.truncate(path, len(raw) - 1)
    else:
        with path.open("r+b") as file:
            file.seek(len(raw) - 3)
            file.write(b"\0" if damage == "zeros" else b"x")
    # a changed byte is for `verify` to find: the record is where it was
    assert other.holds(proof) is (damage == "changed")


def test_a_mark_grows_with_every_line(filled, other):
    marks = [other.mark()]
    for number in range(20):
        filled.append([shown(number)])
        marks.append(other.mark())
        assert marks[-1] == filled.mark()
        assert other.mark() == marks[-1]
    assert sorted(set(marks)) == marks
    assert other.doubts == 0
    last = files(filled)[-1]
    assert marks[-1] == (other.starts[-1], last.stat().st_size)
    os.utime(last, ns=(1, 1))  # it was written to, and is as long as before
    assert other.mark() == marks[-1]
    assert other.doubts == 1
    os.truncate(last, last.stat().st_size - 1)
    other.mark()
    assert other.doubts == 2


def test_another_file_of_the_same_name_is_noticed(filled, other):
    seqs(other.since(0))
    for path in files(filled):
        path.with_suffix(".copy").write_bytes(path.read_bytes())
        path.with_suffix(".copy").replace(path)
    assert other.replaced == 0
    os.utime(filled.directory, ns=(1, 1))
    other.mark()
    assert other.replaced == len(files(filled))
    assert seqs(other.since(0)) == list(range(1, COUNT + 1))
    assert seqs(record for record, _ in filled.append([shown(0)])) == [COUNT + 1]


def test_two_writers_take_turns_and_follow_each_other(filled):
    second = Journal(filled.directory, filled.clock, filled.segment_bytes)
    for number in range(12):
        for one in (filled, second, second):
            ((record, new),) = one.append([shown(number)])
            assert new
            assert record.seq == one.last()
    assert seqs(second.since(0)) == list(range(1, COUNT + 37))
    assert filled.stretches() == []
    second.close()


@pytest.mark.parametrize("torn", [b"{", b'{"chain":"' + b"0" * 99, b"half\0\0\n"])
def test_a_torn_end_is_sealed_by_the_next_writer(filled, other, torn):
    path = files(filled)[-1]
    with path.open("ab") as file:
        file.write(torn)
    assert other.last() == COUNT
    ((record, _),) = filled.append([shown(99)])
    assert record.seq == COUNT + 2
    seal = other.at(COUNT + 1)
    sealed = torn if torn.endswith(b"\n") else torn + b"~\n"
    assert seal.kind == "seal"
    assert seal.at == other.at(COUNT).at + 1  # no clock is asked
    assert seal.fields == {"bytes": len(sealed), "sha": sha256(sealed)}
    assert sealed in path.read_bytes()
    assert filled.stretches() == []
    assert seqs(other.since(COUNT - 1)) == [COUNT, COUNT + 1, COUNT + 2]


def test_a_torn_end_is_sealed_by_who_finishes(filled, other):
    filled.finish()
    assert filled.last() == COUNT
    with files(filled)[-1].open("ab") as file:
        file.write(b"{")
    filled.finish()
    assert other.at(COUNT + 1).kind == "seal"
    filled.finish()
    assert other.last() == COUNT + 1


def test_a_changed_last_line_is_given_up_only_by_who_says_so(filled, other):
    path = files(filled)[-1]
    raw = path.read_bytes()
    path.write_bytes(raw[:-2] + b"x\n")
    writer = Journal(filled.directory, filled.clock, filled.segment_bytes)
    with pytest.raises(StoreCorrupt, match="its bytes were changed"):
        writer.append([shown(99)])
    assert path.read_bytes() == raw[:-2] + b"x\n"
    writer.give_up_last()
    assert other.last() == COUNT
    assert other.at(COUNT).kind == "seal"
    with path.open("ab") as file:
        file.write(b"{another}\n")
    with pytest.raises(StoreCorrupt):  # it was said once, of one line
        writer.append([shown(99)])
    writer.close()


def test_a_record_that_is_there_already_writes_no_line(filled):
    def place(record, tail, at):
        assert tail.seq == COUNT
        return record._replace(seq=7)

    ((record, new),) = filled.append([shown(99)], lambda: place)
    assert (record.seq, new, filled.last()) == (7, False, COUNT)


def test_a_line_that_was_not_synced_is_taken_back(filled, monkeypatch):
    def broken(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("synapse.log.journal.sync", broken)
    with pytest.raises(Exception, match="nothing was stored"):
        filled.append([shown(1), shown(2)])
    monkeypatch.undo()
    last = list(filled.since(COUNT))
    assert [record.kind for record in last] == ["shown", "shown", "void", "void"]
    assert [record.fields.get("seq") for record in last[2:]] == seqs(last[:2])


def test_numbers_of_ids_begin_anew_each_day_unless_the_log_knows_better(journal):
    seen = []

    def place(record, tail, at):
        seen.append((tail.day, tail.n))
        return record._replace(id=f"syn-{tail.day}-{tail.n + 1:03d}")

    class Knowing(Keeper):
        def minted(self, day):
            return 4 if day == "2001-09-10" else 0

    for days in (0, 0, 1, 0, -1):
        journal.clock.now += days * 86_400_000_000
        journal.append([shown(0)], lambda: place, Knowing())
    assert seen == [
        ("2001-09-09", 0),
        ("2001-09-09", 1),
        ("2001-09-10", 4),
        ("2001-09-10", 5),
        ("2001-09-10", 6),  # a clock that goes back does not take the journal back
    ]


def test_a_journal_without_lines(journal):
    assert journal.last() == 0
    assert journal.proof(1) == ""
    assert seqs(journal.since(0)) == []
    assert journal.batch(0, 10) == ([], "")
    assert journal.stretches() == []
    assert journal.at(1) is None
    ((record, _),) = journal.append([shown(1)])
    assert record.seq == 1
    assert journal.tail.chain != GENESIS


@pytest.mark.parametrize("name", ["12x.jsonl", ".jsonl", "x.jsonl", "1.jsonl.part"])
def test_files_of_other_names_are_no_segments(filled, name):
    path = Path(filled.directory, name)
    path.write_text("of somebody else\n")
    look = JournalReader(filled.directory, readonly=True)
    assert look.last() == COUNT
    look.close()
    assert path.read_text() == "of somebody else\n"


@pytest.mark.parametrize("journal", [SEGMENT], indirect=True)
def test_a_segment_that_is_gone_is_not_made_by_who_reads_on_from_it(filled):
    proof, gone = filled.proof(COUNT), files(filled)[-1]
    look = JournalReader(filled.directory, readonly=False)
    gone.unlink()
    assert look.batch(COUNT, 9, proof) == ([], "")
    look.close()
    assert not gone.exists()


def test_a_segment_that_is_full_is_followed_by_another(tmp_path):
    """Full is as long as is said, to the byte; 64 MiB where nothing is."""
    folder = str(tmp_path / "journal")
    with_default = Journal(folder, Ticking())
    assert with_default.segment_bytes == 67_108_864
    with_default.append([shown(1)])
    (first,) = files(with_default)
    size = first.stat().st_size
    with_default.close()
    for bound, count in ((size + 1, 1), (size, 2)):
        journal = Journal(folder, Ticking(), bound)
        journal.append([shown(2)])
        assert len(files(journal)) == count
        os.truncate(first, size)
        journal.close()


def test_the_names_of_a_new_segment_are_on_the_disk_before_its_first_line(tmp_path, monkeypatch):
    """Its own, and that of the folder of the first one: else a power cut takes the lines."""
    done = []
    journal = Journal(str(tmp_path / "journal"), Ticking(), SEGMENT)

    def noted(name):
        act = getattr(journal_module, name)

        def also(target, *rest):
            what = os.path.basename(target) if isinstance(target, str) else ""
            done.append(f"{name} {what}".strip())
            return act(target, *rest)

        monkeypatch.setattr(journal_module, name, also)

    for name in ("sync_directory", "write_all"):
        noted(name)
    for number in range(COUNT):
        journal.append([shown(number)])
    starts = [int(path.stem) for path in files(journal)]
    assert len(starts) > 3
    lines = [
        ["sync_directory journal"] * (number in starts) + ["write_all"]
        for number in range(1, COUNT + 1)
    ]
    lines[0].insert(1, f"sync_directory {tmp_path.name}")
    assert done == [act for line in lines for act in line]
    journal.close()


@pytest.fixture
def barred(monkeypatch):
    """Refuse to lock, as a file system does that may only be read."""

    def refused(path, *flags):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(lock, "Lock", refused)


def test_who_may_not_write_reads_what_there_is(filled, barred):
    look = Journal(filled.directory, filled.clock)
    assert seqs(look.since(0)) == list(range(1, COUNT + 1))
    with pytest.raises(ReadOnly):
        look.append([shown(1)])
    assert filled.last() == COUNT
    look.close()


def test_where_no_journal_is_and_none_may_be_made_there_is_nothing_to_read(tmp_path, monkeypatch):
    def refused(path, *modes, **how):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "makedirs", refused)
    with pytest.raises(StoreError, match=f"{tmp_path.name} has no journal yet"):
        Journal(str(tmp_path / "journal"), Ticking())


def test_what_a_line_follows_is_asked_of_once_and_again_of_other_files(filled):
    asked = []

    class Asked(Keeper):
        def __init__(self, journal):
            self.journal = journal

        def check(self):
            asked.append(self.journal.last())

    for number in (1, 2):
        filled.append([shown(number)], keeper=Asked(filled))
    assert asked == []
    second = Journal(filled.directory, filled.clock, filled.segment_bytes)
    for number in range(3):
        second.append([shown(number)], keeper=Asked(second))
    assert asked == [COUNT + 2]
    for path in files(filled):
        path.with_suffix(".copy").write_bytes(path.read_bytes())
        path.with_suffix(".copy").replace(path)
    for number in range(2):
        second.append([shown(number)], keeper=Asked(second))
    assert set(asked[1:]) == {COUNT + 5}
    assert second.stretches() == []
    second.close()


def test_the_first_id_of_a_day_is_its_first_unless_the_log_knows_better(journal):
    seen = []

    def place(record, tail, at):
        seen.append(tail.n)
        return record

    journal.append([shown(1)], lambda: place)
    assert seen == [0]


def test_to_finish_what_nobody_began_writes_nothing(journal):
    journal.finish()
    assert journal.last() == 0
    journal.append([shown(1)])
    assert [path.stem for path in files(journal)] == [f"{1:012d}"]


def test_another_history_in_the_same_file_is_gone_on_with(tmp_path):
    """Somebody put other lines in the place of those that the writer knows, as long as them."""
    one, two = (Journal(str(tmp_path / name / "journal"), Ticking()) for name in ("one", "two"))
    for number in range(5):
        one.append([shown(number)])
        two.append([shown(number + 4)])
    (mine,), (theirs,) = files(one), files(two)
    assert mine.stat().st_size == theirs.stat().st_size
    with mine.open("r+b") as file:
        file.write(theirs.read_bytes())
    one.append([shown(9)])
    assert one.stretches() == []
    assert [record.fields["cursor"] for record in one.since(0)] == [4, 5, 6, 7, 8, 9]
    one.close()
    two.close()


def test_a_line_for_which_the_disk_has_no_room_is_taken_back(filled, monkeypatch):
    raw = files(filled)[-1].read_bytes()

    def full(fd, raw):
        os.write(fd, raw[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_module, "write_all", full)
    with pytest.raises(StoreError, match="nothing was stored"):
        filled.append([shown(99)])
    monkeypatch.undo()
    assert files(filled)[-1].read_bytes() in (raw, b"")
    filled.append([shown(99)])
    assert filled.last() == COUNT + 1
    assert filled.stretches() == []
