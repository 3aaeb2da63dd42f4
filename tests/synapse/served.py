"""A memory that is asked over HTTP where a test asks it as an agent: one contract, two
implementations.

Holds no test.
"""

import ssl
import threading
import time
from contextlib import contextmanager

import uvicorn

import synapse
from synapse import Mail
from synapse.server.application import Serving, build
from synapse.system import listening
from synapse.trust.bearer import TokenFile, new_token

# for HTTP clients: reads no certificates
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def serving(memory, tokens, extensions=(), **options):
    """Serve a memory on a free port of this machine, in this process; its address."""
    app = build(Serving(memory, TokenFile(tokens), **options), extensions)
    listener = listening.listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < until
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


class Served:
    """A memory whose agents are asked over HTTP. All that is the operator's is asked of the
    library.
    """

    def __init__(self, memory, address, tokens):
        self._memory, self._address, self._tokens = memory, address, tokens
        self._clients = {}

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def as_agent(self, id):
        self._memory.as_agent(id)  # the operator's question: whether there is one
        if id not in self._clients:
            token = new_token(self._tokens, id)
            self._clients[id] = synapse.connect(self._address, token)
        return self._clients[id]

    def close(self):
        for client in self._clients.values():
            client.close()


@contextmanager
def served(memory, folder):
    """Serve a memory, and yield it with agents that are asked over HTTP."""
    tokens = str(folder / "tokens")
    with serving(memory, tokens) as address:
        both = Served(memory, address, tokens)
        try:
            yield both
        finally:
            both.close()


def library(mem):
    """The memory itself, for what is done in its folder: nightly runs, deliveries."""
    return mem._memory if isinstance(mem, Served) else mem


def mail_of(me):
    """The mail of an agent, whichever way it is asked."""
    return me.mail if isinstance(me, synapse.RemoteMemory) else Mail(me)
