"""Lines of a file by their offsets, however long they are and wherever one begins to look."""

import os
import stat

import pytest

from synapse.errors import StoreError
from synapse.log import disk

LENGTHS = [1, 2, 4094, 4095, 4096, 4097, 3, 40_000, 1, 90_000, 5]


@pytest.fixture
def opened(tmp_path):
    fds = []

    def write(raw):
        path = tmp_path / f"file-{len(fds)}"
        path.write_bytes(raw)
        fds.append(os.open(path, os.O_RDWR))
        return fds[-1]

    yield write
    for fd in fds:
        os.close(fd)


def lines_of(lengths):
    return [
        (b"%d:" % number).ljust(length, b"x") + b"\n" for number, length in enumerate(lengths, 1)
    ]


LINES = lines_of(LENGTHS)
RAW = b"".join(LINES)
STARTS = [sum(map(len, LINES[:number])) for number in range(len(LINES))]


@pytest.mark.parametrize("torn", [b"", b"t", b"torn" * 3_000])
def test_the_line_before_an_end_is_found(opened, torn):
    fd = opened(RAW + torn)
    for start, line in zip(STARTS, LINES, strict=True):
        assert disk.line_before(fd, start + len(line)) == (start, line)
    if torn:
        assert disk.line_before(fd, len(RAW + torn)) == (len(RAW), torn)
    assert disk.line_before(fd, 0) == (0, b"")


def test_the_last_whole_line_is_found_behind_any_number_of_others(opened):
    fd = opened(RAW)

    def is_of(number):
        return lambda raw: raw.startswith(b"%d:" % number)

    for number in (3, 8, 11):
        found = disk.last_line(fd, len(RAW), is_of(number))
        assert found == (STARTS[number - 1], LINES[number - 1])
    assert disk.last_line(fd, len(RAW), lambda raw: False) == (0, b"")
    assert disk.last_line(fd, 0, lambda raw: True) == (0, b"")


def number_of(raw):
    head = raw.partition(b":")[0]
    return int(head) if head.isdigit() else 0


def test_a_line_that_begins_behind_an_offset_is_found(opened):
    fd = opened(RAW)
    for number in range(2, len(LINES)):
        behind = STARTS[number]
        offsets = (STARTS[number - 1], STARTS[number - 1] + 1, behind - 1)
        for offset in offsets:
            if number_of(LINES[number]):
                assert disk.line_from(fd, offset, len(RAW), number_of) == (behind, number + 1)
    assert disk.line_from(fd, STARTS[-1], len(RAW), number_of) is None
    assert disk.line_from(fd, STARTS[2], STARTS[4], number_of) == (STARTS[3], 4)
    assert disk.line_from(fd, STARTS[2], STARTS[4] - 1, number_of) is None


def test_lines_without_a_number_are_passed_over(opened):
    fd = opened(b"first\nodd\nodd\n4:x\n5:x\n")
    assert disk.line_from(fd, 0, 23, number_of) == (14, 4)
    assert disk.line_from(fd, 0, 14, number_of) is None


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_whole_lines_are_read_from_any_offset(opened, torn):
    long = lines_of([*LENGTHS, 1 << 20, 3_000_000, 2])
    raw = b"".join(long)
    fd = opened(raw + torn)
    assert list(disk.whole_lines(fd, 0)) == long
    assert list(disk.whole_lines(fd, STARTS[5])) == long[5:]
    assert list(disk.whole_lines(fd, len(raw))) == []


@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, mode, monkeypatch):
    path = tmp_path / "file"
    umask = os.umask(0o022)
    try:
        disk.write_file(str(path), b"one", mode)
    finally:
        os.umask(umask)
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == (0o644 if mode is None else mode)

    def full(fd, raw):
        os.write(fd, raw[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_all", full)
    with pytest.raises(OSError, match="No space"):
        disk.write_file(str(path), b"two", mode)
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["file"]


def test_a_short_write_goes_on(opened, monkeypatch):
    fd, write = opened(b""), os.write
    monkeypatch.setattr(disk.os, "write", lambda fd, raw: write(fd, raw[:3]))
    disk.write_all(fd, b"more than three")
    assert os.pread(fd, 99, 0) == b"more than three"


def test_a_segment_is_made_only_by_who_may_write(tmp_path):
    path = str(tmp_path / "segment")
    assert disk.open_segment(path, readonly=True) is None
    fd = disk.open_segment(path, readonly=False)
    os.write(fd, b"one")
    os.close(fd)
    fd = disk.open_segment(path, readonly=True)
    assert os.read(fd, 99) == b"one"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"two")
    os.close(fd)
    with pytest.raises(StoreError, match="could not be opened"):
        disk.open_segment(str(tmp_path / "none" / "segment"), readonly=False)


def test_an_empty_first_line_is_a_line(opened):
    fd = opened(b"\nnext\n")
    assert disk.line_before(fd, 1) == (0, b"\n")
    assert disk.line_before(fd, 6) == (1, b"next\n")
