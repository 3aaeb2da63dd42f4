"""A client whose disk is full: it is given its view, as where nothing may be written."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from orchestrator.plugin import hook
from synapse.system.lock import LEAST_FREE, Barred, Lock, lock_in

RULE = "Call /v2/users, never /v1."
# In a namespace of its own, in which a disk can be small.
SCRIPT = """
import json, subprocess, sys
import synapse

folder, hook = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], check=True)
root = f"{folder}/shared-memory"
with synapse.init(root) as memory:
    memory.register(synapse.Agent("boss", role="cto"))
    memory.register(synapse.Agent("lead", role="project-lead"))
    memory.as_agent("boss").append(sys.stdin.readline().strip(), "decisions/x", priority="critical")
for size in (4096, 1):
    try:
        with open(f"{folder}/filler-{size}", "wb", buffering=0) as file:
            while True:
                file.write(bytes(size))
    except OSError:
        pass
for name in ("SessionStart", "UserPromptSubmit", "Stop"):
    event = {"hook_event_name": name, "session_id": "s1", "cwd": folder, "source": "startup"}
    command = [sys.executable, "-I", "-S", hook, "claude-code", "--root", root]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout]), flush=True)
"""


def namespaces():
    """Tell whether this user may have a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not namespaces(), reason="no namespace for a small disk")
def test_a_start_is_given_its_view(tmp_path):
    command = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    command += [sys.executable, "-c", SCRIPT, str(tmp_path), hook.__file__]
    done = subprocess.run(command, input=f"{RULE}\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    start, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert start[0] == 0
    assert RULE in start[1]
    assert others == [[0, ""], [0, ""]]


@pytest.mark.parametrize("free", [0, LEAST_FREE - 4096, LEAST_FREE])
def test_a_folder_without_room_is_only_read(tmp_path, monkeypatch, free):
    values = list(os.statvfs(tmp_path))
    values[1], values[4] = 4096, free // 4096
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))
    lock = lock_in(str(tmp_path))
    assert isinstance(lock, Lock if free >= LEAST_FREE else Barred)
    lock.close()
