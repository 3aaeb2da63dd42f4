"""SIGKILL of an installation at its calls of the system: the same command, given again, finishes
it, and what it is taken out of has its bytes again.
"""

import os
import subprocess
import sys

import pytest

import synapse
from orchestrator.plugin.install import installer
from orchestrator.plugin.install.place import place
from tests.crash.killed import KILLED

PROGRAM = (
    KILLED
    + """
from orchestrator.plugin.install import installer
from orchestrator.plugin.install.place import place
location = place(sys.argv[2], sys.argv[3], None, False, dict(os.environ))
kill_at(sys.argv[1], 'rename replace link unlink chmod')
installer.install(location)
"""
)


@pytest.mark.parametrize("before", [b"Tabs,\r\nnot blanks.", b"Tabs,\nnot blanks.", b"\n"])
def test_what_was_killed_leaves_nothing_behind(tmp_path, monkeypatch, before):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SYNAPSE_ROOT", raising=False)
    project = tmp_path / "shop"
    project.mkdir()
    synapse.init(str(project / "shared-memory")).close()
    path = project / "AGENTS.md"
    path.write_bytes(before)
    code, calls = -9, 0
    while code:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(calls), "agents-md", str(project)],
            capture_output=True,
            text=True,
        )
        code, calls = done.returncode, calls + 1
        assert code in (0, -9), done.stderr
    assert calls > 4
    assert path.read_bytes() != before
    installer.uninstall(place("agents-md", str(project), None, False, dict(os.environ)))
    assert path.read_bytes() == before
