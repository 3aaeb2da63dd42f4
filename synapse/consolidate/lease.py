"""Who is at a night on this machine: known by a file that its process keeps locked, so that however
it dies is seen.

A record could only say that somebody was there. Of other machines nothing is known here: for them
there is the lease.
"""

from __future__ import annotations

import fcntl
import os

from synapse.errors import StoreError
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from synapse.store import Store

FOLDER = ".index/leaders"


def holder() -> str:
    """What a record calls this process."""
    return f"{os.uname().nodename}:{os.getpid()}"


def hold(store: Store, key: str, epoch: int) -> bool:
    """Be there, until `let_go` or the end of the process; False where another thread of it is
    already.
    """
    path = _path(store, key, epoch, holder())
    if path is None:
        return True
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path} cannot be held: {error}") from error
    if _taken(fd):
        os.close(fd)
        return False
    store.held[path] = fd
    return True


def let_go(store: Store, key: str, epoch: int, *, over: bool = True) -> None:
    """Be there no more. Where the run is not over, the file stays and says so, as that of a dead
    leader does.
    """
    path = _path(store, key, epoch, holder())
    if path in store.held:
        if over:
            _removed(path)
        os.close(store.held.pop(path))


def gone(store: Store, key: str, last: Mapping[str, Any]) -> bool:
    """Whether the leader that this record tells of was here, and is no more. False where that
    cannot be known.
    """
    if (
        last.get("state") != "running"
        or last.get("holder", "").rpartition(":")[0] != os.uname().nodename
    ):
        return False
    path = _path(store, key, last["epoch"], last["holder"])
    if path is None or path in store.held:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # the index was deleted, or belongs to somebody else
    try:
        return not _taken(fd)
    finally:
        os.close(fd)


def bury(store: Store, key: str, last: Mapping[str, Any]) -> None:
    """Remove the file of a leader that was given up."""
    path = _path(store, key, last["epoch"], last["holder"])
    if path is not None:
        _removed(path)


def _path(store: Store, key: str, epoch: int, name: str) -> str | None:
    """The file of one leader of one run; None for a log that has no folder."""
    if store.root is None:
        return None
    return os.path.join(
        store.root, FOLDER, sha256(f"{key} {epoch} {name}".encode())[:32]
    )


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _removed(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
