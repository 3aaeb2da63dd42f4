"""The server beside a daemon: the same application, in a thread with a loop of its own, so that a
slow request holds up no run. Called by `orchestrator up --serve`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.runs.records import Run
from orchestrator.runs.task import Task
from orchestrator.server.source import Begin
from synapse.errors import StoreBusy, StoreError
from synapse.server.announcement import Running, announce, near, withdraw
from synapse.server.application import Serving, build
from synapse.server.run import introduction, prepare
from synapse.server.run import server as server_of
from synapse.system import listening

WITHIN = 20.0  # seconds that it has to come up, and to end
BEGUN_WITHIN = 5.0
Start = Callable[[Task], Coroutine[Any, Any, Run]]


@contextmanager
def served(
    serving: Serving,
    root: str,
    port: int,
    note: Callable[[str], None],
    host: str = "127.0.0.1",
    begin: Begin | None = None,
) -> Iterator[str]:
    """Serve a workspace for as long as the block lasts, at the address that is yielded; `note` is
    told it, how to look at it and who is let in. `begin` begins the runs that people ask for.
    """
    listener = listening.listen(host, port)
    address = listening.address(host, listener.getsockname()[1])
    app = build(serving)
    app.state.begin = begin
    server = server_of(app)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    running = Running(near(address), serving.secret, os.getpid())
    try:
        thread.start()
        _await(thread, lambda: server.started)
        prepare()
        announce(root, running)
        for line in introduction(serving, root, address):
            note(line)
        yield address
    finally:
        withdraw(root, running)
        server.should_exit = True
        thread.join(WITHIN)
        listener.close()


def begin_on(loop: asyncio.AbstractEventLoop, start: Start) -> Begin:
    """Return what begins a run on the daemon's loop, for the threads of the server. A request waits
    a little for it; what takes longer begins all the same.
    """

    def begin(task: Task) -> Run:
        begun = asyncio.run_coroutine_threadsafe(start(task), loop)
        try:
            return begun.result(BEGUN_WITHIN)
        except TimeoutError as error:
            raise StoreBusy("the daemon is busy: the run begins when it can") from error

    return begin


def _await(thread: threading.Thread, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN
    while not ready():
        if not thread.is_alive() or time.monotonic() > until:
            raise StoreError("the server did not come up")
        time.sleep(0.01)
