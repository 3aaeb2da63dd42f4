"""Folders of threads go with their last message, and come back with the next one."""

import os

import pytest

import synapse
from synapse import Mail
from synapse.log.mirror import Mirror, _torn_at, block, is_page, pages
from synapse.testing import FrozenClock


def test_the_folder_of_a_thread_goes_with_its_messages_and_comes_back(tmp_path):
    root = str(tmp_path / "shared")
    with synapse.init(root) as memory, synapse.open(root) as other:
        for id in ("helios", "nova"):
            memory.register(synapse.Agent(id))
        first = Mail(memory.as_agent("helios")).send("nova", "one")
        folder = f"{root}/messages/{first.thread}"
        assert Mail(other.as_agent("nova")).reply(
            first.id, "two"
        )  # the other holds the folder open, too
        both = [
            entry.id for entry in memory.as_agent("operator").read(namespace="mail")
        ]
        memory.as_agent("operator").archive(both[:1])
        assert len(os.listdir(folder)) == 1
        memory.as_agent("operator").archive(both[1:])
        assert not os.path.exists(folder)
        assert Mail(other.as_agent("nova")).send("helios", "three", thread=first.thread)
        assert len(os.listdir(folder)) == 1
        memory.as_agent("operator").restore(both)
        assert len(os.listdir(folder)) == 3
        assert memory.verify().ok


def test_a_folder_in_which_a_person_keeps_something_stays(tmp_path):
    root = str(tmp_path / "shared")
    with synapse.init(root) as memory:
        for id in ("helios", "nova"):
            memory.register(synapse.Agent(id))
        first = Mail(memory.as_agent("helios")).send("nova", "one")
        note = tmp_path / "shared" / "messages" / first.thread / "note.txt"
        note.write_text("mine")
        memory.as_agent("operator").archive(first.id)
        assert note.read_text() == "mine"


def test_the_draft_of_a_killed_writer_goes_when_its_file_is_put(tmp_path):
    clock = FrozenClock()
    root = str(tmp_path / "shared")
    with synapse.init(root, clock=clock) as memory:
        memory.register(synapse.Agent("helios"))
        entry = memory.as_agent("helios").append("one", "projects/x")
    folder = tmp_path / "shared" / "entries" / "projects" / "x"
    name = f"{entry.id}.md"
    text = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / f".{name}.4711.abcdef").write_bytes(text[:9])
    clock.advance("5s")
    with synapse.open(root, clock=clock) as memory:
        memory.as_agent("helios").read()
    assert os.listdir(folder) == [name]
    assert (folder / name).read_bytes() == text


def test_a_file_that_cannot_be_written_leaves_no_draft(tmp_path, monkeypatch):
    mirror = Mirror(str(tmp_path), lambda section: section())

    def full(fd, raw):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("synapse.log.mirror.write_all", full)
    with pytest.raises(OSError, match="No space"):
        mirror.place("entries/x/syn-1.md", b"text")
    assert os.listdir(tmp_path / "entries" / "x") == []
    mirror.close()


TEXTS = [
    b"a",
    b"twelve bytes",
    b"",
    b"with a head:\n<!-- synapse:entry id=x bytes=3 -->\n",
]
BLOCKS = [block(f"syn-{number}", text) for number, text in enumerate(TEXTS)]


def read(raw):
    return [(page.id, page.text, page.whole) for page in pages(raw)]


@pytest.mark.parametrize(
    "between", [b"", b"\n", b"a person's line\n", b"<!-- synapse:"]
)
def test_a_page_is_read_whatever_stands_between_its_entries(between):
    raw = b"".join(between + (b"\n" if between else b"") + each for each in BLOCKS)
    assert read(raw) == [(f"syn-{at}", text, True) for at, text in enumerate(TEXTS)]
    assert is_page(raw) is (not between)
    assert _torn_at(raw) == len(raw)


def test_a_head_counts_only_at_the_begin_of_a_line_and_as_a_whole():
    for odd in (
        b"x" + BLOCKS[0],
        BLOCKS[0].replace(b" -->\n", b" --->\n", 1),
        BLOCKS[0].replace(b"bytes=1", b"bytes=x", 1),
        BLOCKS[0].replace(b" sha256=", b" more sha256=", 1),
    ):
        assert read(odd) == []
        assert read(odd + b"\n" + BLOCKS[1]) == [("syn-1", TEXTS[1], True)]
        assert not is_page(odd)


def test_a_changed_text_is_not_whole():
    raw = BLOCKS[0] + BLOCKS[1].replace(b"twelve", b"eleven") + BLOCKS[2]
    assert [page.whole for page in pages(raw)] == [True, False, True]
    assert is_page(raw) is False


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_last_block_that_is_cut_anywhere_is_torn(whole):
    raw = b"".join(BLOCKS[:whole])
    assert _torn_at(raw) == len(raw)
    for block_ in BLOCKS:
        for size in range(1, len(block_)):
            assert _torn_at(raw + block_[:size]) == len(raw)
        assert _torn_at(raw + block_) == len(raw + block_)


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 1])
def test_a_file_of_any_length_is_read_to_its_end(tmp_path, size):
    raw = b"x" * size
    (tmp_path / "page.md").write_bytes(raw)
    mirror = Mirror(str(tmp_path), lambda section: section())
    assert mirror.read("page.md", limit=1 << 30) == raw
    mirror.close()
