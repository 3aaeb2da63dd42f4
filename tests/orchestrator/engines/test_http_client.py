"""An address that a workspace names is called where it was trusted to lead, and nowhere else."""

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from orchestrator.engines import protocol
from orchestrator.engines.protocol import EngineError, Message, Rejected, Request
from synapse.embedders.openai import OpenAI as Embedder
from synapse.errors import EmbedderError

REQUEST = Request("", (Message("user", "a secret text", "task"),), model="m")


class Turning(BaseHTTPRequestHandler):
    """Notes who comes, and sends them on to another page of its own."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.heard.append(self.path)
        self.send_response(307)
        self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Turning) as server:
        server.heard = []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def step(kind, **options):
    async def once():
        engine = protocol.load(kind, api_key="k", max_retries=0, **options)
        try:
            return await engine.step(REQUEST, asyncio.Event())
        finally:
            await engine.close()

    return asyncio.run(once())


@pytest.mark.parametrize("kind", ["anthropic", "openai", "openai-chat"])
@pytest.mark.parametrize("trusted", ["public", "private"])
def test_a_name_that_leads_elsewhere_is_not_called(kind, trusted, server):
    with pytest.raises(Rejected, match=f"was trusted as a {trusted} address"):
        step(kind, base_url=server.url.replace("127.0.0.1", "localhost"), trusted=trusted)
    assert server.heard == []


@pytest.mark.parametrize("kind", ["anthropic", "openai", "openai-chat"])
def test_a_redirect_is_not_followed_and_no_proxy_asked(kind, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(EngineError):
        step(kind, base_url=server.url, trusted="loopback")
    assert len(server.heard) == 1
    assert server.heard[0] != "/elsewhere"


def test_the_server_of_embeddings_is_held_to_the_same(server):
    for trusted, heard in (("public", 0), ("loopback", 1)):
        embedder = Embedder(server.url, key="k", trusted=trusted)
        with pytest.raises(EmbedderError):
            embedder.embed(["a secret text"])
        embedder.close()
        assert len(server.heard) == heard
