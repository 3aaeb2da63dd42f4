"""The tree of files of one workspace, kept in step with its log: what others dropped there is
adopted, and the files of committed records are put there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from synapse.errors import StoreError
from synapse.log import git, settle
from synapse.log.adopt import Admit, Drop, Rejected
from synapse.log.commit import Commit
from synapse.log.files import FilesLog
from synapse.log.progress import Progress
from synapse.log.upkeep.finish import Finisher
from synapse.log.upkeep.holes import close_holes
from synapse.log.upkeep.intake import Intake
from synapse.model.records import Record
from synapse.system import signal
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index


FAR = 1_000  # records behind the mark


class Tree:
    """The files of one log. It reads the journal and asks the index; neither knows it."""

    def __init__(self, log: FilesLog, commit: Commit, index: Index) -> None:
        self.log = log
        self.commit = commit
        self.index = index
        self.finisher = Finisher(
            log, commit.find, self._whereabouts, partial(close_holes, log, commit, index)
        )
        self.last = 0  # the last record of this process
        self.foreign: dict[str, str] = {}  # dropped files that wait to be accepted: their digests
        commit.subscribe(self._follow)

    def look(self, admit: Admit, *, whole: bool = False) -> None:
        """Adopt what was dropped since the last look, oldest first. Of thousands of quiet threads a
        part, unless the whole tree is to be looked at.
        """
        self.index.catch_up()
        if not self.log.accepted.known:
            return  # nobody of here dropped anything
        now = time.time()
        try:
            items = list(self.log.scanner.look(self._known, now, whole=whole))
        except OSError:
            return  # a folder vanished or cannot be listed: the next look sees it
        if self.log.forked:
            return  # a file of the other side is no drop
        intake = Intake(self.commit, self.log.mirror, self.index, admit)
        intake.waiting = self._foreign(items)
        intake.take(item for item in items if item.path not in intake.waiting)
        self.log.scanner.done(intake.waiting, now)

    def finish(self, limit: int | None = None) -> int:
        """Redo what writers that died left undone: the files of committed lines; how many records
        were checked.
        """
        if self.log.forked:
            return 0
        try:
            self.log.journal.finish(self.commit)
        except (OSError, StoreError):
            pass  # whoever writes next does it, or cannot write either
        return self.finisher.run(limit)

    def place_missing(self) -> None:
        """Put the files there that writers who died left to others, and make the tree follow a
        journal that is another one than before. What was damaged stays as it is, and the journal
        too, unless the machine went down: whoever asks for a proof writes nothing into it.
        """
        if not self.log.forked:
            self.finisher.run()

    def close(self) -> None:
        """Leave the mark not far behind, if this process wrote: else whoever opens next would look
        at all that came since.
        """
        if self.last > Progress.read(self.log.root).seq + FAR:
            self.finisher.run(2 * FAR)

    def _foreign(self, items: Sequence[Drop | Rejected]) -> list[str]:
        """Return the files that nobody dropped here: git brought them, and nobody accepted them."""
        accepted = self.log.accepted
        texts = {item.path: item.text.encode() for item in items if isinstance(item, Drop)}
        digests = {path: sha256(raw) for path, raw in texts.items()}
        foreign = {path for path in texts if self.foreign.get(path) == digests[path]}
        new = {path: raw for path, raw in texts.items() if path not in foreign}
        foreign |= git.brought(self.log.root, new)
        waiting = (path for path in sorted(foreign) if not accepted.holds_file(path, texts[path]))
        self.foreign = {path: digests[path] for path in waiting}
        return [*self.foreign]

    def _follow(self, records: Sequence[Record]) -> None:
        """Notify followers of committed records, which they read in the journal; then write the
        files for people.
        """
        self.last = records[-1].seq
        signal.notify(self.log.pipes_folder)
        settle.follow(self.log.mirror, records, self.commit.find)

    def _whereabouts(self, id: str) -> str:
        self.index.catch_up()
        return self.index.whereabouts(id)

    def _known(self, folder: str) -> set[str]:
        self.index.catch_up()
        return self.index.names(folder)
