"""Records that were passed over because their lines are damaged, as the index keeps them: until
they are put back, or given up by a `repair` record. `Index` alone calls this.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.index.database import Database
from synapse.model.records import Record

_KEY = "damaged"


def damaged(db: Database) -> list[int]:
    """Return the numbers of the records that are damaged, in order."""
    return list(map(int, (db.meta(_KEY) or "").split()))


def note_losses(db: Database, seqs: Iterable[int], records: Iterable[Record]) -> None:
    """Note records that were passed over, and forget those that these records give up."""
    old = db.meta(_KEY) or ""
    lost = {*map(int, old.split()), *seqs}
    for record in records:
        if record.kind == "repair":
            for first, last, _ in record.fields.get("lines", ()):
                lost -= {*range(first, last + 1)}
    new = " ".join(map(str, sorted(lost)))
    if new != old:
        db.set_meta(_KEY, new)


def format_losses(seqs: list[int]) -> str:
    """Return what to say of them."""
    first, last = seqs[0], seqs[-1]
    which = f"record {first}" if first == last else f"records {first} to {last}"
    which = which if len(seqs) == last - first + 1 else f"{len(seqs)} records ({which})"
    return (
        f"the journal is damaged: {which} cannot be read, all others can;"
        f" `synapse repair --dry-run` says what can be put back"
    )
