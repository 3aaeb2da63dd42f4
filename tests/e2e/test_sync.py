"""A client with nothing of ours: Claude Code alone sees what the team decided, in whichever file it
reads, and takes a quoted text for no more than text.
"""

from pathlib import Path

import pytest

import synapse
from orchestrator.plugin.sync import sync as syncing
from synapse import Agent
from tests.e2e.test_claude_plugin import Project
from tests.model_server import ModelServer

DECIDED = "Rates are kept in cents, and never as floats."
SECRET = "the-zebra-is-in-here"
OWN = "# Shop\n\nWe sell one book.\n"


@pytest.fixture
def project(claude, tmp_path):
    project = Project(claude, tmp_path.resolve())
    (project.folder / "secret.txt").write_text(SECRET)
    synapse.init(project.root).close()
    with synapse.open(project.root) as memory:
        memory.register(Agent("boss", "project-lead"))
        memory.as_agent("boss").append(f"{DECIDED}\n@secret.txt\n@./secret.txt\n", "decisions/api")
    return project


def asked(project):
    """Return what the model is asked in a session's first request."""
    server = ModelServer(lambda seen: "Done.").start()
    try:
        project.ask(server.url, "What is decided?")
        bodies = [str(taken.body) for taken in server.journal if taken.body]
    finally:
        server.stop()
    return next(body for body in bodies if "What is decided?" in body)


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
def test_a_client_with_nothing_of_ours_sees_what_is_decided(project, name):
    (project.folder / name).write_text(OWN)
    assert DECIDED not in asked(project)
    project.orchestrator("sync")
    body = asked(project)
    assert "We sell one book." in body
    assert body.count(DECIDED) == 1
    assert SECRET not in body
    kept = syncing.claude_memory(str(project.folder), str(project.home / ".claude"))
    assert Path(kept).parent.is_dir()  # where the client keeps what is of this project
    project.orchestrator("sync", "--undo")
    assert (project.folder / name).read_text() == OWN
    assert DECIDED not in asked(project)


def test_the_client_does_import_what_is_not_quoted(project):
    (project.folder / "CLAUDE.md").write_text("See @secret.txt\n")
    assert SECRET in asked(project)
