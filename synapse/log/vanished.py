"""Whether the journal may end before what was indexed: git went back, the machine went down, or
records were lost. Called by the index; nothing here is on the way of a plain read.
"""

from __future__ import annotations

import time

from synapse.errors import StoreCorrupt
from synapse.log import git
from synapse.log.journal import Journal
from synapse.log.progress import boot
from synapse.model.entry import SECOND
from synapse.model.records import Lost

# what was received so short before the machine went down may never have been acknowledged
_UNSYNCED = 10 * SECOND
_LOOKS = 4  # at a journal that git may be about to replace


def explain(root: str, journal: Journal, lost: Lost) -> str:
    """Return why the journal may end before what was indexed; StoreCorrupt says what to do where it
    may not.
    """
    for look in range(_LOOKS if git.is_work_tree(root) else 0):
        if look:
            # a checkout writes the files first, and says then what is checked out
            time.sleep(0.05)
        if git.is_committed(root):
            return "it is the one of the commit that is checked out"
    if (
        lost.boot not in ("-", boot())
        and lost.first_at
        and lost.last_at - lost.first_at < _UNSYNCED
    ):
        return (
            f"the machine went down before its last {_records(lost.seen - lost.end)} were"
            f" on the disk"
        )
    raise StoreCorrupt(_message(root, lost), seen=lost.seen, end=lost.end, path=journal.directory)


def _message(root: str, lost: Lost) -> str:
    records = _records(lost.seen - lost.end)
    ending = f"ends at record {lost.end}" if lost.end else "is gone or empty"
    return (
        f"the journal {ending}, but {lost.seen} were seen: {records} lost. Bring journal/"
        f" back (from a backup, or with `git -C {root} checkout -- journal`), or accept"
        f" what is there with `synapse rebuild`"
    )


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
