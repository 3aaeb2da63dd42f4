"""A client with nothing of ours: it sees what the team decided, in whichever file it reads, and
takes a quoted text for no more than text.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import synapse
from orchestrator.plugin.sync import sync as syncing
from synapse import Agent
from tests.e2e.conftest import wired
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


# -- other clients ---------------------------------------------------------------------------------

QUESTION = "What is decided?"
COMMANDS = {
    "gemini": ("--yolo", "--prompt"),
    "qwen": ("--auth-type", "openai", "--yolo", "--prompt"),
    "copilot": ("--allow-all-tools", "--prompt"),
}


def surroundings(name, url, home):
    """Return the variables by which a client finds the model server and nothing else."""
    if name == "gemini":
        values = wired(name, url, home)
        for path, text in values.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        return {**values.env, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_MODEL": values.model}
    if name == "qwen":
        model = {"OPENAI_API_KEY": "any", "OPENAI_MODEL": "scripted"}
        return {**model, "OPENAI_BASE_URL": f"{url}/v1"}
    provider = {"BASE_URL": f"{url}/v1", "API_KEY": "any"}
    own = {f"COPILOT_PROVIDER_{key}": value for key, value in provider.items()}
    return {**own, "COPILOT_MODEL": "scripted", "COPILOT_OFFLINE": "true"}


@pytest.fixture
def first_request(installed, readers, project, tmp_path):
    """Return what a client sends first in the project, from a home with nothing in it."""
    home = tmp_path / "own home"
    home.mkdir()

    def ask(name):
        path = os.pathsep.join((str(readers), str(installed), os.environ["PATH"]))
        env = {"HOME": str(home), "CI": "1", "PATH": path, "TERM": "xterm-256color"}
        with ModelServer(lambda seen: "Done.") as server:
            done = subprocess.run(
                [name, *COMMANDS[name], QUESTION],
                cwd=project.folder,
                env=env | surroundings(name, server.url, home),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                start_new_session=True,
            )
            bodies = [str(taken.body) for taken in server.journal if taken.body]
        assert done.returncode == 0, done.stdout + done.stderr
        return next(body for body in bodies if QUESTION in body)

    yield ask
    shutil.rmtree(home)  # one of them unpacks itself there


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("gemini", ["GEMINI.md"]),
        ("gemini", ["AGENTS.md", "GEMINI.md"]),
        ("qwen", ["AGENTS.md"]),
        ("qwen", ["QWEN.md"]),
        ("copilot", ["AGENTS.md"]),
        ("copilot", [".github/copilot-instructions.md"]),
    ],
)
def test_every_other_client_sees_it_once_in_its_first_request(project, first_request, name, files):
    for file in files:
        path = project.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(OWN)
    before = first_request(name)
    project.orchestrator("sync")
    body = first_request(name)
    project.orchestrator("sync", "--undo")
    assert [text.count(DECIDED) for text in (before, body, first_request(name))] == [0, 1, 0]
    assert "We sell one book." in body
    assert SECRET not in body


@pytest.mark.soak
def test_gemini_reads_no_file_of_all_clients(project, first_request):
    """So its own gets the block too, where it is there or named."""
    project.orchestrator("sync")
    assert DECIDED not in first_request("gemini")
    project.orchestrator("sync", "GEMINI.md")
    assert first_request("gemini").count(DECIDED) == 1
