"""The verb `dashboard`: a link from the server that runs, for the person whose folder says where."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

import synapse
from synapse import Agent
from synapse.errors import NotFound
from synapse.server.announcement import Running, announce, find, link, withdraw
from synapse.server.application import Serving
from synapse.server.run import introduction
from synapse.trust.bearer import TokenFile, new_token, place
from tests.synapse.served import PLAIN


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    with synapse.init(tmp_path / "team") as memory:
        memory.register(Agent("eng", read=["api/*"], write=["api/*"]))
    return str(tmp_path / "team")


def cli(root, *words):
    command = [sys.executable, "-m", "synapse.cli", "--root", root, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_served_workspace_is_found_until_its_server_ends(root, tmp_path):
    missing = cli(root, "dashboard")
    assert missing.returncode
    assert "synapse serve" in missing.stderr
    command = [sys.executable, "-m", "synapse.cli", "--root", root]
    words = ["serve", "--host", "0.0.0.0", "--port", "0"]
    server = subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True)
    try:
        told = [server.stderr.readline() for _ in range(4)]
        # no terminal reads it: a log is kept
        assert told[1] == "to look at it: `synapse dashboard` gives a link\n"
        assert "0.0.0.0 can be reached by others: each request needs a token" in told[2]
        assert "`synapse token new AGENT` makes one" in told[3]
        for agent, words in (("operator", ()), ("eng", ("--agent", "eng"))):
            printed = cli(root, "dashboard", *words).stdout.strip()
            parts = urlsplit(printed)
            code = parts.query.removeprefix("code=")
            with httpx2.Client(base_url=f"http://{parts.netloc}", verify=PLAIN) as client:
                assert client.post("/login", data={"code": code}).status_code == 303
                page = client.get("/").text
            assert re.search(rf"<bdi>{agent}</bdi>", page)
        assert "agent nobody is not" in cli(root, "dashboard", "--agent", "nobody").stderr
        (left,) = (tmp_path / "home" / "servers").iterdir()
        assert os.stat(left).st_mode & 0o777 == 0o600
        wrong = httpx2.post(f"http://{parts.netloc}/login/links", headers={"x-synapse-secret": "x"})
        assert wrong.status_code == 403
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        server.stderr.close()
    assert not Path(left).exists()
    assert find(root) is None


def test_the_newest_server_is_found_and_takes_only_its_own_word_back(root):
    one, two = Running("http://127.0.0.1:1", "a"), Running("http://127.0.0.1:2", "b")
    announce(root, one)
    announce(root, two)
    withdraw(root, one)
    assert find(root) == two
    withdraw(root, two)
    with pytest.raises(NotFound, match="synapse serve"):
        link(root, "operator")


@pytest.mark.parametrize(
    ("host", "named", "told"),
    [("127.0.0.1", False, 2), ("127.0.0.1", True, 3), ("192.0.2.7", False, 4)],
)
def test_who_serves_is_told_who_is_let_in(root, host, named, told):
    path = f"{root}-tokens" if named else place(root)
    with synapse.open(root) as memory:
        serving = Serving(memory, TokenFile(path))
        lines = list(introduction(serving, root, f"http://{host}:8642"))
        assert len(lines) == told
        assert f"AGENT --token-file {path}`" in lines[-1] or not named
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new_token(path, "eng")
        lines = list(introduction(serving, root, f"http://{host}:8642"))
        assert not [line for line in lines if "no token" in line]
