"""Finishing: the tree of files follows the journal, up to a mark, by one process at a time.

The mark (`.index/placed`) says up to which record every file is known to stand. Who finishes goes
on from there; nothing that follows a record is lost while the journal has it. `Tree` calls this.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable

from synapse.errors import StoreError
from synapse.log import settle
from synapse.log.files import FilesLog
from synapse.log.mirror import is_page
from synapse.log.progress import ANEW, PLACED, Progress
from synapse.log.settle import Find
from synapse.model import clock
from synapse.model.entry import SECOND
from synapse.model.records import Record
from synapse.system.lock import hold

GRACE = 2 * SECOND  # so old is a record whose writer, if its file is not there, is dead
UNSYNCED = 120 * SECOND
_FURTHEST = 200_000  # records that are compared after the machine went down


class Finisher:
    """Follows the records that nobody has checked yet."""

    def __init__(
        self,
        log: FilesLog,
        find: Find,
        place: Callable[[str], str],
        close_holes: Callable[[], bool] = lambda: True,
    ) -> None:
        self.log = log
        self.close_holes = close_holes  # those that a power cut left; whether that is done
        self.find = find  # the records that hold these ids
        self.place = place  # where an entry is now

    def run(self, limit: int | None = None) -> int:
        """Follow again every record behind the mark; return how many files were looked at.

        Writers place their files after the commit, unsynced. So a killed writer leaves a gap,
        closed when its record is two seconds old; and after the machine itself went down the last
        two minutes are checked again, the lines of the journal first.
        """
        lock = self._alone()
        if lock is None:
            return 0
        try:
            progress = Progress.read(self.log.root)
            if progress.boot != self.log.boot():
                if not self.close_holes():
                    return 0
                progress = Progress.read(self.log.root)
            sweep = Sweep(self, progress, limit)
            for record in self.pending(progress):
                if not sweep.take(record):
                    break
            return sweep.end()
        finally:
            os.close(lock)

    def pending(self, progress: Progress) -> Iterable[Record]:
        """Return the records behind the mark; after the machine went down, some before it too."""
        floor = progress.seq
        if progress.boot not in (self.log.boot(), ANEW):
            floor = max(0, progress.seq - _FURTHEST)
        return self.log.since(floor, texts=False)

    def _alone(self) -> int | None:
        """Return an open lock, or None where another process is at it or this one may not write."""
        try:
            return hold(os.path.join(self.log.root, PLACED + ".lock"))
        except OSError:
            return None


class Sweep:
    """One pass behind the mark."""

    def __init__(self, finisher: Finisher, progress: Progress, limit: int | None) -> None:
        self.log, self.find, self.place = finisher.log, finisher.find, finisher.place
        self.start = self.progress = progress
        self.now, boot_id = self.log.journal.clock(), self.log.boot()
        self.rebooted = progress.boot != boot_id
        self.reached = boot_id
        self.limit = None if self.rebooted else limit
        self.checked = 0
        self.grown: set[str] = set()  # archive pages that were added to

    def take(self, record: Record) -> bool:
        """Follow a record. False where it is too young, or enough was done, or the disk fails, or
        the index has no room to say where its file belongs.
        """
        young = self.now - GRACE < record.at <= self.now + clock.AHEAD and not self.rebooted
        if young or (self.limit is not None and self.checked >= self.limit):
            return False
        if record.seq > self.start.seq or (self.rebooted and record.at >= self._since()):
            ids = settle.moved(record)
            if ids and not settle.stands(self.log.mirror, record, self.rebooted):
                try:
                    self._settle(ids)
                except (OSError, StoreError, sqlite3.Error):
                    self.reached = self.start.boot  # the next pass begins as this one did
                    return False
            self.checked += len(ids) or 1
        at = min(record.at, self.now)
        self.progress = self.progress._replace(seq=record.seq, at=at)
        return True

    def end(self) -> int:
        """Note how far the tree has come; return how many files were looked at."""
        if self.rebooted:
            self._mend()
        if self.checked or self.rebooted:
            self.progress._replace(boot=self.reached).note(self.log.root)
        return self.checked

    def _since(self) -> int:
        return self.start.at - UNSYNCED

    def _settle(self, ids: Collection[str]) -> None:
        mirror = self.log.mirror
        self.grown |= settle.settle(mirror, ids, self.find, self.place, self.rebooted)

    def _mend(self) -> None:
        """Write archive pages anew of which the machine left a part when it went down."""
        from synapse.log.proof import Proof, mend

        mirror = self.log.mirror
        try:
            pages = {page for page in self.grown if not is_page(mirror.read(page, 1 << 40) or b"")}
            if pages:
                proof = Proof(self.log.root, self.log.journal, mirror)
                proof.run()
                proof.wrong &= pages
                mend(proof)
        except (OSError, StoreError):
            pass  # `verify` names what could not be mended
