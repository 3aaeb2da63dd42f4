"""The Containerfile and compose.yaml, as far as they can be checked without an engine that builds
them: who runs, what is copied and open, and that the command and the health check work.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
SERVICE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
PORT = "8642"


def stages(text):
    """The instructions of each stage, as pairs of a word and the rest."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest.strip()))
    return found


def of(word, stage=-1):
    return [rest for name, rest in stages(CONTAINERFILE)[stage] if name == word]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def test_nobody_is_root():
    (user,) = of("USER")
    assert int(user) > 0
    words = [name for name, _ in stages(CONTAINERFILE)[-1]]
    assert "RUN" not in words[words.index("USER") :]
    assert f"--uid {user} " in of("RUN")[0]


def test_what_is_copied_is_there():
    for rest in of("COPY", 0):
        *sources, _ = rest.split()
        assert sources
        for source in sources:
            assert (ROOT / source).exists(), source


def test_images_are_named_without_a_registry():
    for stage in stages(CONTAINERFILE):
        (name,) = [rest.split()[0] for word, rest in stage if word == "FROM"]
        assert re.fullmatch(r"python:[\d.]+-slim", name)


def test_what_is_installed_is_what_the_lock_names():
    download, install = of("RUN", 0)
    assert "--require-hashes" in download
    assert download.endswith(" --requirement requirements-run.lock")
    assert "--no-index" in install


def test_the_port_is_one_and_open_to_this_machine_alone():
    (service,) = SERVICE["services"].values()
    assert of("EXPOSE") == [PORT]
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"--port {PORT}" in of("CMD")[0]
    assert f":{PORT}/healthz" in of("HEALTHCHECK")[0]


def test_the_service_may_do_little():
    (service,) = SERVICE["services"].values()
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    mounted = {volume.partition(":")[2] for volume in service["volumes"]}
    (volumes,) = of("VOLUME")
    assert mounted == set(json.loads(volumes))
    named = {volume.partition(":")[0] for volume in service["volumes"]}
    assert named == set(SERVICE["volumes"])


@pytest.fixture
def here(tmp_path):
    """The command and the health check, with places of this machine in them."""
    port = free_port()

    def moved(instruction):
        text = instruction[instruction.index("[") :].replace(PORT, port)
        words = json.loads(text.replace("/workspace", str(tmp_path / "workspace")))
        return [sys.executable if word == "python" else word for word in words]

    programs = os.path.dirname(sys.executable)
    env = {"HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    return moved(of("CMD")[0]), moved(of("HEALTHCHECK")[0]), env


def test_the_command_runs_and_is_healthy(here):
    command, check, env = here
    sick = subprocess.run(check, env=env, capture_output=True, timeout=30, check=False)
    assert sick.returncode != 0  # nothing listens yet: the check sees it
    for _ in range(2):  # the second time the workspace is there
        process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        try:
            until = time.monotonic() + 60
            while subprocess.run(
                check, env=env, capture_output=True, timeout=30, check=False
            ).returncode:
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < until
                time.sleep(0.2)
        finally:
            process.terminate()
            said = process.communicate(timeout=30)[1]
        assert "to look at it" in said
        assert "login?code=" not in said  # its log is kept, and read by others
