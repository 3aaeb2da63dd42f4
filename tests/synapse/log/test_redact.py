"""The text of a record leaves its line, its file and its archive page, and nothing else does."""

import os

import pytest

import synapse
from synapse.errors import StoreError
from synapse.log import redact
from synapse.log.chain import is_redacted
from synapse.system.plain_files import DRAFT

SECRET = "Otter Quay is bought in the third quarter."


@pytest.fixture
def root(tmp_path, clock):
    with synapse.init(str(tmp_path / "ws"), clock=clock) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
    return tmp_path / "ws"


@pytest.fixture
def memory(root, clock):
    with synapse.open(str(root), clock=clock) as memory:
        yield memory


def lines(root):
    """All lines of the journal, of however many files."""
    files = sorted((root / "journal").glob("*.jsonl"))
    return b"".join(file.read_bytes() for file in files).splitlines(keepends=True)


def says(memory, body=SECRET, by="eng"):
    entry = memory.as_agent(by).append(body, "decisions/x")
    return entry.id, memory.store.commit.get(entry.id)


# -- the line --------------------------------------------------------------------------------------


def test_its_line_alone_changes_and_keeps_its_length(memory, root):
    says(memory, "first")
    _, record = says(memory)
    says(memory, "last")
    before = lines(root)
    assert redact.blank(str(root), memory.store.log.journal, record.seq) is True
    after = lines(root)
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed == [record.seq - 1]
    (line,) = (after[n] for n in changed)
    assert is_redacted(line)
    assert len(line) == len(before[record.seq - 1])
    assert SECRET.encode() not in b"".join(after)


def test_a_second_time_there_is_nothing_to_do(memory, root):
    journal, (_, record) = memory.store.log.journal, says(memory)
    assert redact.blank(str(root), journal, record.seq) is True
    once = lines(root)
    assert redact.blank(str(root), journal, record.seq) is False
    assert lines(root) == once


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_of_several_files_of_the_journal_the_right_one_changes(memory, root, n):
    """Also the first and the last record of one."""
    memory.store.log.journal.segment_bytes = 1
    said = [says(memory, f"{SECRET} No. {m}.") for m in range(4)]
    assert len(list((root / "journal").glob("*.jsonl"))) > 3
    _, record = said[n]
    assert redact.blank(str(root), memory.store.log.journal, record.seq)
    left = b"".join(lines(root))
    assert [b"No. %d." % m in left for m in range(4)] == [m != n for m in range(4)]
    assert [is_redacted(line) for line in lines(root)].count(True) == 1


def test_the_journal_reads_the_line_as_it_is_now(memory, root):
    journal, (_, record) = memory.store.log.journal, says(memory)
    assert journal.at(record.seq).text is not None
    redact.blank(str(root), journal, record.seq)
    assert journal.at(record.seq).text is None
    says(memory, "It goes on.")
    assert [each.text for each in journal.since(record.seq)][-1].endswith("It goes on.\n")


def test_earlier_drafts_go_and_nothing_else_does(memory, root):
    _, record = says(memory)
    (root / ".index" / f"{DRAFT}4711").write_text(SECRET)
    (root / ".index" / "notes").write_text("mine")
    redact.blank(str(root), memory.store.log.journal, record.seq)
    names = os.listdir(root / ".index")
    assert not [name for name in names if name.startswith(DRAFT)]
    assert "notes" in names


def test_a_journal_that_was_replaced_meanwhile_stays_as_it_is(memory, root, monkeypatch):
    _, record = says(memory)
    read = redact.read_file
    monkeypatch.setattr(redact, "read_file", lambda path: read(path).replace(b"Otter", b"Tiger"))
    before = lines(root)
    with pytest.raises(StoreError, match="replaced meanwhile: redact it again"):
        redact.blank(str(root), memory.store.log.journal, record.seq)
    assert lines(root) == before


# -- the tree --------------------------------------------------------------------------------------


def texts(root):
    """The files of the tree that hold the text."""
    found = []
    for folder in ("entries", "staging", "archive"):
        for path in (root / folder).rglob("*"):
            if path.is_file() and SECRET.encode() in path.read_bytes():
                found.append(path.relative_to(root).as_posix())
    return found


@pytest.mark.parametrize("by", ["eng", "junior"])
def test_its_file_and_what_was_drafted_of_it_go(memory, root, by):
    id, record = says(memory, by=by)
    (place,) = texts(root)
    folder = (root / place).parent
    (folder / f".{id}.md.4711.abc").write_text(SECRET)
    (folder / "other.md").write_text("stays")
    redact.remove(memory.store.log.mirror, record)
    assert texts(root) == []
    assert os.listdir(folder) == ["other.md"]


def test_of_an_archive_page_its_block_alone_goes(memory, root):
    others = [says(memory, f"It stays: {n}.")[0] for n in range(2)]
    id, record = says(memory)
    memory.as_agent("eng").archive([others[0], id, others[1]])
    (page,) = (root / "archive").iterdir()
    before = page.read_bytes()
    (page.parent / f".{page.name}.4711.abc").write_text(SECRET)
    redact.remove(memory.store.log.mirror, record)
    assert texts(root) == []
    left = page.read_bytes()
    assert [left.count(f"id={each} ".encode()) for each in (*others, id)] == [1, 1, 0]
    start = before.index(f"<!-- synapse:entry id={id} ".encode())
    end = before.index(f"<!-- /synapse:entry {id} -->\n".encode())
    end += len(f"<!-- /synapse:entry {id} -->\n")
    assert left == before[:start] + before[end:]


def test_a_page_without_it_is_not_written_anew(memory, root):
    other, (_, record) = says(memory, "It stays.")[0], says(memory)
    memory.as_agent("eng").archive([other])
    (page,) = (root / "archive").iterdir()
    inode = page.stat().st_ino
    redact.remove(memory.store.log.mirror, record)
    assert page.stat().st_ino == inode


def test_a_record_that_names_no_place_has_nothing_to_remove(memory, root):
    id, record = says(memory)
    odd = record._replace(path="../outside.md")
    (root.parent / "outside.md").write_text("mine")
    redact.remove(memory.store.log.mirror, odd)
    assert (root.parent / "outside.md").exists()
    assert texts(root) == [f"entries/decisions/x/{id}.md"]
