"""Which workspace is meant, with real folders, repositories, work trees and submodules."""

import os
import subprocess
import sys

import pytest

import synapse
from synapse.errors import Conflict, NotFound, StoreError
from synapse.system.discovery import POINTER, accept_way_out, find_way_out, is_workspace, locate
from tests.git import git


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder outside of every project, and no environment of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("SYNAPSE_", "GIT_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


def repository(path):
    path.mkdir(parents=True)
    git(path, "init", "-q")
    git(path, "commit", "-q", "--allow-empty", "-m", "first")
    return path


@pytest.fixture
def repo(tmp_path):
    return repository(tmp_path / "work" / "repo")


def workspace(path):
    (path / "entries").mkdir(parents=True)
    (path / "synapse.yaml").write_text("protocol: 1\n")
    return path


def folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def found(start):
    location = locate(start=start)
    return location.root, location.rule


def missing(start):
    with pytest.raises(NotFound) as error:
        locate(start=start)
    return str(error.value)


# -- from the current folder up --------------------------------------------------------------------


def test_it_is_found_from_every_sub_folder_of_a_project(repo):
    root = workspace(repo / "shared-memory")
    for place in (repo, folder(repo / "src"), folder(repo / "src/deep/er")):
        assert found(place) == (str(root), "folder")
        assert synapse.find(place) == str(root)


def test_it_is_found_from_inside_the_workspace(repo):
    root = workspace(repo / "notes")
    assert found(root) == (str(root), "inside")
    assert found(folder(root / "entries/api")) == (str(root), "inside")
    plain = workspace(repo / "shared-memory")
    (plain / "synapse.yaml").unlink()
    assert found(folder(plain / "entries/api")) == (str(plain), "folder")


def test_the_nearest_one_is_meant(repo):
    workspace(repo / "shared-memory")
    near = workspace(repo / "service/shared-memory")
    assert found(folder(repo / "service/src")) == (str(near), "folder")


def test_a_project_with_folders_of_these_names_is_no_workspace(repo):
    folder(repo / "entries"), folder(repo / "journal")
    root = workspace(repo / "shared-memory")
    assert found(folder(repo / "entries/posts")) == (str(root), "folder")


def test_a_folder_of_that_name_alone_is_none(repo):
    folder(repo / "shared-memory/docs")
    assert "no workspace" in missing(repo)
    for name in ("entries", "journal"):
        folder(repo / "shared-memory" / name)
        assert found(repo)[1] == "folder", "the specification's tree has no journal"
        os.rmdir(repo / "shared-memory" / name)
    assert not is_workspace(str(repo / "shared-memory"))


def test_a_link_to_nothing_is_told(repo):
    (repo / "shared-memory").symlink_to(repo / "gone")
    assert "is a link to nothing" in missing(folder(repo / "src"))


def test_options_and_the_environment_go_first(repo, monkeypatch):
    workspace(repo / "shared-memory")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("SYNAPSE_ROOT", "~/mine")
    assert locate() == (os.path.expanduser("~/mine"), "environment", "SYNAPSE_ROOT", False)
    assert locate("here") == ("here", "option", "--root", False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_one_that_may_not_be_looked_into_is_not_passed_over(repo):
    root = workspace(repo / "shared-memory")
    root.chmod(0)
    try:
        with pytest.raises(StoreError, match="Permission denied"):
            locate(start=repo)
    finally:
        root.chmod(0o755)


# -- its end ---------------------------------------------------------------------------------------


def test_the_default_is_never_taken_from_inside_a_project(repo, home):
    default = workspace(home / "shared-memory")
    told = missing(folder(repo / "src"))
    for part in (
        str(repo / "src"),
        str(repo),
        str(default),
        "--root",
        "SYNAPSE_ROOT",
        str(repo / POINTER),
    ):
        assert part in told
    assert "synapse init" not in told


def test_the_default_is_taken_outside_of_git(home, tmp_path):
    default = workspace(home / "shared-memory")
    assert found(folder(tmp_path / "plain")) == (str(default), "home")
    assert found(folder(home / "notes")) == (str(default), "home")
    assert found(home) == (str(default), "home")


def test_outside_of_git_the_walk_ends_at_the_home_folder(home, tmp_path):
    workspace(tmp_path / "shared-memory")
    assert "synapse init" in missing(folder(home / "notes"))
    assert found(folder(tmp_path / "other"))[1] == "folder"


def test_a_project_ends_at_the_top_of_its_work_tree(repo):
    workspace(repo.parent / "shared-memory")
    assert "this project has no workspace" in missing(folder(repo / "src"))
    git(folder(repo / "vendored"), "init", "-q")
    workspace(repo / "shared-memory")
    assert "this project has no workspace" in missing(repo / "vendored")


def test_a_home_folder_inside_a_project(repo, monkeypatch):
    root = workspace(repo / "shared-memory")
    monkeypatch.setenv("HOME", str(folder(repo / "home")))
    assert found(folder(repo / "home/src")) == (str(root), "folder")


def test_a_home_folder_that_is_a_work_tree(home):
    git(home, "init", "-q")
    root = workspace(home / "shared-memory")
    assert found(folder(home / "src")) == (str(root), "folder")


def test_an_agent_is_told_to_make_none(repo, monkeypatch):
    assert f"synapse init {repo}/shared-memory" in missing(repo)
    for name in ("SYNAPSE_AGENT", "SYNAPSE_RUN"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "eng-a")
            told = missing(repo)
            assert "make no other" in told
            assert "synapse init" not in told
            with pytest.raises(NotFound) as error:
                synapse.open(str(repo / "nowhere"))
            assert "synapse init" not in str(error.value)


def test_an_address_that_leads_nowhere_names_the_workspace_there_is(repo, monkeypatch):
    monkeypatch.chdir(folder(repo / "src"))
    with pytest.raises(NotFound, match="synapse init"):
        synapse.open("typo")
    root = workspace(repo / "shared-memory")
    with pytest.raises(NotFound) as error:
        synapse.open("typo")
    assert f"there is one at {root}" in str(error.value)
    assert "synapse init" not in str(error.value)


def test_what_anybody_may_have_put_above_is_passed_over(tmp_path):
    place = folder(tmp_path / "tmp")
    workspace(place / "shared-memory")
    place.chmod(0o1777)
    missing(folder(place / "mine"))
    assert found(place)[1] == "folder"
    (place / POINTER).write_text("shared-memory\n")
    missing(place / "mine")


# -- pointer files ---------------------------------------------------------------------------------


def test_a_pointer_file_names_it(repo, home, tmp_path):
    root = workspace(repo / "elsewhere/team memory")
    (repo / POINTER).write_text("elsewhere/team memory\n")
    assert found(folder(repo / "src")) == (str(root), "pointer")
    workspace(repo / "shared-memory")
    assert found(repo)[1] == "pointer", "what somebody wrote goes before what happens to be there"
    (repo / POINTER).write_text(f"\n{root}")
    assert found(repo)[0] == str(root)
    mine = workspace(home / "mine")
    (repo / POINTER).write_text("~/mine\n")
    with pytest.raises(Conflict, match=f"names {mine}, which is not in {repo}"):
        found(repo)
    accept_way_out(find_way_out(repo / "src"))
    assert found(repo)[0] == str(mine)
    assert find_way_out(repo).real == str(mine)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "names no workspace"),
        (b"\n \n", "names no workspace"),
        (b"one\ntwo\n", "names no workspace"),
        (b"a\0b", "names no workspace"),
        (b"x" * 5_000, "names no workspace"),
        (b"\xff\xfe", "not UTF-8"),
        (b"nowhere\n", "where no workspace is"),
        (b".git\n", "where no workspace is"),
    ],
)
def test_a_broken_pointer_is_never_passed_over(repo, raw, told):
    workspace(repo / "shared-memory")
    workspace(repo.parent / "shared-memory")
    (repo / POINTER).write_bytes(raw)
    text = missing(folder(repo / "src"))
    assert str(repo / POINTER) in text
    assert told in text
    assert "write one line" in text


