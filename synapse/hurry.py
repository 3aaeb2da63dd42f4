"""A workspace for who cannot wait: for a time of its own, or for reading alone, whoever holds the
locks. Called by programs that somebody waits for, such as a client's hook.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from synapse.core import Memory
from synapse.errors import StoreBusy
from synapse.log import open_log
from synapse.log.files import FilesLog
from synapse.model import clock
from synapse.store import Store


def peek(address: str | os.PathLike[str]) -> Memory:
    """Open the workspace at a directory for reading alone, as the log can be read."""
    log = open_log(os.fspath(address), clock.now, readonly=True)
    try:
        return Memory(Store(log, clock.now))
    except BaseException:
        log.close()
        raise


@contextmanager
def hurried(store: Store, seconds: float) -> Iterator[None]:
    """Wait no longer than this, in this thread, for who holds the log or the index: StoreBusy
    then.
    """
    _wait_for(store, seconds)
    try:
        yield
    finally:
        _wait_for(store, None)


def is_free(store: Store) -> bool:
    """Return whether nobody holds the log or the index now."""
    with hurried(store, 0), suppress(StoreBusy):
        if isinstance(store.log, FilesLog):
            store.log.journal.lock.run(lambda: None)
        store.index.demand_free()
        return True
    return False


def _wait_for(store: Store, seconds: float | None) -> None:
    if isinstance(store.log, FilesLog):
        store.log.journal.lock.wait_for(seconds)
    if store.index.lock is not None:
        store.index.lock.wait_for(seconds)
        store.index.db.wait_for(seconds)
