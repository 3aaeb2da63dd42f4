"""A receiver of webhooks on this machine, a workspace that sends to it, and a sender in a thread."""

import asyncio
import base64
import json
import os
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import synapse
from synapse.webhooks.outbox import Backoff
from synapse.webhooks.post import Wire
from synapse.webhooks.sender import Sender
from tests.trusted import trust

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
VARIABLE = "SYNAPSE_KEY_CHAT"


class Receiver(ThreadingHTTPServer):
    """Keeps every delivery that it answered with 200. `answer` decides, by the number and the body
    of a delivery, what is answered: a status, `hang` or `cut`.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer=lambda *call: 200):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.taken, self.refused, self.heard = [], [], 0
        self.mutex = threading.Lock()
        self.over = threading.Event()
        self.location = "/elsewhere"
        self.url = f"http://127.0.0.1:{self.server_address[1]}/in"

    def handle_error(self, request, client_address):
        """Says nothing: senders that are killed cut connections."""

    def bodies(self):
        return [json.loads(body)["data"]["body"] for _, body, _ in self.taken]

    def ids(self):
        return Counter(headers["webhook-id"] for headers, _, _ in self.taken)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        server = self.server
        with server.mutex:
            server.heard += 1
            answer = server.answer(server.heard, body)
        row = ({key.lower(): text for key, text in self.headers.items()}, body, time.time())
        if answer == 200:
            server.taken.append(row)
        else:
            server.refused.append(row)
        if answer == "hang":
            server.over.wait(20)
        if answer in ("hang", "cut"):
            self.close_connection = True
            return
        self.send_response(answer)
        if 300 <= answer < 400:
            self.send_header("location", server.location)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture
def receiver():
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, SECRET)
    folder = tmp_path / "memory"
    with synapse.init(str(folder)) as mem:
        mem.register(synapse.Agent("eng", read=["*"], write=["*"], teams=["red"]))
        mem.register(synapse.Agent("cto", role="cto"))
    return folder


def declare(root, url, name="chat", trusted=True, **more):
    """Declare a webhook, and trust it."""
    fields = {"url": url, "secret": VARIABLE} | more
    with (root / "synapse.yaml").open("a") as file:
        file.write(f"webhooks:\n  {name}: {json.dumps(fields)}\n")
    if trusted:
        trust(root)


QUICK = Backoff(first=0.01, longest=0.05)


class Running:
    """A sender in a thread with a loop of its own."""

    def __init__(self, store, backoff=QUICK, patience=0.3, **more):
        self.notes = []
        self.sender = Sender(
            store,
            self.notes.append,
            wire=Wire(patience=patience, **more.pop("wire", {})),
            backoff=backoff,
            chance=random.Random(7).random,
            **more,
        )
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self):
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        await self.sender.run(self.stop)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *about):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()


def wait_for(condition, seconds=30.0):
    """Return whether the condition came true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
