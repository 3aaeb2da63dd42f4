import json
import os
import subprocess

import pytest


@pytest.fixture
def repo(tmp_path, monkeypatch):
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    monkeypatch.chdir(tmp_path / "repo/src")
    return tmp_path / "repo"


def test_an_agent_in_a_sub_folder_writes_into_the_workspace_of_its_project(repo, run, tmp_path):
    assert run("init", tmp_path / "home/shared-memory").code == 0
    assert run("init", repo / "shared-memory").code == 0
    run("register", "--id", "eng-a", "--write", "api/*")
    id = run("write", "--from", "eng-a", "--namespace", "api/x", "here").out.strip()
    assert (repo / f"shared-memory/entries/api/x/{id}.md").is_file()
    assert "here" in run("read").out
    assert run("--root", tmp_path / "home/shared-memory", "read").out.startswith("-- 0 of 0")


def test_nothing_is_written_into_the_default_from_inside_a_project(repo, run, tmp_path):
    run("init", tmp_path / "home/shared-memory")
    run("--root", tmp_path / "home/shared-memory", "register", "--id", "eng-a", "--write", "api/*")
    done = run("write", "--from", "eng-a", "--namespace", "api/x", "lost")
    assert (done.code, done.out) == (3, "")
    assert f"There is one at {tmp_path / 'home'}/shared-memory" in done.err
    assert "synapse init" not in done.err


def test_where_tells_the_root_and_why(repo, run, monkeypatch):
    nothing = run("where")
    assert (nothing.code, nothing.out) == (3, "")
    assert "this project has no workspace" in nothing.err
    assert json.loads(run("where", "--json").err)["error"]["type"] == "NotFound"
    root = f"{repo}/shared-memory"
    run("init", root)
    assert run("where").out == f"{root}\n  the folder shared-memory in {repo}\n"
    assert json.loads(run("where", "--json").out) == {
        "root": root,
        "rule": "folder",
        "source": str(repo),
        "main": False,
        "reason": f"the folder shared-memory in {repo}",
        "unread": {},
    }
    assert run("where", "--root", "../shared-memory").out == f"{root}\n  named by --root\n"
    monkeypatch.setenv("SYNAPSE_ROOT", root)
    assert run("where").out == f"{root}\n  named by SYNAPSE_ROOT\n"
    monkeypatch.setenv("SYNAPSE_ROOT", "/nowhere")
    wrong = run("where")
    assert wrong.code == 3
    assert f"there is one at {root}" in wrong.err
    monkeypatch.delenv("SYNAPSE_ROOT")
    (repo / ".synapse").write_text("gone\n")
    broken = run("where")
    assert broken.code == 3
    assert f"{repo}/.synapse names {repo}/gone" in broken.err


def test_where_names_what_nobody_reads(repo, run):
    run("init", f"{repo}/shared-memory")
    run("register", "--id", "eng-a", "--read", "api/*", "--write", "api/*,web/*")
    write = ("write", "--from", "eng-a", "The limit is 5.", "--namespace")
    run(*write, "api/x")
    assert json.loads(run("where", "--json").out)["unread"] == {}, "nobody else is there"
    run("register", "--id", "eng-b", "--read", "web/*", "--write", "web/*")
    run(*write, "web/x")
    run(*write, "agents/eng-a/notes")
    assert run("where").out.splitlines()[2:] == [
        "  no agent but the author may read what stands in api/x (1)"
    ]
    assert json.loads(run("where", "--json").out)["unread"] == {"api/x": 1}
    run("register", "--id", "eng-b", "--read", "web/*,api/*", "--write", "web/*")
    assert len(run("where").out.splitlines()) == 2


def test_init_makes_no_second_workspace_in_a_project(repo, run, monkeypatch):
    assert run("init", repo / "shared-memory").code == 0
    refused = run("init")
    assert (refused.code, refused.out) == (5, "")
    assert f"{repo}/shared-memory" in refused.err
    assert "synapse init ./shared-memory" in refused.err
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-a")
    assert "synapse init" not in run("init").err
    monkeypatch.delenv("SYNAPSE_AGENT")
    assert not os.path.exists("shared-memory")
    monkeypatch.chdir(repo)
    assert run("init").code == 0, "the one that is there is made again"
    monkeypatch.chdir(repo / "src")
    assert run("init", "./shared-memory").code == 0
    assert run("where").out.startswith(f"{repo}/src/shared-memory\n")


def test_the_other_commands_follow_the_same_rule(repo, run, capsys, tmp_path, monkeypatch):
    from orchestrator import cli as orchestrator
    from synapse.cli import brain

    run("init", repo / "shared-memory")
    run("init", tmp_path / "home/.openclaw/workspace/memory/brain.db.log")
    run("register", "--id", "eng-a")
    for main, words in ((orchestrator.main, ["ps", "--json"]), (brain.main, ["agents", "--json"])):
        capsys.readouterr()
        assert main(words) == 0
        told = capsys.readouterr().out
        assert "eng-a" in told or json.loads(told)["runs"] == []
    assert orchestrator.main(["init"]) == 5
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert brain.main(["agents", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agents"] == []
    monkeypatch.chdir(repo)
    os.rename("shared-memory", tmp_path / "moved")
    assert (brain.main(["agents"]), orchestrator.main(["ps"])) == (3, 3)
    assert "brain.db.log" in capsys.readouterr().err
