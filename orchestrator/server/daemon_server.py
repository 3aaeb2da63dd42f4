"""The server beside a daemon: the same application, in a thread with a loop of its own, so that a
slow request holds up no run. Called by `orchestrator up --serve`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from synapse.bearer import TokenFile, place
from synapse.core import Memory
from synapse.errors import StoreError
from synapse.model.agents import OPERATOR
from synapse.server.announcement import Running, announce, withdraw
from synapse.server.application import Serving, build
from synapse.server.run import server as server_of
from synapse.system import listening

HOST = "127.0.0.1"
WITHIN = 20.0  # seconds that it has to come up, and to end


@contextmanager
def served(
    memory: Memory,
    root: str,
    port: int,
    note: Callable[[str], None],
    trust_local: bool = False,
) -> Iterator[str]:
    """Serve a workspace on this machine for as long as the block lasts, at the address that is
    yielded; `note` is told it, and how to look at it.
    """
    serving = Serving(memory, TokenFile(place(root)), trust_local)
    listener = listening.listen(HOST, port)
    address = listening.address(HOST, listener.getsockname()[1])
    server = server_of(build(serving))
    thread = threading.Thread(
        target=server.run, args=([listener],), name="server", daemon=True
    )
    running = Running(address, serving.secret)
    try:
        thread.start()
        _await(thread, lambda: server.started)
        announce(root, running)
        note(f"serving {os.path.abspath(root)} at {address}")
        link = serving.browsers.link(OPERATOR)
        note(f"to look at it: {address}/login?code={link}  (good once)")
        yield address
    finally:
        withdraw(root, running)
        server.should_exit = True
        thread.join(WITHIN)
        listener.close()


def _await(thread: threading.Thread, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN
    while not ready():
        if not thread.is_alive() or time.monotonic() > until:
            raise StoreError("the server did not come up")
        time.sleep(0.01)
