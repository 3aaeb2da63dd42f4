"""The server beside the daemon: found by `orchestrator open`, ended with it."""

import os
import re
import signal
import subprocess
import sys
import time

import httpx2
import pytest

import synapse
from orchestrator.daemon import is_up
from orchestrator.plugin.daemon import ask
from synapse.server.announcement import find
from synapse.trust.bearer import new_token

CSRF = re.compile(r'name="synapse-csrf" content="([^"]+)"')


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def root(home):
    path = str(home / "shared-memory")
    with synapse.init(path) as memory:
        memory.register(synapse.Agent("eng-a"))
    return path


def orchestrator(root, *words):
    line = [sys.executable, "-m", "orchestrator", "--root", root, *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def up(root):
    """A daemon with a server, in a process of its own."""
    line = [sys.executable, "-m", "orchestrator", "--root", root, "up"]
    line += ["--engine", "scripted", "--serve", "--port", "0"]
    line += ["--token-file", f"{root}-tokens", "--hosts", "memory.example"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    until(lambda: find(root) or process.poll() is not None)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def until(what, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_a_daemon_serves_and_takes_the_server_down_with_it(root, up):
    address = find(root).address
    assert httpx2.get(f"{address}/v1/runs").status_code == 401
    own = {"authorization": f"Bearer {new_token(f'{root}-tokens', 'eng-a')}"}
    for host, status in (("memory.example", 200), ("other.example", 403)):
        headers = {**own, "host": host}
        assert httpx2.get(f"{address}/v1/me", headers=headers).status_code == status
    until(lambda: is_up(root))
    until(lambda: _answers(root))
    opened = orchestrator(root, "open")
    link = opened.stdout.strip()
    assert link.startswith(f"{address}/login?code=")
    with httpx2.Client(base_url=address) as browser:
        code = link.partition("code=")[2]
        assert browser.post("/login", data={"code": code}).status_code == 303
        assert "At work now" in browser.get("/").text
        assert browser.get("/runs").status_code == 200
    up.send_signal(signal.SIGTERM)
    said = up.communicate(timeout=30)[1]
    assert up.returncode == 0, said
    assert f"at {address}" in said
    assert "`synapse dashboard` gives a link" in said
    assert "login?code=" not in said  # the log is kept, and read by others
    assert not is_up(root)
    assert find(root) is None
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)


def _answers(root):
    try:
        return ask(root, "status")
    except synapse.NotFound:
        return None


def test_open_says_what_to_start_where_nothing_is_served(root):
    done = orchestrator(root, "open")
    assert done.returncode == 3
    assert "serve" in done.stderr


def test_others_than_this_machine_need_tokens(root):
    done = orchestrator(root, "up", "--serve", "--host", "0.0.0.0", "--trust-local")
    assert done.returncode == 64
    assert "--trust-local is for this machine alone" in done.stderr


@pytest.mark.parametrize("port", ["x", "65536", "-1"])
def test_a_port_is_a_number(root, port):
    done = orchestrator(root, "up", "--serve", f"--port={port}")
    assert done.returncode == 64
    assert "write a number up to 65535" in done.stderr


def test_a_finished_run_is_asked_on_by_a_run_of_its_agent(root, up):
    done = orchestrator(root, "run", "--agent", "eng-a", "--engine", "scripted", "Hi")
    assert done.returncode == 0, done.stderr
    link = orchestrator(root, "open").stdout.strip()
    with httpx2.Client(base_url=find(root).address) as browser, synapse.open(root) as memory:
        browser.post("/login", data={"code": link.partition("code=")[2]})
        with memory.store.snapshot() as snap:
            (first,) = snap.runs()
        page = browser.get(f"/runs/{first['run']}").text
        assert "begins another run" in page
        token = CSRF.search(page)[1]
        browser.headers["x-synapse-csrf"] = token
        place = f"/runs/{first['run']}/ask"
        assert browser.post(place, data={"body": " "}).status_code == 422
        begun = browser.post(place, data={"body": "Which port?"}).headers["location"]
        assert begun.endswith("?did=begun")

        def answered():
            with memory.store.snapshot() as snap:
                return [run for run in snap.runs() if run.get("status") == "played"][1:]

        until(answered)
        with memory.store.snapshot() as snap:
            second = snap.run(begun[len("/runs/") : -len("?did=begun")])
        assert second["agent"] == "eng-a"
        assert second["task"].startswith("Which port?\n")
        assert first["run"] in second["task"]
        again = browser.post(place, data={"body": "Which port?"})
        assert again.headers["location"] != begun  # what a person asks is done again
