"""SIGKILL of an installation at its calls of the system: the same command, given again, finishes
it, and what it is taken out of has its bytes again.
"""

import os

import pytest

import synapse
from orchestrator.plugin.install import installer
from orchestrator.plugin.install.place import place
from tests.crash import kill


def install(project):
    installer.install(place("agents-md", project, None, False, dict(os.environ)))


@pytest.mark.parametrize("before", [b"Tabs,\r\nnot blanks.", b"Tabs,\nnot blanks.", b"\n"])
def test_what_was_killed_leaves_nothing_behind(tmp_path, monkeypatch, before):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SYNAPSE_ROOT", raising=False)
    project = tmp_path / "shop"
    project.mkdir()
    synapse.init(str(project / "shared-memory")).close()
    path = project / "AGENTS.md"
    path.write_bytes(before)
    count = 1
    while kill.killed(install, project, at=count, names="rename replace link unlink chmod"):
        count += 1
    assert count > 4
    assert path.read_bytes() != before
    installer.uninstall(place("agents-md", str(project), None, False, dict(os.environ)))
    assert path.read_bytes() == before
