"""The proxy before the server, as the page on the server has it: a real nginx with that very text."""

import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

import synapse
from synapse.trust.bearer import new_token
from tests.server_process import process, team
from tests.synapse.served import PLAIN

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "server.md"
NAME = "memory.example.com"
MORE = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
daemon off;
master_process off;
events {{}}
http {{
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{text}
}}
"""

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def nginx(folder, behind):
    """Run nginx with the text of the page, without TLS, before a server on this port; its port."""
    port = free_port()
    (text,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = re.sub(r"\n\s*ssl_.*", "", text).replace("443 ssl", f"127.0.0.1:{port}")
    text = text.replace("127.0.0.1:8642", f"127.0.0.1:{behind}")
    text = text.replace("/var/log/nginx/", f"{folder}/")
    (folder / "nginx.conf").write_text(MORE.format(folder=folder, text=text), encoding="utf-8")
    child = subprocess.Popen(["nginx", "-c", folder / "nginx.conf", "-p", folder])
    try:
        until = time.monotonic() + 30
        while not (folder / "nginx.pid").exists():
            assert child.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        yield port
    finally:
        child.terminate()
        child.wait(30)


def client(port, token, address="127.0.0.2"):
    return httpx2.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {token}", "host": NAME},
        transport=httpx2.HTTPTransport(local_address=address, verify=PLAIN),
        timeout=30,
    )


def test_the_proxy_of_the_page_passes_on_all_that_there_is(tmp_path):
    options = ("--proxy", "127.0.0.1", "--hosts", NAME)
    with (
        process(team(tmp_path / "team"), tmp_path, *options) as server,
        nginx(tmp_path, server.port) as port,
    ):
        token = new_token(server.tokens, "eng")
        with client(port, token) as eng:
            draft = {"namespace": "api/users", "body": "use /v2 " * 10_000 + "now"}
            assert eng.post("/v1/entries", json=draft).status_code == 201
            with eng.stream("GET", "/v1/events?since=0") as events:
                assert next(events.iter_lines())  # nothing is held back
        with client(port, "syn_wrong") as nobody:
            forged = {"x-forwarded-for": "10.9.9.9"}
            assert nobody.get("/v1/me", headers=forged).status_code == 401
        assert "wrong 127.0.0.2" in server.log
        token = new_token(server.tokens, "qa")  # nobody is told of its own entries
        with synapse.connect(f"http://127.0.0.1:{port}", token) as me:
            assert next(iter(me.follow(since=0, timeout=30))).entry.body == draft["body"]
        assert "401" in (tmp_path / "memory.log").read_text(encoding="utf-8")
