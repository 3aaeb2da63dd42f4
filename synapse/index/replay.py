"""What an index would answer of some records only: a snapshot in memory, for views of an earlier
moment and for proofs.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.errors import IndexDamaged, StoreError
from synapse.index.derive.corrections import corrected, steps_of
from synapse.index.derive.projector import Projector, voids_of
from synapse.index.index import Index
from synapse.index.readable import READERS_WAIT
from synapse.index.snapshot import Snapshot
from synapse.model.records import Record
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.vectors.vectors import Vectors
    from synapse.model.protocols import Log


def snapshot_of(log: Log, records: Iterable[Record], *, words: bool = False) -> Snapshot:
    """Return a snapshot of some records only: what could be known when the last was written."""
    index, records = Index(log, ":memory:"), list(records)
    index.db.many("put_void", voids_of(records))
    last = Projector(index.db).take(corrected(records, steps_of(records)))
    index.db.set_meta("seq", str(last.seq if last else 0))
    index.refresh(None)
    if words:
        index.fill_words()
    return index.current


def open_index(log: Log, path: str) -> Index:
    """Return the index at a path; where its file is held, or there is no room to make it, one in
    memory.
    """
    try:
        return Index(log, path, wait=READERS_WAIT)
    except IndexDamaged:
        raise
    except StoreError as error:
        index = Index.in_memory(log, path)
        index.stands_in_for = path
        index.notes.append(f"{error}; answered from the journal, in memory")
        return index


def open_vectors(path: str, copied: str | None = None) -> Vectors:
    """Open the vectors at a path; in memory where those of another path are to be copied."""
    from synapse.index.copy import in_memory
    from synapse.index.vectors.vectors import KIND, Vectors

    return Vectors(path) if copied is None else Vectors(":memory:", in_memory(copied, KIND))
