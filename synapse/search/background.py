"""Embedding in the background: a process of its own makes the vectors of what came, beside whoever
stays up. Nothing of an encoder is loaded here.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from synapse.errors import EmbedderError
from synapse.model.settings import LOCAL
from synapse.search.semantic import waiting
from synapse.store import Store

LOOK_EVERY = 10.0  # seconds: what comes within them goes through together
LATER = 600.0  # after a failure
KINDNESS = 10  # by how much what others do goes first


@asynccontextmanager
async def embedding(
    store: Store, note: Callable[[str], None] | None, *, sends: bool = True
) -> AsyncIterator[None]:
    """Embed what comes for as long as this is open. Unless it `sends`, no text goes to a server."""
    stop = asyncio.Event()
    task = asyncio.create_task(_keep_embedding(store, note, stop, sends))
    try:
        yield
    finally:
        stop.set()
        await task


async def _keep_embedding(
    store: Store, note: Callable[[str], None] | None, stop: asyncio.Event, sends: bool
) -> None:
    pause = LOOK_EVERY
    while not await _stopped(stop, pause):
        pause = LOOK_EVERY
        try:
            if await asyncio.to_thread(is_due, store, sends):
                await _embed(store.root or "", stop)
        except Exception as error:
            pause = LATER
            if note is not None:
                note(f"entries are embedded later: {type(error).__name__}: {error}")


async def _stopped(stop: asyncio.Event, within: float) -> bool:
    with suppress(TimeoutError):
        return await asyncio.wait_for(stop.wait(), within)
    return False


def is_due(store: Store, sends: bool = True) -> bool:
    """Return whether entries wait to be embedded, by an embedder that may be used here."""
    embedder = store.embeddings.semantic.embedder
    if not embedder or store.readonly or not store.root:
        return False
    return (sends or embedder == LOCAL) and waiting(store) > 0


async def _embed(root: str, stop: asyncio.Event) -> None:
    """Run `synapse embed` to its end, or until told to stop: it loses a batch at most."""
    # -P: nothing is imported from the folder in which this happens to run
    argv = (sys.executable, "-P", "-m", "synapse", "embed", "--root", root)
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdin=none, stdout=none, stderr=pipe)
    output, stopped = (asyncio.create_task(process.communicate()), asyncio.create_task(stop.wait()))
    try:
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, process.pid, KINDNESS)
        await asyncio.wait((output, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        _, problem = await output
    if process.returncode and not stop.is_set():
        raise EmbedderError(problem.decode(errors="replace").strip()[-500:])
