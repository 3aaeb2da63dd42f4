"""Installations whose project was moved, or that an older version left without a signature: what
they put into files of others goes, and nothing else.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import synapse
from orchestrator.plugin.facts import clients
from synapse.system import home as own_folder

THEIRS = {
    "claude-code": (".claude/settings.local.json", '{"model": "opus"}\n'),
    "codex": (".codex/config.toml", 'model = "gpt-5"\n'),
    "gemini": ("~/.gemini/extensions/extension-enablement.json", '{"mine": {}}\n'),
    "openclaw": ("~/.openclaw/openclaw.json", '{"plugins": {"entries": {"mine": {}}}}\n'),
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A repository in which a person works, who has a home of their own."""
    folder = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


@pytest.fixture(params=["alone", "beside theirs"])
def client(request, shop, tmp_path):
    """A client by its name, with and without a configuration of the user's own."""

    def prepare(name):
        path, text = THEIRS[name]
        file = Path(str(tmp_path / path.replace("~", "home")))
        file = file if path.startswith("~") else shop / path
        if request.param == "beside theirs":
            file.parent.mkdir(parents=True)
            file.write_text(text)
        return name

    return prepare


def tree(*folders):
    """Return every file and folder of the project and of its user, but for the memory's own."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if "shared-memory" in name or name.startswith((".git/", ".config")):
                continue
            found[f"{folder.name == 'home'} {name}"] = path.read_bytes() if path.is_file() else None
    return found


@pytest.mark.parametrize("name", clients())
@pytest.mark.parametrize("again", [False, True])
def test_a_moved_project_can_be_cleaned_up(client, run, shop, tmp_path, name, again):
    client(name)
    home, store = tmp_path / "home", tmp_path / "store"
    before = tree(shop, home)
    assert run("install", name).code == 0
    shop.rename(store)
    os.chdir(store)
    said = "".join(run("doctor", name).out.split())
    assert f"theprojectwasmovedherefrom{shop}" in said
    if again:
        assert run("install", name).code == 0
        assert "the project was moved" not in run("doctor", name).out
        assert str(shop) not in str(tree(store, home))
    assert run("uninstall", name).code == 0
    assert tree(store, home) == before
    assert not os.path.exists(os.path.join(own_folder.operator_home(), "plugins"))


@pytest.mark.parametrize("name", clients())
@pytest.mark.parametrize("again", [False, True])
def test_what_an_older_version_left_goes(client, run, shop, tmp_path, name, again):
    client(name)
    home = tmp_path / "home"
    before = tree(shop, home)
    assert run("install", name).code == 0
    # its record was not signed
    shutil.rmtree(os.path.join(own_folder.operator_home(), "plugins"))
    if again:
        assert run("install", name).code == 0
    assert run("uninstall", name).code == 0
    left = tree(shop, home)
    assert {path: data for path, data in left.items() if data is not None} == {
        path: data for path, data in before.items() if data is not None
    }
    folders = {os.path.basename(path.split()[1]) for path in left if path not in before}
    places = {".local", "share", "synapse", "plugins"}  # that others use too
    assert folders <= {".claude", ".codex", ".gemini", "extensions", ".openclaw", *places}


@pytest.mark.parametrize("name", clients())
def test_a_copy_is_no_move(client, run, shop, tmp_path, name):
    client(name)
    assert run("install", name).code == 0
    home, copy = tmp_path / "home", tmp_path / "copy"
    installed = tree(shop, home)
    shutil.copytree(shop, copy)
    os.chdir(copy)
    assert "the project was moved" not in run("doctor", name).out
    run("install", name)
    run("uninstall", name)
    assert tree(shop, home) == installed, "the first one still works"


def hear(program, folder):
    """Return what a session of OpenClaw in a folder begins with."""
    event = {"event": "start", "session": f"agent:{folder.name}:main", "cwd": str(folder)}
    done = subprocess.run([str(program)], input=json.dumps(event), capture_output=True, text=True)
    return done.stdout


def test_a_second_project_of_openclaw_is_told_the_way(run, shop, tmp_path):
    """One gateway is for all projects: with --user each has its own memory."""
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    assert run("install", "openclaw").code == 0
    os.chdir(other)
    done = run("install", "openclaw")
    assert done.code == 5
    assert f"has the memory of {shop}" in done.err
    assert not (other / "shared-memory").exists()
    assert run("uninstall", "openclaw", "--project", shop).code == 0
    assert run("install", "openclaw", "--user").code == 0
    assert "--user is for this project too" in run("install", "openclaw").err
    for folder in (shop, other):
        with synapse.init(str(folder / "shared-memory")) as memory:
            memory.register(synapse.Agent("boss", role="cto"))
            memory.register(synapse.Agent("lead", role="project-lead"))
            memory.as_agent("boss").append(
                f"This is {folder.name}.", "decisions/x", priority="critical"
            )
    program = tmp_path / "home/.local/share/synapse/plugins/openclaw/bin/hook"
    for folder in (shop, other):
        assert f"This is {folder.name}." in hear(program, folder)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_last_of_two_projects_leaves_nothing_of_a_file_of_ours(run, shop, tmp_path, order):
    home, other = tmp_path / "home", tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    before = tree(home)
    for folder in (shop, other):
        os.chdir(folder)
        assert run("install", "gemini").code == 0
    for number in order:
        os.chdir((shop, other)[number])
        assert run("uninstall", "gemini").code == 0
    left = tree(home)
    assert {path: left[path] for path in left if left[path] is not None} == before
