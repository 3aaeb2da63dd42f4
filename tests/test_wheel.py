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
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
# The folders of the repository, and where the wheel has them.
FOLDERS = {
    "synapse": "synapse",
    "orchestrator": "orchestrator",
    "prompts": "orchestrator/_prompts",
    "scenarios": "orchestrator/_suite/scenarios",
}
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def run(*args, cwd, stdin="", codes=(0,)):
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
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", out, ROOT, cwd=out)
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
    (Path(site) / "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    return home / "bin"


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The programs of an environment that holds the wheel and what its core asks for, no more."""
    home = tmp_path_factory.mktemp("alone")
    venv.create(home, symlinks=True)
    python = home / "bin/python"
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", where, cwd=home).strip())
    for name in required():
        for top in {file.parts[0] for file in metadata.files(name) or ()} - {".."}:
            if not (site / top).exists() and top != "__pycache__":
                (site / top).symlink_to(metadata.distribution(name).locate_file(top))
    return home / "bin"


def required():
    """Return the distributions that the core needs, all the way down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed, waiting = set(), list(project["dependencies"])
    while waiting:
        wanted = Requirement(waiting.pop())
        needs = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if needs and wanted.name not in needed:
            needed.add(wanted.name)
            waiting += metadata.requires(wanted.name) or ()
    return needed


def test_a_memory_alone_is_a_memory(alone, tmp_path):
    """Without the SDKs, a server and templates: all that the README's first minute does."""
    page = (ROOT / "docs/how-to/install.md").read_text()
    assert f"It asks for {len(required())}\npackages" in page
    gone = "anthropic apscheduler fastapi genai_prices httpx2 jinja2 mcp openai"
    look = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    found = run(alone / "python", "-c", look, *gone.split(), cwd=tmp_path)
    assert found.strip() == "[]"
    synapse = (alone / "synapse", "--root", tmp_path / "memory")
    run(*synapse, "init", cwd=tmp_path)
    for name in ("a", "b"):
        words = ("register", "--id", name, "--read", "api/*", "--write", "api/*")
        run(*synapse, *words, "--role", "engineer", cwd=tmp_path)
    words = ("write", "--from", "a", "--namespace", "api/x", "--priority", "critical")
    run(*synapse, *words, "use /v2/users", cwd=tmp_path)
    assert "use /v2/users" in run(*synapse, "view", "b", "--budget", "2000", cwd=tmp_path)
    assert "use /v2/users" in run(*synapse, "search", "users", cwd=tmp_path)
    for verb in ("verify", "doctor", "defrag", "stats"):
        run(*synapse, verb, cwd=tmp_path)


NEEDS = {
    ("orchestrator", "demo"): "team",
    ("orchestrator", "run", "--agent", "a", "--engine", "scripted", "Look"): "team",
    ("synapse", "serve", "--port", "0"): "server",
    ("synapse", "--root", "http://127.0.0.1:9", "read", "--agent", "a"): "client",
}


@pytest.mark.parametrize("words", NEEDS, ids=" ".join)
def test_what_a_memory_alone_lacks_is_named_with_its_extra(alone, tmp_path, words):
    program, *rest = words
    run(alone / "synapse", "init", cwd=tmp_path)
    run(alone / "synapse", "register", "--id", "a", "--role", "cto", cwd=tmp_path)
    done = subprocess.run(
        [alone / program, *rest],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SYNAPSE_TOKEN": "t" * 32},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 6, done.stdout + done.stderr
    extra = f"python3 -m pip install '.[{NEEDS[words]}]'"
    assert done.stderr.strip().endswith(extra), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_in_python_too(alone, tmp_path):
    code = "from orchestrator import Supervisor"
    done = subprocess.run(
        [alone / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert "Supervisor needs the package" in done.stderr.splitlines()[-1]
    assert done.stderr.strip().endswith("'.[team]'")


def test_wheel_carries_the_packages_whole(wheel):
    ours = {
        f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == ours


def test_wheel_puts_two_names_at_the_top_of_an_environment(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"synapse", "orchestrator"}


def test_wheel_imports_from_itself(bin, tmp_path):
    for package in ("synapse", "orchestrator"):
        where = run(
            bin / "python", "-c", f"import {package}; print({package}.__file__)", cwd=tmp_path
        )
        assert Path(where).is_relative_to(bin.parent), where


def test_wheel_has_its_data(bin, tmp_path):
    where = run(bin / "python", "-c", "import synapse; print(synapse.__file__)", cwd=tmp_path)
    names = {path.name for path in Path(where).parent.rglob("*")}
    assert {"PROTOCOL.md", "py.typed"} <= names
    assert any(name.endswith(".sql") for name in names)


def test_wheel_writes_and_reads(bin, tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    assert version in run(bin / "synapse", "--version", cwd=tmp_path)
    synapse = (bin / "synapse", "--root", tmp_path / "memory")
    run(*synapse, "init", cwd=tmp_path)
    globs = ("--read", "api/*", "--write", "api/*")
    run(*synapse, "register", "--id", "eng-backend", "--role", "engineer", *globs, cwd=tmp_path)
    write = ("write", "--from", "eng-backend", "--namespace", "api/endpoints", "--json")
    stored = json.loads(run(*synapse, *write, "use /v2/users", cwd=tmp_path))
    page = json.loads(run(*synapse, "read", "--agent", "eng-backend", "--json", cwd=tmp_path))
    assert [(entry["id"], entry["body"]) for entry in page["entries"]] == [
        (stored["id"], "use /v2/users")
    ]


def test_wheel_has_the_short_commands(bin, tmp_path):
    for name in ("synapse-write", "synapse-read", "synapse-view", "synapse-register"):
        assert "usage" in run(bin / name, "--help", cwd=tmp_path).lower()


def test_wheel_plays_the_brain_suite(bin, tmp_path):
    """With what it starts processes for: several jobs, and runs that are killed."""
    words = ("run", "crash_resume", "--runs", "1", "--no-grid", "--quiet", "--jobs", "2")
    out = run(bin / "brain-suite", *words, "--out", "suite", cwd=tmp_path, codes=(0, 1))
    assert "crash_resume" in out
    assert (tmp_path / "suite/report.html").is_file()
    assert run(bin / "brain-suite", "verify", "suite", cwd=tmp_path).startswith("ok: ")


def test_wheel_has_the_templates_of_prompts(bin, tmp_path):
    """A prompt is made of them, and a folder `prompts` of somebody else's changes nothing."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/__init__.py").write_text("raise SystemExit('not ours')")
    orchestrator = (bin / "orchestrator", "--root", tmp_path / "memory")
    run(*orchestrator, "init", cwd=tmp_path)
    words = ("run", "--dry-run", "--agent", "cto", "Look")
    prompt = run(*orchestrator, *words, cwd=tmp_path)
    assert "## Your Task" in prompt


def test_wheel_has_the_demo(bin, tmp_path):
    """Without a terminal it ends by itself; modules of the folder do not take ours away."""
    (tmp_path / "synapse.py").write_text("raise SystemExit('not ours')")
    told = run(bin / "orchestrator", "demo", cwd=tmp_path)
    assert "3. Two equals contradict each other, until somebody rules" in told
    assert "What it took" in told
