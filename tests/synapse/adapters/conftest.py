"""Environments of the frameworks: each has one of its own, made once, as their pins exclude each
other and ours.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".clients/frameworks"
BEFORE = "2026-11-28"  # of what each package asks for, what was there then is installed
PATIENCE = 600


@pytest.fixture(scope="session")
def environment(installing):
    """Return a function from requirements to the interpreter of an environment that has them, and
    the core of Synapse with what a remote memory needs.
    """

    def made(*requirements):
        wanted = sorted([*requirements, *asked_for()])
        name = hashlib.sha256("\n".join([BEFORE, sys.version, *wanted]).encode()).hexdigest()[:12]
        folder = FOLDER / name
        with installing(folder):
            if not (folder / "stamp").exists():
                call(sys.executable, "-m", "venv", "--without-pip", "--clear", folder / "venv")
                python = ["--python", folder / "venv/bin/python", "--exclude-newer", BEFORE]
                call(uv(installing), "pip", "install", "--quiet", *python, *wanted)
                (folder / "stamp").write_text("\n".join(wanted))
        return folder / "venv/bin/python"

    return made


def asked_for():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["client"]]


def uv(installing):
    if program := os.environ.get("UV") or shutil.which("uv"):
        return program
    with installing(FOLDER / "uv"):
        program = FOLDER / "uv/bin/uv"
        if not program.exists():
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
            call(*pip, "--quiet", "--target", FOLDER / "uv", "uv")
    return program


def call(*words):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{words}:\n{done.stderr[-2_000:]}"
