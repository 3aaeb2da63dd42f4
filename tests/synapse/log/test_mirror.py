"""The tree of files: folders that go and come back, archive pages, and what a file of the log is."""

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
        # the other holds the folder open, too
        assert Mail(other.as_agent("nova")).reply(first.id, "two")
        both = [entry.id for entry in memory.as_agent("operator").read(namespace="mail")]
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


TEXTS = [b"a", b"twelve bytes", b"", b"with a head:\n<!-- synapse:entry id=x bytes=3 -->\n"]
BLOCKS = [block(f"syn-{number}", text) for number, text in enumerate(TEXTS)]


def read(raw):
    return [(page.id, page.text, page.whole) for page in pages(raw)]


@pytest.mark.parametrize("between", [b"", b"\n", b"a person's line\n", b"<!-- synapse:"])
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


@pytest.fixture
def mirror(tmp_path):
    mirror = Mirror(str(tmp_path), lambda section: section())
    yield mirror
    mirror.close()


def on_page(mirror, page="archive/x.md"):
    return [entry.id for entry in pages(mirror.read(page)) if entry.whole]


def test_an_entry_is_filed_away_once_however_often_that_is_asked(mirror):
    for texts in ({"syn-1": b"one\n"}, {"syn-1": b"one\n", "syn-2": b"two\n"}):
        for _ in range(2):
            mirror.file_away("archive/x.md", texts)
    assert on_page(mirror) == ["syn-1", "syn-2"]


def test_what_others_added_to_a_page_is_seen(tmp_path, mirror):
    mirror.file_away("archive/x.md", {"syn-1": b"one\n"})
    with (tmp_path / "archive" / "x.md").open("ab") as file:
        file.write(block("syn-2", b"two\n"))
    mirror.file_away("archive/x.md", {"syn-2": b"two\n", "syn-3": b"three\n"})
    assert on_page(mirror) == ["syn-1", "syn-2", "syn-3"]


@pytest.mark.parametrize("more", [b"", b"a person's line\n" * 90], ids=["shorter", "longer"])
def test_a_page_that_was_replaced_is_read_anew(tmp_path, mirror, more):
    mirror.file_away("archive/x.md", {"syn-1": b"one\n", "syn-2": b"two\n"})
    (tmp_path / "other.md").write_bytes(more + block("syn-3", b"three\n"))
    os.replace(tmp_path / "other.md", tmp_path / "archive" / "x.md")
    mirror.file_away("archive/x.md", {"syn-1": b"one\n", "syn-3": b"three\n"})
    assert on_page(mirror) == ["syn-3", "syn-1"]


def test_a_page_that_was_cut_is_read_anew(tmp_path, mirror):
    mirror.file_away("archive/x.md", {"syn-1": b"one\n", "syn-2": b"two\n"})
    os.truncate(tmp_path / "archive" / "x.md", len(block("syn-1", b"one\n")))
    mirror.file_away("archive/x.md", {"syn-2": b"two\n"})
    assert on_page(mirror) == ["syn-1", "syn-2"]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_end_of_a_page_makes_way(tmp_path, mirror, cut):
    mirror.file_away("archive/x.md", {"syn-1": b"one\n", "syn-2": b"two\n"})
    path = tmp_path / "archive" / "x.md"
    os.truncate(path, path.stat().st_size - cut)
    mirror.file_away("archive/x.md", {"syn-3": b"three\n"})
    assert on_page(mirror) == ["syn-1", "syn-3"]
    assert is_page(path.read_bytes())


def test_the_log_knows_which_files_it_put_there(tmp_path, mirror):
    (tmp_path / ".index").mkdir()
    assert not mirror.wrote("entries/a.md", b"one")
    mirror.place("entries/a.md", b"one")
    assert mirror.wrote("entries/a.md", b"one")
    assert not mirror.wrote("entries/a.md", b"two")
    assert not mirror.wrote("entries/b.md", b"one")
    other = Mirror(str(tmp_path), lambda section: section())
    other.place("entries/b.md", b"two")
    other.close()
    assert mirror.wrote("entries/b.md", b"two")
    mirror.forget()
    assert not mirror.wrote("entries/c.md", b"one")


def test_a_file_that_stands_is_replaced_only_where_that_is_asked(tmp_path, mirror):
    assert mirror.place("entries/a.md", b"one") is True
    assert mirror.place("entries/a.md", b"two") is False
    assert mirror.read("entries/a.md") == b"one"
    assert mirror.place("entries/a.md", b"two", replace=True) is True
    assert mirror.read("entries/a.md") == b"two"
    assert os.listdir(tmp_path / "entries") == ["a.md"]


def test_a_folder_that_is_pruned_is_made_again_for_the_next_file(tmp_path, mirror):
    mirror.place("entries/x/a.md", b"one")
    mirror.prune("entries/x")  # there is something in it
    assert mirror.read("entries/x/a.md") == b"one"
    mirror.remove("entries/x/a.md")
    mirror.remove("entries/x/a.md")
    mirror.prune("entries/x")
    mirror.prune("entries/y/z")
    assert os.listdir(tmp_path / "entries") == []
    assert "entries/x" not in mirror.open
    (tmp_path / "entries" / "new").mkdir()
    mirror.prune("entries/new")  # which it never had open
    assert os.listdir(tmp_path / "entries") == []
    assert mirror.place("entries/x/a.md", b"two")
    assert mirror.read("entries/x/a.md") == b"two"


def test_only_a_regular_file_of_bounded_length_is_read(tmp_path, mirror):
    mirror.place("entries/a.md", b"one")
    (tmp_path / "entries" / "link.md").symlink_to("a.md")
    (tmp_path / "entries" / "folder.md").mkdir()
    os.mkfifo(tmp_path / "entries" / "pipe.md")
    for name in ("link.md", "folder.md", "pipe.md", "none.md", "none/a.md"):
        assert mirror.read(f"entries/{name}") is None
    assert mirror.read("entries/a.md", limit=3) == b"one"
    assert mirror.read("entries/a.md", limit=2) is None


def test_a_moved_file_has_its_new_mode_unless_it_has_other_names(tmp_path, mirror):
    for name in ("alone", "shared"):
        mirror.place(f"inbox/{name}.md", b"one", mode=0o644)
    os.link(tmp_path / "inbox" / "shared.md", tmp_path / "inbox" / "name.md")
    for name in ("alone", "shared"):
        mirror.move(f"inbox/{name}.md", f"quarantine/{name}.md", 0o600)
    modes = [
        (tmp_path / "quarantine" / f"{name}.md").stat().st_mode & 0o777
        for name in ("alone", "shared")
    ]
    assert modes == [0o600, 0o644]
    assert mirror.exists("quarantine/alone.md")
    assert not mirror.exists("inbox/alone.md")
