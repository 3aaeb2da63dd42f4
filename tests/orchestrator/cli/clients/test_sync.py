"""`orchestrator sync` at the shell: what it says it did, in text and in JSON, and whom it refuses."""

import subprocess
import sys

from synapse.cli import main as synapse

CLAUDE = "## Tests\n\nRun `make check`.\n"


def begun(tmp_path, run):
    """A project with a workspace, a decision and a file of a client."""
    (tmp_path / "CLAUDE.md").write_text(CLAUDE)
    assert run("install", "agents-md").code == 0
    assert synapse(["write", "--from", "lead", "--namespace", "decisions/x", "Cents, always."]) == 0


def test_it_says_what_it_did_and_what_waits(tmp_path, run):
    begun(tmp_path, run)
    planned = run("sync", "--dry-run")
    assert "Would be done:" in planned.out
    assert "+    Cents, always." in planned.out
    assert (tmp_path / "CLAUDE.md").read_text() == CLAUDE
    done = run("sync")
    assert done.out.splitlines()[-4:] == [
        "changed  AGENTS.md",
        "changed  CLAUDE.md",
        "shown    1 decided and weighty, that every agent may see",
        "new      1 to review: `synapse approve` lists them",
    ]
    waiting = run("inbox").out
    assert "CLAUDE.md: ## Tests" in waiting
    assert "synapse approve syn-" in waiting
    assert "new " not in run("sync").out


def test_as_json_and_undone(tmp_path, run):
    begun(tmp_path, run)
    done = run("sync", "--json").json
    assert done["files"] == {
        str(tmp_path / "AGENTS.md"): "changed",
        str(tmp_path / "CLAUDE.md"): "changed",
    }
    assert (done["shown"], len(done["proposed"]), done["withdrawn"]) == (1, 1, [])
    assert run("sync", "--undo", "CLAUDE.md").out.endswith("changed  CLAUDE.md\n")
    assert (tmp_path / "CLAUDE.md").read_text() == CLAUDE
    assert list(run("sync", "--undo", "--json").json["files"]) == [str(tmp_path / "AGENTS.md")]
    assert run("sync", "--undo").out == "no file has the block\n"


def test_what_a_person_accepted_is_no_stranger_to_the_doctor(tmp_path, run):
    begun(tmp_path, run)
    run("sync")
    (item,) = run("inbox", "--json").json["waiting"]
    assert synapse(["approve", item["entry"]]) == 0
    for verb in ("doctor", "verify"):
        done = subprocess.run(
            [sys.executable, "-m", "synapse", verb], capture_output=True, text=True
        )
        assert done.returncode == 0
        assert "is not registered" not in done.stdout


def test_it_beside_an_installation_that_goes(tmp_path, run):
    begun(tmp_path, run)
    run("sync")
    assert run("doctor").code == 0  # which looks at installations alone
    assert run("uninstall", "agents-md").code == 0
    text = (tmp_path / "AGENTS.md").read_text()
    assert "synapse:begin" not in text
    assert "Cents, always." in text
    run("sync", "--undo")
    assert not (tmp_path / "AGENTS.md").exists()


def test_without_a_workspace_and_in_a_run_it_is_refused(tmp_path, run, monkeypatch):
    refused = run("sync")
    assert refused.code != 0
    assert "there is no workspace here" in refused.err
    begun(tmp_path, run)
    for words in (("../NOTES.md",), ("NOTES.md", "--undo")):
        refused = run("sync", *words)
        assert refused.code != 0
        assert "is no file of a client" in refused.err
    assert not (tmp_path.parent / "NOTES.md").exists()
    monkeypatch.setenv("SYNAPSE_AGENT", "lead")
    monkeypatch.setenv("SYNAPSE_RUN", "lead-1")
    assert run("sync").code != 0
    assert (tmp_path / "CLAUDE.md").read_text() == CLAUDE
