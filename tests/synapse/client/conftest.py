"""Clients of a server in this process, and servers that answer as a test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import synapse
from tests.synapse.server.conftest import serve, serve_memory, site  # noqa: F401


@pytest.fixture
def remote(site):  # noqa: F811
    """Return a function that connects as an agent; all are closed at the end."""
    opened = []

    def connect(agent="eng", address=None, **options):
        token = options.pop("token", None) or site.token(agent)
        opened.append(synapse.connect(address or site.address, token, **options))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


class Scripted(ThreadingHTTPServer):
    """A server that gives the next of its answers, the last one for ever, and keeps what it heard.

    An answer is a status, a body and headers; None closes the connection without one.
    """

    daemon_threads = True

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.heard = list(answers), []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def next(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        size = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append((self.path, headers, self.rfile.read(size)))
        answer = self.server.next()
        if answer is None:
            self.close_connection = True
            return
        status, body, headers = answer
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture
def scripted():
    """Return a function that starts a server with these answers; all are stopped at the end."""
    servers = []

    def start(*answers):
        server = Scripted(*answers)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        servers.append((server, thread))
        return server

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()
