"""The runs of a workspace beside its log: what lies in their folders, and who is at work on them.
All of it is files of the workspace, or in the database where that holds the log. Called by whoever
has a store; nothing else asks which of the two it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.runs.files import lease as files
from orchestrator.runs.files.folder import STEPS, Folder, Tail

if TYPE_CHECKING:
    from synapse.log.postgres.database import Database
    from synapse.store import Store

LEASE = files.LEASE


class Lease(Protocol):
    """A supervisor, as the others see it."""

    name: str
    # holders that had no beat when they were last looked at: their last one, and when that was
    suspects: dict[str, tuple[int, int]]

    def beat(self) -> None:
        """Show that this process goes on."""

    def lives(self, name: str) -> bool:
        """Return whether another supervisor is alive."""

    def sweep(self) -> None:
        """Remove what is left of the dead."""

    def close(self) -> None:
        """Give the lease up. Idempotent."""


def folder(store: Store, root: str, run: str, *, lasting: bool = True) -> Folder:
    """Return the folder of a run. `root` is the folder of its workspace's runs; one that does not
    outlive its process is not `lasting`.
    """
    if (database := _database(store)) is None:
        return Folder(root, run, lasting=lasting)
    from orchestrator.runs.files.postgres.folder import SharedFolder

    return SharedFolder(database, root, run)


def tail(store: Store, root: str, run: str, name: str) -> Tail:
    """Return what gives the new lines of a file of a run, each time."""
    if (database := _database(store)) is None:
        return Tail(root, run, name)
    from orchestrator.runs.files.postgres.folder import SharedTail

    return SharedTail(database, root, run, name)


def hold(store: Store, root: str, name: str, lease: float = LEASE) -> Lease:
    """Return the lease of a new supervisor. `root` is the folder of its runs."""
    if (database := _database(store)) is None:
        return files.Lease(root, name, lease)
    from orchestrator.runs.files.postgres.lease import SharedLease

    return SharedLease(database, name, lease)


def lives(store: Store, name: str) -> bool:
    """Return whether the supervisor of this name is alive, for callers that hold no lease."""
    if (database := _database(store)) is None:
        return files.lives(store.root or "", name)
    from orchestrator.runs.files.postgres import lease

    return lease.lives(database, name)


def holders(store: Store) -> list[str]:
    """Return the names of supervisors, some of which may be dead."""
    if (database := _database(store)) is None:
        folder = os.path.join(store.root or "", "runs", ".holders")
        return os.listdir(folder) if os.path.isdir(folder) else []
    from orchestrator.runs.files.postgres.lease import tables_of

    return [name for (name,) in tables_of(database).ask("holders")]


def elsewhere(store: Store, root: str, fields: Mapping[str, Any]) -> str:
    """Return where the steps of a run are, for which it has to wait: it came with the history of
    another workspace, where it may be alive, or works in a folder of another machine. Nothing where
    it can go on here.
    """
    own = folder(store, root, str(fields["run"]))
    if os.path.isdir(own.path):
        return ""
    if "origin" in fields:
        return "" if own.has(STEPS) else "the workspace that it began in"
    works_there = "folder" in fields and _database(store) is not None
    return "the machine that it began on" if works_there else ""


def _database(store: Store) -> Database | None:
    return store.log.database
