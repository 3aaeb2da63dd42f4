"""The runs of a workspace beside its log: who is at work on them. They are files of its folder, or
in the database where that holds the log. Called by whoever has a store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.runs.files import lease as files

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
    another workspace, where it may be alive, or began on another machine. Nothing where they are
    here.
    """
    if os.path.isdir(os.path.join(root, "runs", str(fields["run"]))):
        return ""
    if "origin" in fields:
        return "the workspace that it began in"
    return "" if _database(store) is None else "the machine that it began on"


def _database(store: Store) -> Database | None:
    return store.log.database
