"""A process that was started on a workspace of which nothing counted yet: it tells nothing of it,
and goes on with it once a person accepts it, without being started again.
"""

import os
import subprocess
import sys

import pytest

import synapse
from synapse.errors import NotFound
from synapse.log.files import FilesLog
from synapse.mcp.identity import Opened, as_agent
from tests.attacks.test_foreign_text import POLICY, accept, clone, people, theirs

__all__ = ["clone", "people", "theirs"]


def test_an_mcp_server_goes_on(people, clone):
    root = str(clone / "shared-memory")
    with people("bob"):
        opened = Opened(lambda: synapse.open(root))
        identify = as_agent(opened, "eng")
        for _ in range(2):
            with pytest.raises(NotFound, match="nobody accepted its text"):
                identify(None)
        before = opened.memory()
        assert opened.memory() is before
        done = [sys.executable, "-m", "synapse.cli", "--root", root, "trust", "--text", "--yes"]
        subprocess.run(done, check=True, capture_output=True)  # another process
        assert POLICY in {entry.body for entry in identify(None).read()}
        assert opened.memory() is opened.memory() is not before
        before.close()
        opened.memory().close()


def test_a_server_waits_and_goes_on(people, clone):
    root = str(clone / "shared-memory")
    with people("bob"):
        process = subprocess.Popen(
            [sys.executable, "-m", "synapse.cli", "--root", root, "serve", "--port", "0"],
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        try:
            lines = iter(process.stderr.readline, "")
            assert any("it is served from then on" in line for line in lines)
            accept(root)
            assert any(line.startswith("serving ") for line in lines)
        finally:
            process.terminate()
            process.wait(20)
            process.stderr.close()


def test_what_is_ones_own_is_opened_once(people, tmp_path):
    with people("bob"), synapse.init(str(tmp_path / "own")) as memory:
        opened = Opened(lambda: memory)
        assert not memory.store.foreign
        memory.register(synapse.Agent("eng"))
        memory.as_agent("eng").append("x", "status/x")
        assert not memory.store.outdated
        assert opened.memory() is memory


def test_a_planted_fault_is_found(people, clone, monkeypatch):
    real = FilesLog.__init__

    def opens(self, *values, **named):
        real(self, *values, **named)
        self.was_foreign = False

    monkeypatch.setattr(FilesLog, "__init__", opens)
    with pytest.raises((AssertionError, NotFound)):
        test_an_mcp_server_goes_on(people, clone)
