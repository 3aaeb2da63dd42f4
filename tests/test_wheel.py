"""The wheel works alone: built offline, installed into an empty environment, run outside the
checkout.
"""

import json
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("synapse", "orchestrator", "prompts", "scenarios")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def run(*args, cwd, stdin=""):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [str(arg) for arg in args],
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(
        *PIP,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        out,
        ROOT,
        cwd=out,
    )
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bin(wheel, tmp_path_factory):
    """The programs of an environment that holds the wheel; its dependencies are borrowed from this
    one.
    """
    home = tmp_path_factory.mktemp("env")
    venv.create(home, symlinks=True)
    python = home / "bin/python"
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    site = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home
    ).strip()
    borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (Path(site) / "borrowed.pth").write_text(
        "\n".join(borrowed) + "\n", encoding="utf-8"
    )
    return home / "bin"


def test_wheel_carries_the_packages_whole(wheel):
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }
    assert names == ours


def test_wheel_imports_from_itself(bin, tmp_path):
    for package in PACKAGES:
        where = run(
            bin / "python",
            "-c",
            f"import {package}; print({package}.__file__)",
            cwd=tmp_path,
        )
        assert Path(where).is_relative_to(bin.parent), where


def test_wheel_has_its_data(bin, tmp_path):
    where = run(
        bin / "python", "-c", "import synapse; print(synapse.__file__)", cwd=tmp_path
    )
    names = {path.name for path in Path(where).parent.rglob("*")}
    assert {"PROTOCOL.md", "py.typed"} <= names
    assert any(name.endswith(".sql") for name in names)


def test_wheel_writes_and_reads(bin, tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["version"]
    assert version in run(bin / "synapse", "--version", cwd=tmp_path)
    synapse = (bin / "synapse", "--root", tmp_path / "memory")
    run(*synapse, "init", cwd=tmp_path)
    globs = ("--read", "api/*", "--write", "api/*")
    run(
        *synapse,
        "register",
        "--id",
        "eng-backend",
        "--role",
        "engineer",
        *globs,
        cwd=tmp_path,
    )
    write = ("write", "--from", "eng-backend", "--namespace", "api/endpoints", "--json")
    stored = json.loads(run(*synapse, *write, "use /v2/users", cwd=tmp_path))
    page = json.loads(
        run(*synapse, "read", "--agent", "eng-backend", "--json", cwd=tmp_path)
    )
    assert [(entry["id"], entry["body"]) for entry in page["entries"]] == [
        (stored["id"], "use /v2/users")
    ]


def test_wheel_has_the_short_commands(bin, tmp_path):
    for name in ("synapse-write", "synapse-read", "synapse-view", "synapse-register"):
        assert "usage" in run(bin / name, "--help", cwd=tmp_path).lower()
