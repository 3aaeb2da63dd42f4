"""`orchestrator install | uninstall | doctor`, as a new user types them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from orchestrator.plugin.facts import clients
from synapse.mcp import SDK


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A repository, and the current folder in it."""
    folder = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def files(folder):
    return {path: os.lstat(path).st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_one_command_from_nothing(run, shop):
    done = run("install", "claude-code")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "Claude Code gets the shared memory from its next session on."
    assert len(lines) <= 20
    assert all(len(line) <= 80 for line in lines)
    for words in (
        "shared-memory (new)",
        "lead (project-lead), engineer (engineer), of the project shop",
    ):
        assert words in done.out
    for command in (
        "orchestrator ps",
        "synapse log",
        "orchestrator doctor",
        "orchestrator uninstall claude-code",
    ):
        assert command in done.out
    status = subprocess.run(
        ["git", "status", "--short"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""


def test_a_second_time_nothing_changes(run, shop):
    run("install", "claude-code")
    before = files(shop)
    assert run("install", "claude-code").out.startswith(
        "Claude Code is set up already: nothing changes."
    )
    assert files(shop) == before


def test_what_is_merged_is_shown(run, shop):
    path = shop / ".claude" / "settings.local.json"
    path.parent.mkdir()
    path.write_text('{\n  "model": "opus" // mine\n}\n')
    done = run("install", "claude-code")
    assert '+  "model": "opus", // mine' in done.out.replace('-  "model": "opus" // mine\n', "")
    assert "changed  .claude/settings.local.json" in done.out
    assert run("uninstall", "claude-code").code == 0
    assert path.read_text() == '{\n  "model": "opus" // mine\n}\n'


def test_a_dry_run_shows_all_and_writes_nothing(run, shop, tmp_path):
    before = files(tmp_path)
    done = run("install", "claude-code", "--dry-run")
    assert done.out.count("--- /dev/null") > 3
    assert "Would be done" in done.out
    assert files(tmp_path) == before
    assert all(len(line) <= 80 or line.startswith(("---", "+++")) for line in done.out.splitlines())


def test_uninstalling_says_that_the_workspace_stays(run, shop):
    run("install", "agents-md")
    done = run("uninstall", "agents-md")
    assert done.out.endswith("The workspace shared-memory stays, with all that is in it.\n")
    assert not (shop / "AGENTS.md").exists()
    assert "nothing to undo" in run("uninstall", "agents-md").out


def test_another_project_can_be_named(run, shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("install", "agents-md", "--project", "shop", "--json")
    assert done.json["project"] == str(shop)
    assert done.json["files"][str(shop / "AGENTS.md")] == "new"
    assert run("install", "agents-md", "--project", "no-such-folder").code == 3


def test_for_all_projects_of_a_user(run, shop, tmp_path):
    done = run("install", "claude-code", "--user", "--json")
    home = Path(os.environ["HOME"])
    assert (done.json["root"], done.json["new_workspace"]) == (None, False)
    assert (home / ".claude" / "settings.json").exists()
    assert not (shop / "shared-memory").exists()
    assert run("uninstall", "claude-code", "--user").code == 0
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_a_broken_file_is_named_and_nothing_is_made(run, shop):
    path = shop / ".claude" / "settings.local.json"
    path.parent.mkdir()
    path.write_text("{\n")
    before = files(shop)
    done = run("install", "claude-code")
    assert done.code == 5
    assert f"{path}:1: the object does not end" in done.err
    assert files(shop) == before


def test_both_places_at_once_are_refused(run, shop):
    assert run("install", "claude-code", "--user", "--project", ".").code == 64
    assert run("install", "agents-md", "--user").code == 64
    assert run("install", "emacs").code == 64


def test_a_spawned_run_installs_nothing(run, shop, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "lead-1")
    assert run("install", "claude-code").code == 4


def test_doctor_without_a_client(run, shop):
    done = run("doctor")
    assert (done.code, done.out) == (
        0,
        "No client is installed here: orchestrator install claude-code\n"
        "What is installed for all of your projects: orchestrator doctor --user\n",
    )


def test_a_client_that_is_not_known_or_not_named_is_met_with_those_that_are(run, shop):
    done = run("install", "claude")
    assert (done.code, "did you mean 'claude-code'?" in done.err) == (64, True)
    done = run("install")
    assert (done.code, "one of claude-code, codex, gemini, openclaw, agents-md" in done.err) == (
        64,
        True,
    )
    assert "invalid choice: 'foo'" in run("install", "foo").err


def test_what_is_not_set_up_is_named_by_its_folder(run, shop):
    run("install", "agents-md")
    assert f"Codex is not set up in {shop.resolve()}:" in run("uninstall", "codex").out


def test_without_the_package_of_the_tools_the_user_is_told_how_to_get_it(run, shop, monkeypatch):
    assert "the memory's tools" not in run("install", "codex", "--dry-run").out
    monkeypatch.setitem(sys.modules, "mcp_types", None)  # as if it were not installed
    out = " ".join(run("install", "claude-code").out.split())
    assert f"-m pip install '{SDK}'" in out


def test_the_package_of_the_tools_is_the_one_that_the_project_asks_for():
    with open(Path(__file__).parents[4] / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["optional-dependencies"]["mcp"] == [SDK]


def test_doctor_looks_at_what_is_installed(run, shop):
    run("install", "agents-md")
    done = run("doctor")
    assert (done.code, done.out) == (
        0,
        "agents-md\n  ok   configuration: 1 file is as it was installed\n",
    )
    (shop / "AGENTS.md").write_text("mine\n")
    done = run("doctor", "--json")
    assert done.code == 1
    assert done.json["clients"]["agents-md"][0]["mend"] == "orchestrator install agents-md"


CONFIGURATIONS = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}


def tree(folder):
    """Every file but those of the workspace, and the person's note of the lines written there: it
    stays, or the person's own text would be foreign to the next who opens the workspace.
    """
    journals = folder / "home/.config/synapse/journals"
    kept = (
        path
        for path in folder.rglob("*")
        if not path.is_relative_to(folder / "shop" / "shared-memory")
        and path != folder / "shop/.git/info/exclude"  # which goes on naming that
        and not path.is_relative_to(journals)
    )
    return {path: path.read_bytes() if path.is_file() else None for path in kept}


@pytest.mark.parametrize("client", [name for name in CONFIGURATIONS if name in clients()])
@pytest.mark.parametrize("user", [False, True])
def test_every_client_can_be_had_and_left(run, shop, tmp_path, client, user):
    words = [client, *(["--user"] if user else [])]
    for place in (shop, Path(os.environ["HOME"])):
        path = place / CONFIGURATIONS[client]
        path.parent.mkdir(parents=True)
        path.write_text('{\n\t"mine": [1, 2.50], "hooks": {}\n}')
    (tmp_path / "home/.config/synapse").mkdir(parents=True, exist_ok=True)
    before = tree(tmp_path)
    done = run("install", *words)
    lines = done.out[done.out.index("gets the shared memory") :].splitlines()
    assert (done.code, len(lines) <= 20) == (0, True), lines
    assert tree(tmp_path) != before
    assert "nothing changes" in run("install", *words).out
    assert run("uninstall", *words).code == 0
    assert tree(tmp_path) == before
