"""The proof of a journal by itself: a torn line stands as long as its seal names its bytes."""

import itertools
from pathlib import Path

import pytest

from synapse.log.journal import Journal
from synapse.log.mirror import Mirror
from synapse.log.proof import Proof
from synapse.model.records import Record

TORN = b'{"chain":"0123 half a line'


@pytest.fixture
def sealed(tmp_path):
    """The root of a workspace whose journal holds a torn line, sealed, and a record behind it."""
    journal = opened(tmp_path)
    journal.append([Record.new("shown", "eng", {"cursor": 0})])
    journal.close()
    with path_of(tmp_path).open("ab") as file:
        file.write(TORN)
    journal = opened(tmp_path)
    journal.append([Record.new("shown", "eng", {"cursor": 1})])
    journal.close()
    return tmp_path


def opened(root):
    for name in ("journal", ".index"):
        (root / name).mkdir(exist_ok=True)
    ticks = itertools.count(10**15, 10**6)
    return Journal(str(root / "journal"), lambda: next(ticks))


def path_of(root):
    (path,) = Path(root, "journal").glob("*.jsonl")
    return path


def problems(root):
    journal, mirror = opened(root), Mirror(str(root), lambda section: section())
    try:
        return [each.what for each in Proof(str(root), journal, mirror).run().problems]
    finally:
        mirror.close()
        journal.close()


def test_a_sealed_line_is_no_problem(sealed):
    assert TORN in path_of(sealed).read_bytes()
    assert problems(sealed) == []


@pytest.mark.parametrize(
    "others", [TORN[:-1] + b"E", TORN + b"s", TORN[:-1]], ids=["other", "more", "fewer"]
)
def test_a_sealed_line_of_other_bytes_is_a_problem(sealed, others):
    path = path_of(sealed)
    path.write_bytes(path.read_bytes().replace(TORN, others))
    assert problems(sealed) == ["cannot be read, and no seal names it: its bytes were changed"]
