"""The lock file of whoever runs a nightly job on this machine.

Its process keeps the file locked, so that its death is noticed however it comes; a record could not
say that. Nothing is known of other machines here: for those there is the lease in the log. Called
by the nightly run.
"""

from __future__ import annotations

import fcntl
import os

from synapse.errors import StoreError
from synapse.system.digest import sha256
from synapse.system.plain_files import make_folder, open_file
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from synapse.store import Store

FOLDER = ".index/leaders"


def process_name() -> str:
    """Return the name that records give this process."""
    return f"{os.uname().nodename}:{os.getpid()}"


def acquire(store: Store, key: str, epoch: int) -> bool:
    """Lock the file until `let_go` or the end of the process; return False where another thread of
    it has it."""
    path = _path(store, key, epoch, process_name())
    if path is None:
        return True
    try:
        make_folder(os.path.dirname(path))
        fd = open_file(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(f"{path} cannot be held: {error}") from error
    if _is_locked_elsewhere(fd):
        os.close(fd)
        return False
    store.held[path] = fd
    return True


def release(store: Store, key: str, epoch: int, *, over: bool = True) -> None:
    """Unlock the file. Where the run is not over, the file stays, as that of a dead process
    does."""
    path = _path(store, key, epoch, process_name())
    if path in store.held:
        if over:
            _unlink(path)
        os.close(store.held.pop(path))


def is_dead(store: Store, key: str, last: Mapping[str, Any]) -> bool:
    """Return whether the process that this record names ran here and is dead. False where that
    cannot be known."""
    if (
        last.get("state") != "running"
        or last.get("holder", "").rpartition(":")[0] != os.uname().nodename
    ):
        return False
    path = _path(store, key, last["epoch"], last["holder"])
    if path is None or path in store.held:
        return False
    try:
        fd = open_file(path)
    except OSError:
        return False  # the index was deleted, or belongs to somebody else
    try:
        return not _is_locked_elsewhere(fd)
    finally:
        os.close(fd)


def remove_stale(store: Store, key: str, last: Mapping[str, Any]) -> None:
    """Remove the file of a process that is dead."""
    path = _path(store, key, last["epoch"], last["holder"])
    if path is not None:
        _unlink(path)


def _path(store: Store, key: str, epoch: int, name: str) -> str | None:
    """Return the file of one process and one run; None for a log that has no folder."""
    if store.root is None:
        return None
    return os.path.join(store.root, FOLDER, sha256(f"{key} {epoch} {name}".encode())[:32])


def _is_locked_elsewhere(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
