"""What git says of a journal: whether it is, byte for byte, the one that was committed."""

import shutil

import pytest

from synapse.log.git import is_committed, is_work_tree
from tests.git import commit, git

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="NOT RUN: there is no git on this machine"
)


@pytest.fixture
def root(tmp_path):
    """A work tree whose first commit has no journal, and whose second has one of two segments."""
    git(tmp_path, "init", "-q")
    (tmp_path / "notes.md").write_text("notes")
    commit(tmp_path)
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / "1.jsonl").write_text("one\n")
    (journal / "2.jsonl").write_text("two\n")
    (journal / "lock").write_text("")
    commit(tmp_path)
    return tmp_path


def test_a_journal_as_it_was_committed(root):
    assert is_committed(str(root))


@pytest.mark.parametrize(
    ("name", "text", "committed"),
    [
        ("1.jsonl", "One\n", False),
        ("2.jsonl", "two\nthree\n", False),
        ("2.jsonl", "", False),
        ("3.jsonl", "three\n", False),
        ("3.jsonl", "", True),  # a segment that nothing was written to yet
        ("lock", "4711", True),
        ("copy.txt", "one\n", True),
    ],
)
def test_a_journal_that_differs_is_not_the_committed_one(root, name, text, committed):
    (root / "journal" / name).write_text(text)
    assert is_committed(str(root)) is committed


def test_a_segment_that_is_gone_was_not_taken_away_by_git(root):
    (root / "journal" / "2.jsonl").unlink()
    assert not is_committed(str(root))


def test_a_commit_from_before_the_journal_took_it_away(root):
    git(root, "checkout", "-q", "HEAD~1")
    assert not (root / "journal").exists()
    (root / "journal").mkdir()
    assert is_committed(str(root))


def test_what_git_never_had_it_did_not_take_away(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "notes.md").write_text("notes")
    commit(tmp_path)
    (tmp_path / "journal").mkdir()
    assert not is_committed(str(tmp_path))
    assert not is_committed(str(tmp_path / "journal"))


def test_a_folder_without_git_has_no_commit(tmp_path, monkeypatch):
    (tmp_path / "journal").mkdir()
    assert not is_committed(str(tmp_path))
    assert not is_work_tree(str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_committed(str(tmp_path))


def test_a_work_tree_is_known_from_any_folder_in_it(root):
    assert is_work_tree(str(root))
    assert is_work_tree(str(root / "journal"))


def test_the_environment_of_another_repository_changes_nothing(root, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(root / "nowhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(root / "nowhere"))
    assert is_committed(str(root))
