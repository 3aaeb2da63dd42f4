"""The logs, and the one place that chooses among them by the address it is given."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from synapse.errors import NotFound, StoreError, SynapseError
from synapse.log.files import FilesLog
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.log.memory import MemoryLog
    from synapse.log.postgres.address import Address

_PLACES = ("entries", "agents", "journal")


def is_database(address: str) -> bool:
    """Return whether an address is that of a database."""
    return address.startswith(("postgresql://", "postgres://"))


def _refuse_snapshot(root: str, snapshot: str) -> None:
    """Raise NotFound where this directory, which is `root` or holds it, is a snapshot: it says how
    that is restored.
    """
    if all(os.path.isfile(os.path.join(snapshot, name)) for name in ("manifest.json", "log.jsonl")):
        raise NotFound(
            f"{root} is of a snapshot, which is no workspace: `synapse init NEW` and"
            f" `synapse --root NEW import {snapshot}` restore it",
            id=root,
        )


def open_log(
    address: str, clock: Callable[[], int], readonly: bool = False, database: Address | None = None
) -> FilesLog | MemoryLog:
    """Return the log behind an address: a directory, or `memory:`. Opens what is there and creates
    nothing. A directory is a copy of a `database`, where that is named, or synapse.yaml names one.
    """
    if address == "memory:":
        from synapse.log.memory import MemoryLog

        return MemoryLog(clock)
    if "://" in address:
        raise StoreError(
            f"{address!r} is neither a directory nor memory: nor a database", address=address
        )
    root = os.path.expanduser(address)
    if not _is_directory(root):
        raise NotFound(f"there is no workspace at {root}; {_advice(root)}", id=root)
    if not any(os.path.exists(os.path.join(root, name)) for name in ("synapse.yaml", *_PLACES)):
        _refuse_snapshot(root, root)
        raise NotFound(f"{root} is a directory, but no workspace; {_advice(root)}", id=root)
    if os.path.basename(root) == "files":
        _refuse_snapshot(root, os.path.dirname(os.path.abspath(root)))
    try:
        return FilesLog(root, clock, readonly, database)
    except SynapseError:
        raise
    except OSError as error:
        raise StoreError(f"{root} could not be opened: {error}") from error


def _advice(root: str) -> str:
    from synapse.system.discovery import advice

    return advice(root)


def _is_directory(root: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(root).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"{root} could not be opened: {error}") from error
