"""The last signed checkpoint of a workspace, as the person's own folder has it: how many records
were signed, and the chain of the last. Light, for `Call` asks it with every command; `checkpoints`
writes what is read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from synapse.log.chain import chain_of, seq_of
from synapse.log.files import FilesLog
from synapse.system import home
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.store import Store

_WHOLE = b"}\n"  # how a line ends that is not torn


class Signed(NamedTuple):
    """A record that was signed: its place and its chain."""

    size: int
    chain: str


def folder_of(root: str) -> str:
    """Return the folder of a workspace's checkpoints, within the person's own."""
    return f"checkpoints/{sha256(os.fsencode(os.path.realpath(root)))[:32]}"


def last_signed(root: str) -> Signed | None:
    """Return the last checkpoint that is kept of the workspace at this place."""
    raw = home.read(f"{folder_of(root)}/head") or b""
    size, _, chain = raw.decode("ascii", "replace").strip().partition(" ")
    return Signed(int(size), chain) if size.isdecimal() and len(chain) == 64 else None


def chained(log: FilesLog, after: int, last: int) -> Iterator[Signed]:
    """Yield place and chain of the records behind a place, up to another."""
    for raw in log.journal.raw_since(after):
        seq = seq_of(raw)
        if seq > last:
            return
        if seq > after and raw.endswith(_WHOLE):
            yield Signed(seq, chain_of(raw))


def missed(store: Store) -> Signed | None:
    """Return the last checkpoint where the journal does not hold the record that was signed: it
    ends before it, or has another one in its place.
    """
    log = store.log
    if not isinstance(log, FilesLog) or log.forked:
        return None
    signed = last_signed(log.root)
    if signed is None or next(chained(log, signed.size - 1, signed.size), None) == signed:
        return None
    return signed
