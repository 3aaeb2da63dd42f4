"""Whether a journal may end before what was indexed, and what is said where it may not."""

import shutil
from types import SimpleNamespace

import pytest

from synapse.errors import StoreCorrupt
from synapse.log import progress, vanished
from synapse.model.entry import SECOND
from synapse.model.records import Lost
from tests.git import commit, git

FIRST = 1_000 * SECOND


class Unread:
    """The journal of a root; only its directory is asked for."""

    def __init__(self, root):
        self.directory = str(root / "journal")


def explain(root, lost):
    return vanished.explain(str(root), Unread(root), lost)


def lost(end=5, seen=7, seconds=1, first_at=FIRST, boot="another"):
    return Lost(end, seen, first_at, first_at + int(seconds * SECOND), boot)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (lost(), "the machine went down before its last 2 records were on the disk"),
        (lost(6), "the machine went down before its last 1 record were on the disk"),
        (lost(0, 1), "the machine went down before its last 1 record were on the disk"),
        (lost(seconds=9.999), "the machine went down before its last 2 records were on the disk"),
    ],
)
def test_a_machine_that_went_down_may_take_the_last_seconds(tmp_path, missing, said):
    assert explain(tmp_path, missing) == said


@pytest.mark.parametrize(
    "missing",
    [
        lost(seconds=10),  # by then they were on the disk
        lost(seconds=-10_000, first_at=0),  # nobody knows when they came
        lost(boot=progress.boot()),  # the machine has run ever since
        lost(boot="-"),  # nobody knows whether it has
    ],
)
def test_what_else_is_gone_was_lost(tmp_path, missing):
    with pytest.raises(StoreCorrupt) as caught:
        explain(tmp_path, missing)
    assert str(caught.value) == (
        f"the journal ends at record 5, but 7 were seen: 2 records lost. Bring journal/ back (from"
        f" a backup, or with `git -C {tmp_path} checkout -- journal`), or accept what is there"
        f" with `synapse rebuild`"
    )
    assert caught.value.details == {"seen": 7, "end": 5, "path": str(tmp_path / "journal")}


def test_a_journal_of_which_nothing_is_left_is_called_gone(tmp_path):
    with pytest.raises(
        StoreCorrupt, match="the journal is gone or empty, but 1 were seen: 1 record lost"
    ):
        explain(tmp_path, lost(0, 1, seconds=10))


@pytest.mark.skipif(shutil.which("git") is None, reason="NOT RUN: there is no git on this machine")
class TestGit:
    """In a work tree, where git may go back while one looks."""

    @pytest.fixture
    def root(self, tmp_path):
        git(tmp_path, "init", "-q")
        (tmp_path / "journal").mkdir()
        (tmp_path / "journal" / "1.jsonl").write_text("one\n")
        commit(tmp_path)
        return tmp_path

    def test_the_journal_of_the_commit_may_be_shorter(self, root):
        assert explain(root, lost(seconds=10)) == "it is the one of the commit that is checked out"

    @pytest.mark.parametrize("after", [1, 3, None])
    def test_a_checkout_is_given_a_moment_to_end(self, root, monkeypatch, after):
        """It writes the files first, and says then what is checked out."""
        (root / "journal" / "1.jsonl").write_text("on")
        waits = []

        def sleep(seconds):
            waits.append(seconds)
            if len(waits) == after:
                commit(root)

        monkeypatch.setattr(vanished, "time", SimpleNamespace(sleep=sleep))
        if after is None:
            with pytest.raises(StoreCorrupt):
                explain(root, lost(seconds=10))
        else:
            assert "the commit" in explain(root, lost(seconds=10))
        assert waits == [0.05] * (after or 3)

    def test_without_a_work_tree_nobody_waits(self, tmp_path, monkeypatch):
        monkeypatch.setattr(vanished, "time", None)
        assert explain(tmp_path, lost())
