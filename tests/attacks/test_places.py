"""A project leads to a workspace that lies elsewhere: a link `shared-memory`, or a file `.synapse`
that names another place. Every way to a workspace that is found by the folder refuses it, until a
person accepts that very place. What the person names is taken.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import synapse
from orchestrator.cli import PROGRAM as ORCHESTRATOR
from orchestrator.plugin import hook
from synapse import cli
from synapse.cli.verbs import PROGRAM
from synapse.errors import Conflict
from tests.git import commit, git

WAYS = ("link", "absolute link", "pointer", "home pointer", "link within", "pointer that is a link")
TOLD = re.compile("which is not in /|which is not followed")
VERBS = [
    (PROGRAM, words)
    for words in (
        ("read", "--agent", "eng"),
        ("write", "--from", "eng", "--namespace", "api/x", "stolen"),
        ("search", "secret"),
        ("verify",),
        ("agents",),
        ("where",),
        ("doctor",),
        ("register", "--id", "evil", "--role", "cto"),
        ("trust", "--show"),
        ("trust", "--text", "--show"),
        ("repair",),
        ("export",),
    )
] + [
    (ORCHESTRATOR, words)
    for words in (("ps",), ("stats",), ("install", "codex", "--dry-run"), ("sync",), ("doctor",))
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home folder of a person who keeps a memory there."""
    for name in ("SYNAPSE_AGENT", "SYNAPSE_RUN", "SYNAPSE_ROOT", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("SYNAPSE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    with synapse.init(str(folder / "memory")) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.as_agent("eng").append("the secret of another project", "api/x")
    return folder


@pytest.fixture(params=WAYS)
def clone(request, tmp_path, home, monkeypatch):
    """A clone of a stranger's repository that leads there, with the current folder in it."""
    theirs, way = tmp_path / "theirs", request.param
    theirs.mkdir()
    git(theirs, "init", "-q")
    if way == "link":
        (theirs / "shared-memory").symlink_to("../home/memory")
    elif way == "absolute link":
        (theirs / "shared-memory").symlink_to(home / "memory")
    elif way == "link within":
        (theirs / "docs").symlink_to("../home")
        (theirs / "shared-memory").symlink_to("docs/memory")
    elif way == "pointer that is a link":
        (theirs / ".synapse").symlink_to("../named")
        (tmp_path / "named").write_text("home/memory\n")
    else:
        place = "~/memory" if way == "home pointer" else "../home/memory"
        (theirs / ".synapse").write_text(f"{place}\n")
    commit(theirs)
    git(tmp_path, "clone", "-q", theirs, "clone")
    (tmp_path / "clone" / "src").mkdir()
    monkeypatch.chdir(tmp_path / "clone" / "src")
    return tmp_path / "clone"


@pytest.fixture
def run(capfd):
    """Run a command as a person does; return its exit code and what it said."""

    def call(program, *words):
        capfd.readouterr()
        code = cli.main([*words], program=program)
        return code, "".join(capfd.readouterr())

    return call


def names(folder):
    return {os.path.join(place, name) for place, _, files in os.walk(folder) for name in files}


def test_no_verb_goes_there(clone, home, run):
    before = names(home)
    for program, words in VERBS:
        code, text = run(program, *words)
        assert "secret of another" not in text
        assert code != 0, words
        assert TOLD.search(text)
    assert names(home) == before


def test_no_program_and_no_hook_does(clone, home):
    with pytest.raises((Conflict, synapse.NotFound), match=TOLD):
        synapse.find()
    payload = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-I", "-S", hook.__file__, "claude-code"],
        input=json.dumps(payload | {"source": "startup"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""


def test_what_a_person_names_is_taken(clone, home, run, monkeypatch):
    root = home / "memory"
    assert "the secret" in run(PROGRAM, "--root", str(root), "read", "--agent", "eng")[1]
    monkeypatch.setenv("SYNAPSE_ROOT", str(root))
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]


def test_what_a_person_accepts_is_followed_there_alone(clone, home, run, monkeypatch):
    if os.path.islink(clone / ".synapse"):
        pytest.skip("a pointer that is a link is not read at all")
    code, text = run(PROGRAM, "trust", "--place", "--show")
    assert (code, f"leads to {home}/memory" in text) == (0, True)
    assert run(PROGRAM, "read", "--agent", "eng")[0] != 0
    with monkeypatch.context() as patch:
        patch.setenv("SYNAPSE_AGENT", "eng")
        assert run(PROGRAM, "trust", "--place", "--yes")[0] == 4
    assert run(PROGRAM, "trust", "--place", "--yes")[0] == 0
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]
    shutil.copytree(clone, home / "copy", symlinks=True)
    os.rename(home / "memory", home / "moved")
    os.rename(home / "copy", home.parent / "copy")
    with synapse.init(str(home / "memory")):
        pass
    assert run(PROGRAM, "where")[0] == 0  # the name leads to the same place
    monkeypatch.chdir(home.parent / "copy")
    assert run(PROGRAM, "where")[0] != 0  # another project
    monkeypatch.chdir(clone)
    name = "shared-memory" if os.path.islink(clone / "shared-memory") else ".synapse"
    (clone / name).unlink()
    if name == ".synapse":
        (clone / name).write_text("../home/moved")
    else:
        (clone / name).symlink_to("../home/moved")
    assert run(PROGRAM, "where")[0] != 0  # another place


def test_nothing_leads_out_of_an_ordinary_project(home, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = run(PROGRAM, "trust", "--place", "--yes")
    assert (code, "leads out of it" in text) == (3, True)


def test_ways_within_a_project_and_at_home_are_followed(home, run, tmp_path, monkeypatch):
    repository = tmp_path / "own"
    repository.mkdir()
    git(repository, "init", "-q")
    os.rename(home / "memory", repository / "disk")
    (repository / "shared-memory").symlink_to("disk")
    monkeypatch.chdir(repository)
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]
    (repository / ".synapse").write_text("disk\n")
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]
    (home / "notes").mkdir()
    (home / "shared-memory").symlink_to(repository / "disk")
    monkeypatch.chdir(home / "notes")
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]
    (home / "shared-memory").unlink()
    (home / ".synapse").write_text(f"{repository}/disk\n")
    assert "the secret" in run(PROGRAM, "read", "--agent", "eng")[1]
