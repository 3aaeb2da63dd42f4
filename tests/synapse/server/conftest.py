"""A server on a free port of this machine, in this process, with real HTTP between."""

import threading
import time

import httpx2
import pytest

import synapse
from synapse import Agent
from synapse.server import run
from synapse.server.application import Serving, build
from synapse.system import listening
from synapse.trust.bearer import TokenFile, new_token
from tests.synapse.served import PLAIN


class Site:
    """A workspace that is served: its address, and a client for each agent."""

    def __init__(self, memory, tokens, app, address):
        self.memory, self.tokens, self.app, self.address = memory, tokens, app, address
        self._clients = []

    def token(self, agent, **options):
        return new_token(self.tokens, agent, **options)

    def client(self, agent=None, token=None, **options):
        """Return an HTTP client with a token of the agent, or with none."""
        text = token or (self.token(agent, **options) if agent else None)
        headers = {"authorization": f"Bearer {text}"} if text else {}
        client = httpx2.Client(base_url=self.address, headers=headers, timeout=30, verify=PLAIN)
        self._clients.append(client)
        return client

    def close(self):
        for client in self._clients:
            client.close()


@pytest.fixture
def serve(tmp_path, serve_memory):
    """Return a function that serves a new workspace; all are stopped at the end."""
    count = iter(range(1_000))

    def start(agents=(), extensions=None, **options):
        number = next(count)
        memory = synapse.init(tmp_path / f"team-{number}")
        for agent in filter(None, agents or TEAM):
            memory.register(agent)
        tokens = TokenFile(str(tmp_path / f"tokens-{number}"))
        return serve_memory(memory, tokens, extensions, **options)

    return start


@pytest.fixture
def serve_memory():
    """Return a function that serves a memory; it is closed at the end, and the server stopped."""
    stops = []

    def start(memory, tokens, extensions=None, **options):
        app = build(Serving(memory, tokens, **options), extensions)
        listener = listening.listen("127.0.0.1", 0)
        server = run.server(app)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        until = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        site = Site(memory, tokens.path, app, f"http://127.0.0.1:{listener.getsockname()[1]}")

        def stop_server():
            server.should_exit = True
            thread.join(30)
            listener.close()

        def stop():
            site.close()
            stop_server()
            memory.close()

        site.stop_server = stop_server

        stops.append(stop)
        return site

    yield start
    for stop in stops:
        stop()


TEAM = (
    Agent("eng", read=["api/*", "team/*"], write=["api/*"]),
    Agent("qa", read=["api/*"], write=["status/*"]),
    Agent("lead", role="project-lead", read=["*"], write=["*"]),
)


@pytest.fixture
def site(serve):
    return serve()
