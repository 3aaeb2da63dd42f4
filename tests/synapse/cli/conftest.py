import gc
import os
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from synapse.cli import main
from tests.accepted import accept

HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No environment, no home and no workspace of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def run(capsys):
    """One command line in this process."""

    def run(*words, prog=None):
        capsys.readouterr()
        code = main([str(word) for word in words], prog=prog)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def shell(tmp_path):
    """One command line in a process of its own."""

    def shell(*words, stdin="", env=None, timeout=60):
        done = subprocess.run(
            [sys.executable, "-m", "synapse.cli", *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=os.environ | (env or {}),
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return shell


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A workspace as the command line makes it, of which each test gets a copy."""
    root = tmp_path_factory.mktemp("cli") / "shared-memory"
    assert main(["--root", str(root), "init"]) == 0
    globs = ("--read", "api/*,blockers/*,status/*", "--write", "api/*,blockers/*,status/*")
    agents = {
        "pl-brain": ("--role", "project-lead"),
        "eng-backend": ("--role", "engineer", "--department", "backend"),
        "eng-frontend": ("--role", "engineer", "--department", "frontend"),
        "junior": ("--role", "specialist", "--review-required"),
    }
    for id, more in agents.items():
        assert main(["--root", str(root), "register", "--id", id, *globs, *more]) == 0
    return root


@pytest.fixture
def team(prepared, tmp_path):
    """A workspace in ./shared-memory with a lead, two engineers and one whose writing is
    reviewed.
    """
    return accept(shutil.copytree(prepared, tmp_path / "shared-memory"))


@pytest.fixture
def wrote(team, run):
    """Write an entry of eng-backend's; its id."""

    def wrote(body="use /v2/users", *more, who="eng-backend", namespace="api/endpoints"):
        done = run("write", "--from", who, "--namespace", namespace, *more, body)
        assert done.code == 0, done.err
        return done.out.strip()

    return wrote


@pytest.fixture
def holds():
    """Have another process hold a lock, and stand still."""
    children = []

    def hold(path):
        command = [sys.executable, "-c", HOLD, path]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert children[-1].stdout.readline() == b"held\n"
        os.kill(children[-1].pid, signal.SIGSTOP)

    yield hold
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()
