"""Two histories in the files of one journal become one: which files are written, and which stay."""

from contextlib import closing
from pathlib import Path

import pytest

from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.log import progress, unite
from synapse.log.chain import chain_of, decode
from synapse.log.damage import has_text
from synapse.log.journal import Journal
from synapse.log.merge import sides
from synapse.log.mirror import Mirror, path_of
from synapse.log.reader import JournalReader
from synapse.model.records import Record

SEGMENT = 900


class Ticking:
    now = 10**15

    def __call__(self):
        self.now += 1_000_000
        return self.now


def journal_at(root):
    for name in ("journal", ".index"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return Journal(str(root / "journal"), Ticking(), SEGMENT)


def shown(**fields):
    return Record.new("note", "eng", fields)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "ours"


@pytest.fixture
def ours(root):
    made = journal_at(root)
    made.append(shown(base=number) for number in range(12))
    made.append(shown(ours=number) for number in range(5))
    yield made
    made.close()


@pytest.fixture
def theirs(tmp_path, ours):
    """The lines of a copy that was written on after the twelfth."""
    made = journal_at(tmp_path / "theirs")
    unite.begin(str(tmp_path / "theirs"), made, list(ours.raw_lines())[:12])
    made.append(shown(theirs=number) for number in range(3))
    yield list(made.raw_lines())
    made.close()


def united(root, ours, lines=()):
    mirror = Mirror(str(root), lambda section: section())
    try:
        return ours.lock.run(lambda: unite.unite(str(root), ours, mirror, lines))
    finally:
        mirror.close()


def files(root):
    return {
        path.name: (path.stat().st_ino, path.read_bytes())
        for path in sorted((root / "journal").glob("*.jsonl"))
    }


def whole(root):
    """Return the lines of all files, which have to be one history."""
    raws = [raw for _, text in files(root).values() for raw in text.splitlines(True)]
    assert sides(raws).others == []
    assert [decode(raw).seq for raw in raws] == list(range(1, len(raws) + 1))
    assert not list((root / ".index").glob("journal-*"))
    return raws


def test_what_others_hold_is_appended_and_the_files_before_stay(root, ours, theirs):
    before, lines = files(root), list(ours.raw_lines())
    assert len(before) > 3
    merged = united(root, ours, theirs)
    assert merged.records == 3
    assert whole(root) == [*lines, *merged.lines]
    after = files(root)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1
    assert progress.lags(str(root)) is True
    ((record, _),) = ours.append([shown(more=1)])
    assert record.seq == len(lines) + len(merged.lines) + 1


def test_what_is_there_already_writes_nothing(root, ours, theirs):
    united(root, ours, theirs)
    before = files(root)
    for lines in ((), theirs, list(ours.raw_lines())):
        merged = united(root, ours, lines)
        assert (merged.lines, merged.records) == ([], 0)
        assert files(root) == before


def test_a_longer_copy_of_ours_counts_its_lines(root, ours):
    longer = list(ours.raw_lines())
    short = root.parent / "short"
    one = journal_at(short)
    unite.begin(str(short), one, longer[:9])
    merged = united(short, one, longer)
    assert (merged.records, merged.lines) == (8, [])
    assert whole(short) == longer
    one.close()


def test_two_histories_in_one_file_are_told_apart_and_united(root, ours, theirs):
    last = root / "journal" / list(files(root))[-1]
    with last.open("ab") as file:
        file.writelines(theirs[12:])
    with closing(JournalReader(ours.directory, readonly=True)) as reader:
        lines = list(ours.raw_lines())[:17]
        proofs = [reader.proof(seq) for seq in (3, 13, 17)]
        reader.batch(0, 99)
        found, cursor = [], 0
        while batch := reader.batch(cursor, 4, reader.proof(cursor))[0]:
            found += batch
            cursor = batch[-1].seq
        assert [record.seq for record in found] == list(range(1, 18))
        assert [record.fields.get("theirs") for record in found] == [None] * 17
        assert all(reader.holds(proof) for proof in proofs)
        assert reader.last() == 17
        assert reader.stretches() == []
        assert list(reader.lines()) == lines
        assert reader.at(14).fields == {"ours": 1}
        odd = reader.proof(14).replace(chain_of(lines[13]), "0" * 64)
        assert reader.holds(reader.proof(14)) is True
        assert reader.holds(odd) is False
    merged = united(root, ours)
    assert merged.records == 3
    assert whole(root) == [*lines, *merged.lines]


def test_files_behind_the_one_that_is_written_go(root, ours):
    lines = list(ours.raw_lines())
    first = next(iter(files(root)))
    raws = files(root)[first][1].splitlines(keepends=True)
    (root / "journal" / first).write_bytes(b"".join([raws[0], raws[0], *raws[1:]]))
    again = journal_at(root)
    united(root, again)  # a line that stands there twice
    assert list(files(root)) == [first]
    assert whole(root) == lines
    again.close()


def test_a_file_whose_name_is_wrong_is_written_anew(root, ours):
    lines = list(ours.raw_lines())
    names = list(files(root))
    path = root / "journal" / names[1]
    path.rename(path.with_name(f"{int(path.stem) + 1:012d}.jsonl"))
    again = journal_at(root)
    assert unite._untouched(again, lines) == (1, 0)
    again.close()


def test_which_files_stay(root, ours):
    lines = list(ours.raw_lines())
    starts = [int(Path(name).stem) for name in files(root)]
    assert unite._untouched(ours, lines) == (len(lines) + 1, len(lines))
    assert unite._untouched(ours, [*lines, b"more"]) == (18, 17)
    for changed in range(len(lines)):
        other = [*lines[:changed], b"other", *lines[changed + 1 :]]
        start = max(start for start in starts if start <= changed + 1)
        assert unite._untouched(ours, other) == (start, start - 1)


def test_a_journal_begins_whole_and_only_once(tmp_path, ours):
    lines = list(ours.raw_lines())
    root = tmp_path / "new"
    made = journal_at(root)
    (root / ".index" / "journal-99").write_bytes(b"of one that was killed")
    unite.begin(str(root), made, lines)
    assert whole(root) == lines
    assert progress.lags(str(root))
    with pytest.raises(Conflict, match="already"):
        unite.begin(str(root), made, lines[:2])
    assert whole(root) == lines
    made.close()


def damaged(root, ours, seq):
    """Change a byte of a line; return its stretch and what stood there."""
    raw = list(ours.raw_lines())[seq - 1]
    for path in (root / "journal").glob("*.jsonl"):
        text = path.read_bytes()
        path.write_bytes(text.replace(raw, raw.replace(b'"eng"', b'"enf"')))
    (stretch,) = ours.stretches()
    return stretch, raw


@pytest.mark.parametrize("seq", [1, 2, 6, 12, 17])
def test_a_proven_line_is_put_back_where_it_was(root, ours, seq):
    before = {name: text for name, (_, text) in files(root).items()}
    stretch, raw = damaged(root, ours, seq)
    assert unite.put_back(str(root), ours, stretch, raw) is True
    assert {name: text for name, (_, text) in files(root).items()} == before
    assert ours.stretches() == []
    # what is whole by now is not touched again
    assert unite.put_back(str(root), ours, stretch, b"other\n") is False
    assert {name: text for name, (_, text) in files(root).items()} == before


def test_a_file_that_begins_with_another_record_by_now_is_left(root, ours):
    stretch, raw = damaged(root, ours, 1)
    moved = stretch._replace(seqs=range(2, 3))
    assert unite.put_back(str(root), ours, moved, raw) is False
    assert ours.stretches() == [stretch]


def test_lines_are_read_from_a_workspace_a_snapshot_and_an_export(tmp_path, root, ours):
    lines = list(ours.raw_lines())
    assert list(unite.lines_of(str(root))) == lines
    (tmp_path / "snapshot").mkdir()
    export = tmp_path / "snapshot" / "log.jsonl"
    export.write_bytes(b"{torn}\n" + b"".join(lines) + lines[0][:-1])
    assert list(unite.lines_of(str(tmp_path / "snapshot"))) == lines
    assert list(unite.lines_of(str(export))) == lines
    with pytest.raises(NotFound, match="neither a workspace nor a snapshot"):
        list(unite.lines_of(str(tmp_path / "none")))


def test_a_text_that_was_changed_is_told_with_its_line(tmp_path, ours):
    ours.append([shown(a=1)._replace(text="as it was")])
    lines = list(ours.raw_lines())
    bad = lines[-1].replace(b"as it was", b"as it is!")
    assert not has_text(decode(bad))
    export = tmp_path / "export.jsonl"
    export.write_bytes(b"".join([*lines[:-1], bad]))
    with pytest.raises(InvalidEntry, match="the text of line 18 is not what"):
        list(unite.lines_of(str(export)))
    assert list(unite.lines_of(str(export), strict=False)) == lines[:-1]


@pytest.mark.parametrize("edited", [False, True])
def test_a_file_that_only_the_others_wrote_leaves_its_place(root, ours, edited):
    """Their entry has another id in ours, and stands under that one. What a person wrote since is
    nobody's to remove.
    """
    fields = {"namespace": "api/x", "kind": "entry"}
    record = Record(1, 0, "entry", "eng", "syn-2001-09-09-001", fields, "text")
    place = root / path_of(record)
    place.parent.mkdir(parents=True)
    place.write_text("text, edited" if edited else "text")
    mirror = Mirror(str(root), lambda section: section())
    unite._leave(mirror, [record])
    mirror.close()
    assert place.exists() is edited
