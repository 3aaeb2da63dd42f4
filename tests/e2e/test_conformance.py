"""The conformance suites of the Model Context Protocol against `synapse mcp`, for both revisions
that it serves.

What a suite wants of a server beside the protocol stands, with the reason, in
`conformance/REVISION.yml`. The suites and a Node that runs them are installed from a lock of their
own, in seconds, into a folder beside .venv.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import synapse
from synapse import Agent

HERE = Path(__file__).parent / "conformance"
FOLDER = HERE.parents[2] / ".conformance"
LOCKED = ("package.json", "package-lock.json")
SUITES = {
    "2025-11-25": ("conformance-2025", ()),
    "2026-07-28": ("conformance-2026", ("--requirements", "2026-07-28")),
}
PASSED = {
    "2025-11-25": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"},
    "2026-07-28": {
        "tools-list",
        "resources-list",
        "prompts-list",
        "caching",
        "sep-2164-resource-not-found",
    },
}
BOTH = {"dns-rebinding-protection", "server-sse-multiple-streams"}


@pytest.fixture(scope="session")
def node(installing):
    """Runs a suite, by the name of its package, with these words."""
    with installing(FOLDER):
        install()
    program = FOLDER / "node_modules/.bin/node"

    def run(suite, *words):
        script = FOLDER / "node_modules" / suite / "dist/index.js"
        command = [str(program if program.exists() else "node"), str(script), *words]
        return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120)

    return run


def install():
    """Install the suites from their lock, once."""
    together = b"".join((HERE / name).read_bytes() for name in LOCKED)
    wanted = hashlib.sha256(together).hexdigest()
    stamp = FOLDER / "stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if shutil.which("npm") is None:
        pytest.skip(
            "the conformance suites are npm packages: put Node's npm on the PATH to run them"
        )
    for name in LOCKED:
        shutil.copy(HERE / name, FOLDER / name)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts"], cwd=FOLDER, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"npm ci failed:\n{done.stderr[-2_000:]}"
    stamp.write_text(wanted)


@pytest.fixture
def address(tmp_path):
    """Where a server of a workspace is, which ends with the test."""
    root = tmp_path / "ws"
    with synapse.init(root) as memory:
        memory.register(Agent("eng", read=["api/*"], write=["api/*"]))
    command = [
        sys.executable,
        "-m",
        "synapse.cli",
        "--root",
        str(root),
        "mcp",
        "--agent",
        "eng",
        "--http",
        "0",
    ]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as server:
        try:
            yield server.stderr.readline().split()[-1]
        finally:
            server.terminate()
            server.stderr.read()


def passed(text):
    """The scenarios that passed."""
    summary = text.partition("=== SUMMARY ===")[2].partition("Total:")[0]
    return {*re.findall(r"^✓ (\S+):", summary, re.MULTILINE)}


@pytest.mark.parametrize("revision", SUITES)
def test_the_server_conforms(node, address, tmp_path, revision):
    """Every scenario passes but those listed, and every one of these fails: the suite refuses a
    list that is not exact.
    """
    suite, more = SUITES[revision]
    listed = HERE / f"{revision}.yml"
    done = node(suite, "server", "--url", address, *more, "--expected-failures", str(listed))
    assert done.returncode == 0, done.stdout[-4_000:]
    assert passed(done.stdout) >= PASSED[revision] | BOTH
    stale = tmp_path / "stale.yml"
    stale.write_text(f"{listed.read_text()}  - tools-list\n")
    words = ("--url", address, "--scenario", "tools-list", "--expected-failures")
    assert node(suite, "server", *words, str(listed)).returncode == 0
    assert node(suite, "server", *words, str(stale)).returncode != 0
