"""Holes in the journal: of several lines that no sync had covered, a power cut may take one and
leave a later one whole. Whoever opens the workspace next closes them.

Nobody was told of such a line, nor of one behind it: a sync covers all that was written before.
"""

from __future__ import annotations

from synapse.errors import StoreError
from synapse.log.chain import decode_head
from synapse.log.damage import Stretch
from synapse.log.upkeep.finish import UNSYNCED
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index
    from synapse.log.commit import Commit
    from synapse.log.files import FilesLog


def close_holes(log: FilesLog, commit: Commit, index: Index) -> bool:
    """Record as lost what stood in the holes that the machine left when it went down; lines that
    are whole stay. Return whether that is done: the journal may be held, or the disk full.
    """
    try:
        if not log.journal.last_stretches():
            return True
        log.journal.finish(commit)  # a torn end hides that the line before it is whole
        if holes := _holes(log):
            index.restored(holes[0].seqs.start - 1)
            commit.act("repair", "log", lines=[hole.given_up for hole in holes])
            count = sum(len(hole.seqs) for hole in holes)
            which = "1 record" if count == 1 else f"{count} records"
            index.hear(
                f"the machine went down before {which} of several that were being written"
                " came to the disk: the others are kept"
            )
    except (OSError, StoreError):
        return False
    return True


def _holes(log: FilesLog) -> list[Stretch]:
    """Return the stretches that are no damage of a disk: there are bytes in them that were never
    written, and the line behind each was received shortly before the last one.
    """
    last = log.journal.at(log.last())
    since = (last.at if last else 0) - UNSYNCED
    given_up = [
        lines
        for record in log.since()
        if record.kind == "repair"
        for lines in record.fields.get("lines", ())
    ]
    return [
        stretch
        for stretch in log.journal.last_stretches()
        if b"\0" in stretch.raw
        and stretch.given_up not in given_up
        and (following := decode_head(stretch.following)) is not None
        and following.at >= since
    ]
