"""Installations on a real disk: whole or not at all, and undone exactly."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.plugin.install import apply, installer, record
from orchestrator.plugin.install import place as places
from orchestrator.plugin.install.change import Block, Change, Command, File, Json, Mode, Target
from synapse.errors import Conflict, StoreError
from tests.git import git

NOBODY = 65534


@pytest.fixture
def target(tmp_path: Path) -> Target:
    root, project = tmp_path / "shop" / "shared-memory", tmp_path / "shop"
    root.mkdir(parents=True)
    folder = root / "runs" / ".plugins" / "codex"
    env = {"PATH": os.environ["PATH"]}
    return Target(
        "codex",
        str(root),
        str(project),
        False,
        sys.executable,
        "",
        str(tmp_path),
        str(folder),
        env=env,
    )


def settings(target: Target, name: str = "settings.json") -> str:
    return os.path.join(target.project, name)


def plan(target: Target) -> list[Change]:
    mark = target.folder
    return [
        File(target.hook, "#!/bin/sh\n", 0o755),
        Json(settings(target), {"hooks": {"Stop": [{"command": target.hook}]}}, mark),
        Block(
            settings(target, "config.toml"), f'[mcp_servers.synapse]\ncommand = "{target.mcp}"\n'
        ),
        Json(settings(target, "deep/er/new.json"), {"a": target.hook}, mark),
    ]


def tree(folder: str | Path) -> dict[str, Any]:
    """Every file below a folder with its bytes, its mode and where it leads."""
    seen: dict[str, Any] = {}
    for place, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = os.path.join(place, name)
            what = os.readlink(path) if os.path.islink(path) else None
            data = Path(path).read_bytes() if os.path.isfile(path) else None
            seen[os.path.relpath(path, folder)] = (what, data, stat.S_IMODE(os.lstat(path).st_mode))
    return seen


def install(target: Target, changes: list[Change]) -> apply.Prepared:
    prepared = apply.prepare(target, changes)
    apply.carry_out(prepared)
    return prepared


def uninstall(target: Target) -> apply.Prepared:
    prepared = apply.prepare_removal(target)
    apply.carry_out(prepared)
    return prepared


def test_all_is_as_it_was(target: Target) -> None:
    Path(settings(target)).write_bytes(b'{"model": "x", // mine\n}')
    os.chmod(settings(target), 0o600)
    Path(settings(target, "config.toml")).write_bytes(b"a = 1")
    before = tree(target.project)
    install(target, plan(target))
    assert stat.S_IMODE(os.stat(settings(target)).st_mode) == 0o600
    assert os.access(target.hook, os.X_OK)
    uninstall(target)
    assert {
        path: what for path, what in tree(target.project).items() if "runs" not in path
    } == before


def test_the_second_installation_writes_nothing(target: Target) -> None:
    install(target, plan(target))
    before = tree(target.project)
    again = apply.prepare(target, plan(target))
    assert not again.changes
    apply.carry_out(again)
    assert tree(target.project) == before


def test_what_was_edited_since_stays(target: Target) -> None:
    install(target, plan(target))
    path = Path(settings(target))
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "mine": 1}))
    uninstall(target)
    assert json.loads(path.read_text()) == {"mine": 1}
    assert not os.path.exists(settings(target, "deep"))


def test_a_link_of_the_user_s_stays_a_link(target: Target) -> None:
    target = target._replace(user=True, root=None)
    real = os.path.join(target.home, "dotfiles.json")
    Path(real).write_text("{}\n")
    os.symlink(real, settings(target))
    install(target, plan(target))
    assert os.path.islink(settings(target))
    assert target.hook in Path(real).read_text()
    uninstall(target)
    assert Path(real).read_text() == "{}\n"
    assert os.path.islink(settings(target))


def test_a_file_of_several_names_stays_one(target: Target) -> None:
    path, other = settings(target), settings(target, "other.json")
    Path(path).write_text('{"a": 1}\n')
    os.link(path, other)
    apply.carry_out(apply.prepare(target, plan(target)))
    assert os.path.samefile(path, other)
    assert target.hook in Path(other).read_text()
    apply.carry_out(apply.prepare_removal(target))
    assert os.path.samefile(path, other)
    assert Path(other).read_text() == '{"a": 1}\n'


def test_a_byte_order_mark_stays_before_toml(target: Target) -> None:
    path = Path(settings(target, "config.toml"))
    before = "\ufeffmodel = 'gpt-5'\r\n".encode()
    path.write_bytes(before)
    apply.carry_out(apply.prepare(target, plan(target)))
    assert path.read_bytes().startswith(before)
    apply.carry_out(apply.prepare_removal(target))
    assert path.read_bytes() == before


def test_nothing_is_written_where_one_file_cannot_be_merged(target: Target) -> None:
    Path(settings(target, "config.toml")).write_text("[mcp_servers.synapse]\n")
    before = tree(target.project)
    with pytest.raises(Conflict, match=r"config\.toml:1"):
        apply.prepare(target, plan(target))
    assert tree(target.project) == before


def test_a_failing_command_puts_the_files_back(target: Target) -> None:
    Path(settings(target)).write_text("{}\n")
    before = tree(target.project)
    done = os.path.join(target.home, "done")
    undone = os.path.join(target.home, "undone")
    changes = [
        *plan(target),
        Command(("touch", done), ("touch", undone)),
        Command(("ls", "/no/such/folder")),
    ]
    with pytest.raises(StoreError, match="/no/such/folder"):
        install(target, changes)
    assert tree(target.project) == before
    assert os.path.exists(done)
    assert os.path.exists(undone)


def test_a_failing_write_puts_the_files_back(target: Target) -> None:
    Path(settings(target)).write_text("{}\n")
    prepared = apply.prepare(target, plan(target))
    os.mkdir(os.path.join(target.project, "deep"))
    Path(settings(target, "deep/er")).write_text("a file in the way")
    before = tree(target.project)
    with pytest.raises(StoreError):
        apply.carry_out(prepared)
    assert tree(target.project) == before


def test_a_file_that_changed_since_it_was_read_is_not_written(target: Target) -> None:
    prepared = apply.prepare(target, plan(target))
    Path(settings(target)).write_text("{}\n")
    with pytest.raises(Conflict, match="changed by somebody"):
        apply.carry_out(prepared)
    assert Path(settings(target)).read_text() == "{}\n"
    assert not os.path.exists(target.hook)


def test_commands_run_once_and_are_undone(target: Target) -> None:
    log = os.path.join(target.home, "log")

    def shell(word: str) -> tuple[str, ...]:
        return ("sh", "-c", f"echo {word} >> {log}")

    changes = [
        *plan(target),
        Command(shell("do"), shell("undo")),
        Command(undo=shell("late"), late=True),
    ]
    install(target, changes)
    install(target, changes)
    uninstall(target)
    assert Path(log).read_text().split() == ["do", "undo", "late"]


def test_what_a_clients_command_wrote_into_a_file_of_ours_stays(target: Target) -> None:
    path = settings(target)
    Path(path).write_text('{"a": 1}\n')
    install(target, [*plan(target), Command(("sed", "-i", 's/"a": 1/"a": 2/', path))])
    uninstall(target)
    assert Path(path).read_text() == '{"a": 2}\n'


def test_a_client_that_is_not_there_is_named(target: Target) -> None:
    prepared = install(target, [*plan(target), Command(("no-such-client", "add"))])
    assert prepared.notes == [
        "no-such-client is not installed, so this was left out: no-such-client add"
    ]


def test_what_an_earlier_version_had_goes(target: Target) -> None:
    old = os.path.join(target.folder, "hooks", "old.json")
    Path(settings(target)).write_text('{"a": 1}\n')
    older = [
        File(old, "{}"),
        Json(settings(target), {"hooks": {"End": [{"command": target.hook}]}}, target.folder),
    ]
    install(target, older)
    install(target, plan(target))
    assert not os.path.exists(os.path.dirname(old))
    assert list(json.loads(Path(settings(target)).read_text())["hooks"]) == ["Stop"]
    uninstall(target)
    assert Path(settings(target)).read_text() == '{"a": 1}\n'


def test_a_file_of_somebody_elses_is_not_replaced(target: Target) -> None:
    path = settings(target, "agent.md")
    Path(path).write_text("mine")
    with pytest.raises(Conflict, match="is not ours"):
        apply.prepare(target, [File(path, "ours")])


def test_a_file_of_ours_that_was_edited_stays(target: Target) -> None:
    path = settings(target, "agent.md")
    install(target, [File(path, "ours")])
    Path(path).write_text("ours, and mine")
    with pytest.raises(Conflict, match="was edited"):
        apply.prepare(target, [File(path, "newer")])
    assert uninstall(target).notes == [f"{path} was edited since, so it stays"]
    assert Path(path).read_text() == "ours, and mine"


def test_permission_bits_come_back(target: Target) -> None:
    Path(settings(target)).write_text("{}")
    os.chmod(settings(target), 0o644)
    install(target, [Mode(settings(target), 0o600)])
    assert stat.S_IMODE(os.stat(settings(target)).st_mode) == 0o600
    uninstall(target)
    assert stat.S_IMODE(os.stat(settings(target)).st_mode) == 0o644


def test_two_projects_share_the_plugins_files(target: Target) -> None:
    other = target._replace(project=os.path.join(target.home, "linked"))
    os.mkdir(other.project)
    install(target, plan(target))
    install(other, plan(other))
    uninstall(target)
    assert os.path.exists(target.hook)
    assert not os.path.exists(settings(target))
    # once more, and it is not installed
    apply.carry_out(apply.prepare_removal(target, plan(target)))
    assert os.path.exists(target.hook)
    uninstall(other)
    assert not os.path.exists(target.folder)
    assert not os.path.exists(record.path_of(target))


def test_without_its_record_an_installation_is_known_by_its_marks(target: Target) -> None:
    Path(settings(target)).write_text('{"a": 1}\n')
    install(target, plan(target))
    os.unlink(record.path_of(target))
    apply.carry_out(apply.prepare_removal(target, plan(target)))
    assert Path(settings(target)).read_text() == '{"a": 1}\n'
    assert not os.path.exists(target.hook)


def test_a_damaged_record_is_named(target: Target) -> None:
    install(target, plan(target))
    Path(record.path_of(target)).write_text('{"format": 1')
    with pytest.raises(StoreError, match="move it away"):
        apply.prepare(target, plan(target))


# -- from nothing ----------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "My Shop"
    git(tmp_path, "init", "-q", str(folder))
    (folder / "src").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SYNAPSE_ROOT", raising=False)
    monkeypatch.chdir(folder)
    return folder


def place(
    folder: Path | None = None, client: str = places.AGENTS_MD, user: bool = False
) -> places.Place:
    return places.place(
        client, None if folder is None else str(folder), None, user, dict(os.environ)
    )


def test_a_workspace_is_made_at_the_top_of_the_repository(repository: Path) -> None:
    done = installer.install(place(repository / "src"))
    root = repository / "shared-memory"
    assert done.place.target.root == str(root)
    assert (root / "synapse.yaml").exists()
    assert "role: project-lead" in (root / "agents" / "lead.yaml").read_text()
    assert "my-shop" in (root / "agents" / "engineer.yaml").read_text()
    assert git(repository, "status", "--short") == "?? AGENTS.md\n"


@pytest.mark.parametrize("client", ["agents-md", "claude-code", "codex"])
def test_after_the_last_client_git_leaves_out_the_workspace_alone(
    repository: Path, client: str
) -> None:
    exclude = repository / ".git" / "info" / "exclude"
    before = exclude.read_bytes()
    for _ in range(2):
        installer.install(place(client=client))
        assert b"/shared-memory" in exclude.read_bytes()
        installer.uninstall(place(client=client))
        assert git(repository, "status", "--short") == ""
        ours = exclude.read_bytes().removeprefix(before).decode().splitlines()
        assert [line for line in ours if line.startswith("/")] == ["/shared-memory"]
    assert (repository / "shared-memory" / "synapse.yaml").exists()


def test_a_file_that_git_tracks_is_named(repository: Path) -> None:
    settings = repository / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('model = "gpt-5"\n')
    untracked = installer.install(place(client="codex"), dry_run=True).notes
    assert not [note for note in untracked if "git tracks" in note]
    git(repository, "add", ".codex/config.toml")
    (note,) = [note for note in installer.install(place(client="codex")).notes if "tracks" in note]
    assert note.startswith("git tracks .codex/config.toml, which now names places")
    assert "orchestrator install codex --user" in note


def test_it_can_be_undone_though_the_workspace_is_gone(repository: Path) -> None:
    exclude = repository / ".git" / "info" / "exclude"
    before = exclude.read_bytes()
    (repository / "AGENTS.md").write_text("# Mine\n")
    installer.install(place())
    shutil.rmtree(repository / "shared-memory")
    installer.uninstall(place())
    assert exclude.read_bytes() == before
    assert (repository / "AGENTS.md").read_text() == "# Mine\n"
    assert not (repository / "shared-memory").exists()


def test_work_trees_share_one_workspace(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked))
    installer.install(place(linked))
    assert (repository / "shared-memory" / "synapse.yaml").exists()
    assert (linked / "AGENTS.md").exists()
    assert git(repository, "status", "--short") == ""
    second = installer.install(place(repository))
    assert not second.place.new
    installer.uninstall(place(linked))
    assert (repository / "AGENTS.md").exists()
    assert git(repository, "status", "--short") == "?? AGENTS.md\n"


def test_a_workspace_that_is_there_is_taken(repository: Path) -> None:
    import synapse

    synapse.init(repository / "src" / "shared-memory").close()
    done = installer.install(place(repository / "src"))
    assert done.place.target.root == str(repository / "src" / "shared-memory")
    assert not (repository / "shared-memory").exists()


def test_outside_of_git(tmp_path: Path, repository: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    done = installer.install(place(folder))
    assert done.place.target.root == str(folder / "shared-memory")
    installer.uninstall(place(folder))
    assert sorted(os.listdir(folder)) == ["shared-memory"]


def test_a_dry_run_writes_nothing(repository: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert installer.install(place(), dry_run=True).changes
    assert tree(tmp_path) == before
    installer.install(place())
    before = tree(tmp_path)
    assert installer.uninstall(place(), dry_run=True).changes
    assert tree(tmp_path) == before


def test_a_failed_installation_leaves_no_workspace(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "AGENTS.md").write_text("<!-- synapse:begin -->\n")
    before = tree(repository)
    with pytest.raises(Conflict, match=r"AGENTS\.md:1"):
        installer.install(place())
    assert tree(repository) == before


# -- rights ----------------------------------------------------------------------------------------


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that a user without rights can reach."""
    folder = Path(tempfile.mkdtemp(prefix="synapse-install-"))
    os.chmod(folder, 0o755)
    monkeypatch.setenv("HOME", str(folder / "home"))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Be a user who may write nowhere, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def test_a_folder_without_rights_is_named(open_folder: Path) -> None:
    place(open_folder)  # imports what this user could not read
    os.chmod(open_folder, 0o555)
    before = tree(open_folder)
    with somebody_else(), pytest.raises(StoreError, match="no right to write"):
        installer.install(place(open_folder))
    assert tree(open_folder) == before
    os.chmod(open_folder, 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a workspace for somebody else")
def test_a_workspace_of_another_user_is_named(open_folder: Path) -> None:
    import synapse

    synapse.init(open_folder / "shared-memory").close()
    with somebody_else(), pytest.raises(StoreError, match="belongs to root"):
        place(open_folder)


def test_a_configuration_that_may_not_be_written_is_named(open_folder: Path) -> None:
    installer.install(place(open_folder))
    os.chmod(open_folder / "AGENTS.md", 0o444)
    (open_folder / "shared-memory").chmod(0o777)
    installer.uninstall(place(open_folder), dry_run=True)
    before = tree(open_folder)
    with (
        somebody_else(),
        pytest.raises(StoreError, match=r"AGENTS\.md cannot be written|belongs to|cannot be read"),
    ):
        installer.uninstall(place(open_folder))
    assert tree(open_folder) == before