def test_a_pointer_to_nothing_and_one_that_is_a_pipe(repo):
    (repo / POINTER).symlink_to("gone")
    assert "which is not followed" in missing(repo)
    (repo / POINTER).unlink()
    os.mkfifo(repo / POINTER)
    assert "it is a named pipe" in missing(repo)
    (repo / POINTER).unlink()
    folder(repo / POINTER)
    assert "cannot be read" not in missing(repo), "a folder of that name is somebody else's"


# -- git -------------------------------------------------------------------------------------------


def test_a_linked_work_tree_has_that_of_the_main_one(repo, tmp_path):
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    git(repo, "worktree", "add", "-q", repo / ".trees/inner")
    assert str(repo) in missing(folder(tmp_path / "linked/src"))
    root = workspace(repo / "shared-memory")
    for place in (tmp_path / "linked", tmp_path / "linked/src", repo / ".trees/inner"):
        assert found(place) == (str(root), "folder")
        assert locate(start=place).main
    own = workspace(tmp_path / "linked/shared-memory")
    assert found(tmp_path / "linked/src") == (str(root), "folder"), (
        "what is checked out here is a copy"
    )
    assert found(own) == (str(own), "inside")


def test_what_only_a_linked_work_tree_has_is_found_there(repo, tmp_path):
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    own = workspace(tmp_path / "linked/shared-memory")
    assert found(folder(tmp_path / "linked/src")) == (str(own), "folder")
    assert not locate(start=tmp_path / "linked").main


