"""The folder of a run: lines whole or not there."""

import stat
from pathlib import Path

import pytest

from orchestrator.runs.files.folder import LEDGER, MARK, STEPS, Folder, Tail
from synapse.errors import NotFound, StoreError

READ = Path("/proc/thread-self/io")


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path), "eng-1").make()


def test_lines_come_back_whole(folder):
    lines = ["{}\n", "é\u2028\x85\x0c\n"]
    for line in lines:
        folder.record("steps.jsonl", line)
    assert list(folder.lines("steps.jsonl")) == lines
    assert list(folder.lines("none.jsonl")) == []


@pytest.mark.parametrize("torn", [b"{", b"x" * 200_000, "é".encode()[:1]])
def test_a_torn_end_is_dropped_by_the_next_line(folder, torn):
    folder.record("steps.jsonl", "one\n")
    with (Path(folder.path) / "steps.jsonl").open("ab") as file:
        file.write(torn)
    assert list(folder.lines("steps.jsonl")) == ["one\n"]
    folder.record("steps.jsonl", "two\n")
    assert list(folder.lines("steps.jsonl")) == ["one\n", "two\n"]


@pytest.mark.parametrize("left", [b"\0" * 700, b"\0\0}\n", b"{\0\n{}\n"])
def test_what_a_power_cut_left_of_lines_is_dropped_by_whoever_goes_on(tmp_path, folder, left):
    folder.record("steps.jsonl", "one\n")
    with (Path(folder.path) / "steps.jsonl").open("ab") as file:
        file.write(left)
    other = Folder(str(tmp_path), "eng-1")
    assert list(other.lines("steps.jsonl")) == ["one\n"]
    assert Tail(str(tmp_path), "eng-1", "steps.jsonl").lines() == ["one\n"]
    other.record("steps.jsonl", "two\n")
    assert list(other.lines("steps.jsonl")) == ["one\n", "two\n"]


@pytest.mark.skipif(not READ.exists(), reason="the system does not count reads")
def test_what_stands_there_is_looked_through_once(folder):
    """A line of a long file costs no more than one of a short file."""

    def bytes_read():
        lines = READ.read_text().splitlines()
        return int(lines[0].removeprefix("rchar: "))

    folder.record("steps.jsonl", "x" * 100_000 + "\n")
    before = bytes_read()
    folder.record("steps.jsonl", "one\n")
    assert bytes_read() - before < 10_000


def test_a_file_with_nothing_but_a_torn_line(folder):
    (Path(folder.path) / "steps.jsonl").write_text("half")
    folder.record("steps.jsonl", "one\n")
    assert list(folder.lines("steps.jsonl")) == ["one\n"]


def test_files_are_their_owners_alone(folder):
    path = Path(folder.write("output.md", "line\r\nend"))
    folder.record("ledger.jsonl", "{}\n", sync=False)
    assert folder.read("output.md") == "line\r\nend"
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_not_there_is_said(folder):
    with pytest.raises(NotFound, match=r"output\.md"):
        folder.read("output.md")
    with pytest.raises(StoreError, match="cannot be written"):
        Folder("/proc/none", "eng-1").record("steps.jsonl", "x\n")


def test_what_does_not_last_is_not_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fdatasync", synced.append)
    for lasting in (True, False):
        folder = Folder(str(tmp_path), f"eng-{lasting}", lasting=lasting).make()
        folder.record("steps.jsonl", "{}\n")
        folder.write("output.md", "done")
        assert folder.read("output.md") == "done"
        assert len(synced) == 2


def mark(folder):
    """Return the length that the steps had when they were put on the disk last."""
    return int(folder.read(MARK).split()[1])


def test_the_mark_of_the_steps_follows_what_is_on_the_disk(folder):
    folder.record(STEPS, "one\n", sync=False)
    assert mark(folder) == 0
    folder.record(LEDGER, "{}\n", sync=False)
    folder.sync(LEDGER)
    assert mark(folder) == 0
    folder.sync(STEPS)
    assert mark(folder) == 4
    folder.record(STEPS, "two\n", sync=False)
    assert mark(folder) == 4
    folder.record(STEPS, "three\n")
    assert mark(folder) == 14


def test_a_file_that_begins_with_zeros_has_no_whole_line(folder):
    path = Path(folder.path, STEPS)
    path.write_bytes(b"\0\0\n{}\n")
    assert list(folder.lines(STEPS)) == []
    folder.record(STEPS, "one\n")
    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [("\n{}\n", ["\n", "{}\n"]), ("a\n\nb\n", ["a\n", "\n", "b\n"]), ("\n", ["\n"])],
)
def test_an_empty_line_is_a_line(folder, text, lines):
    Path(folder.path, "steps.jsonl").write_text(text)
    assert list(folder.lines("steps.jsonl")) == lines
