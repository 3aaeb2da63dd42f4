"""Which file a path means, and which file a text names."""

import os

import pytest

from synapse.system import tree_file
from synapse.system.tree_file import TreeFile, is_named, locate


def put(*parts, text=""):
    path = os.path.join(*map(str, parts))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "shop"
    put(top, ".git/HEAD", text="ref: refs/heads/main\n")
    for name in ("src/app.py", "app.py", "src/deep/only.py", "a/twice.py", "b/twice.py"):
        put(top, name)
    return str(top)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("src/app.py", ""),
        ("app.py", "src"),
        ("./app.py", "src"),
        ("../app.py", "src/deep"),
        ("{top}/src/app.py", "/"),
        ("link.py", ""),
    ],
)
def test_a_file_is_the_same_from_every_folder(tree, path, folder):
    os.symlink("src/app.py", os.path.join(tree, "link.py"))
    found = locate(path.format(top=tree), os.path.join(tree, folder.lstrip("/")))
    assert found == TreeFile(tree, "src/app.py")
    assert found.full == os.path.join(tree, "src/app.py")


def test_what_does_not_exist_yet_has_its_place(tree):
    assert locate("new/folder/x.py", tree) == TreeFile(tree, "new/folder/x.py")


def test_a_linked_work_tree_is_another_one(tree, tmp_path):
    put(tree, ".git/worktrees/two/commondir", text="../..\n")
    put(tmp_path, "two/.git", text=f"gitdir: {tree}/.git/worktrees/two\n")
    put(tmp_path, "two/src/app.py")
    linked = locate("src/app.py", str(tmp_path / "two"))
    assert linked == TreeFile(str(tmp_path / "two"), "src/app.py")
    assert linked.key != locate("src/app.py", tree).key


def test_outside_of_git_the_project_is_the_tree_or_the_path_is_absolute(tmp_path):
    path = put(tmp_path, "notes/a.txt")
    assert locate(path, "/") == TreeFile("", path)
    assert locate("notes/a.txt", str(tmp_path), str(tmp_path)) == TreeFile(
        str(tmp_path), "notes/a.txt"
    )
    assert locate(path, "/", str(tmp_path / "other")) == TreeFile("", path)


@pytest.mark.parametrize(
    ("text", "path", "is_so"),
    [
        ("src/app.py is generated", "src/app.py", True),
        ("see `src/app.py`.", "src/app.py", True),
        ("(src/app.py:12)", "src/app.py", True),
        ("./src/app.py", "src/app.py", True),
        ("{top}/src/app.py", "src/app.py", True),
        ("app.py is generated", "app.py", True),
        ("app.py is generated", "src/app.py", False),
        ("deep/only.py", "src/deep/only.py", True),
        ("only.py", "src/deep/only.py", True),
        ("other/only.py", "src/deep/only.py", False),
        ("twice.py", "a/twice.py", False),
        ("a/twice.py", "b/twice.py", False),
        ("only.pyc and my-only.py", "src/deep/only.py", False),
        ("nothing", "src/app.py", False),
        ("src", "src/app.py", False),
    ],
)
def test_a_text_names_a_file_by_its_path_or_by_an_end_that_is_its_alone(tree, text, path, is_so):
    assert is_named(text.format(top=tree), TreeFile(tree, path)) is is_so


def test_in_a_tree_too_large_no_name_is_known_to_be_the_only_one(tree, monkeypatch):
    monkeypatch.setattr(tree_file, "MOST", 2)
    assert not is_named("only.py", TreeFile(tree, "src/deep/only.py"))
    assert is_named("src/deep/only.py", TreeFile(tree, "src/deep/only.py"))