def test_a_linked_work_tree_looks_in_the_same_folders_of_the_main_one(repo, tmp_path):
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    root = workspace(repo / "service/shared-memory")
    assert found(folder(tmp_path / "linked/service/src")) == (str(root), "folder")
    assert "main work tree" in missing(tmp_path / "linked")
    (repo / POINTER).write_text("service/shared-memory\n")
    assert found(tmp_path / "linked") == (str(root), "pointer")


def test_a_work_tree_with_relative_paths(repo, tmp_path):
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", linked)
    (linked / ".git").write_text(
        f"gitdir: {os.path.relpath(repo / '.git/worktrees/linked', linked)}\n"
    )
    root = workspace(repo / "shared-memory")
    assert found(linked) == (str(root), "folder")


def test_a_submodule_is_a_part_of_the_project_around_it(repo, tmp_path):
    git(repo, "submodule", "add", "-q", repository(tmp_path / "library"), "lib/sub")
    git(repo, "commit", "-q", "-m", "sub")
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    git(tmp_path / "linked", "submodule", "update", "--init", "-q")
    assert str(repo) in missing(repo / "lib/sub")
    root = workspace(repo / "shared-memory")
    assert found(repo / "lib/sub") == (str(root), "folder")
    assert found(tmp_path / "linked/lib/sub") == (str(root), "folder")
    own = workspace(repo / "lib/sub/shared-memory")
    assert found(repo / "lib/sub") == (str(own), "folder")


def test_a_bare_repository_with_its_work_trees_beside_it(repo, tmp_path):
    project = folder(tmp_path / "project")
    git(tmp_path, "clone", "-q", "--bare", repo, project / ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    git(project, "worktree", "add", "-q", "-b", "x", project / "feature")
    root = workspace(project / "shared-memory")
    assert found(folder(project / "feature/src")) == (str(root), "folder")


def test_a_bare_repository_has_no_main_work_tree(repo, tmp_path):
    bare = folder(tmp_path / "srv") / "project.git"
    git(tmp_path, "clone", "-q", "--bare", repo, bare)
    git(bare, "worktree", "add", "-q", "-b", "x", tmp_path / "feature")
    workspace(tmp_path / "srv/shared-memory")
    assert "this project has no workspace" in missing(tmp_path / "feature")
    root = workspace(tmp_path / "feature/shared-memory")
    assert found(tmp_path / "feature") == (str(root), "folder")


@pytest.mark.parametrize(
    "text", ["", "nonsense", "gitdir:", "gitdir: /nowhere/at/all", "gitdir: .git", "\udcff"]
)
def test_an_odd_git_file_ends_the_walk_and_fails_nothing(tmp_path, text):
    place = folder(tmp_path / "odd")
    (place / ".git").write_bytes(text.encode(errors="surrogateescape"))
    workspace(tmp_path / "shared-memory")
    assert "this project has no workspace" in missing(folder(place / "src"))


def test_an_empty_git_folder_is_no_repository(tmp_path):
    folder(tmp_path / "odd/.git")
    root = workspace(tmp_path / "shared-memory")
    assert found(tmp_path / "odd") == (str(root), "folder")


# -- odd places ------------------------------------------------------------------------------------


def test_a_link_leads_to_the_project_it_leads_to(repo, tmp_path, monkeypatch):
    root = workspace(repo / "shared-memory")
    (tmp_path / "link").symlink_to(folder(repo / "src"))
    workspace(tmp_path / "shared-memory")
    assert found(tmp_path / "link") == (str(root), "folder")
    monkeypatch.chdir(tmp_path / "link")
    assert locate().root == str(root)


def test_a_current_folder_that_was_deleted(repo, tmp_path, monkeypatch):
    workspace(repo / "shared-memory")
    gone = folder(repo / "gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(NotFound, match="the current folder was deleted"):
        locate()
    assert locate(str(repo)).root == str(repo)
    code = (
        f"import os; os.chdir({str(tmp_path)!r}); os.mkdir('g'); os.chdir('g'); os.rmdir('../g')\n"
    )
    code += "from synapse.cli import main; raise SystemExit(main(['read']) * 10 + main(['init']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("was deleted")) == (33, 2)


def test_without_a_home_folder(repo, tmp_path, monkeypatch):
    root = workspace(repo / "shared-memory")
    for home in ("/", "", None):
        monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
        assert found(folder(repo / "src")) == (str(root), "folder")
        assert "no workspace" in missing(folder(tmp_path / "plain"))
    code = (
        "import os, pwd; from synapse.system import discovery; os.setuid(54_321);"
        " os.environ.clear()\n"
    )
    code += "try: discovery.locate()\nexcept LookupError as error: print(error)"
    if os.geteuid() == 0:  # a user of whom the system knows nothing
        done = subprocess.run(
            [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False
        )
        assert done.stdout.startswith("there is no workspace: neither"), done.stderr
