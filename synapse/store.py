"""A log with its index, kept in step: what all agent memories share. Knows no agent's wishes.

`refresh` takes in what people edited or dropped, `snapshot` asks; everything else of a workspace is
an object of its own, which whoever needs it asks by itself.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from collections.abc import Callable

from synapse.embeddings import Embeddings
from synapse.errors import NewerProtocol, NotFound, StoreCorrupt, StoreError
from synapse.index.derive.progress import format_foreign
from synapse.index.index import Index
from synapse.index.questions.allowance import Allowances
from synapse.index.readable import READERS_WAIT
from synapse.index.reading import Reading
from synapse.index.replay import open_index
from synapse.log.adopt import Channel
from synapse.log.commit import Commit
from synapse.log.files import FilesLog
from synapse.log.upkeep.tree import Tree
from synapse.model.agents import Agent
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.entry import NEVER, Draft, Entry
from synapse.model.records import Record, sum_below
from synapse.model.settings import Settings
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.agents import Agents
from synapse.trust.operator_files import OperatorFiles

if TYPE_CHECKING:
    from synapse.log.memory import MemoryLog
    from synapse.trust.keyring import Keyring

LOOK_EVERY = 0.2
LOOK_AT_LEAST_EVERY = 1.0
FINISHED_IN_A_LOOK = 400


class Store:
    """One open workspace. Threads may share it.

    `commit` writes to the `log`, `snapshot` asks the `index`, `tree` is the files of entries,
    `operator_files` are those of agents and settings, and `agents` is what they declare.
    """

    def __init__(
        self,
        log: FilesLog | MemoryLog,
        clock: Callable[[], int],
        draw: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.log = log
        self.clock = clock
        self.draw = draw  # so many random bytes, for ids
        self.root = log.root if isinstance(log, FilesLog) else None
        self.readonly = isinstance(log, FilesLog) and log.readonly
        path = f"{self.root}/.index/brain.db" if self.root else ":memory:"
        if isinstance(log, FilesLog) and (log.readonly or not log.accepted.placed):
            # where the folder is not this workspace's own, what lies there is not believed
            self.index = Index.in_memory(log, path if log.accepted.placed else "")
        else:
            self.index = Index(log, path) if self.root is None else open_index(log, path)
        self.commit = Commit(log, self.index, lambda: self.settings)
        self.tree = Tree(log, self.commit, self.index) if isinstance(log, FilesLog) else None
        # finishes what killed processes began here; returns what is left
        self.finish_begun: Callable[[], list[str]] = list
        self.operator_files = OperatorFiles(log, self.commit, self.index)
        self.agents = Agents(self.index, self.operator_files, self._notice, self.refresh)
        self.allowances = Allowances(
            lambda: self.settings, clock, self.snapshot, self.commit.append
        )
        self.embeddings = Embeddings(
            self.index.db.path, self.root, self.readonly, lambda: self.settings
        )
        # what reads and searches showed each run since it last wrote
        self.sights: dict[str, dict[str, None]] = {}
        self.held: dict[str, int] = {}  # files that are locked while this is open
        # how often items were asked for, and since when that is not in the log
        self.used: dict[str, int] = {}
        self.used_since = clock()
        self._keyring: Keyring | None = None
        self._mutex = allocate_lock()
        self._looked = self._noticed = -LOOK_EVERY
        self._pause = LOOK_EVERY

    @property
    def foreign(self) -> bool:
        """Say whether nothing of the workspace counted when this was opened."""
        return isinstance(self.log, FilesLog) and self.log.was_foreign

    @property
    def outdated(self) -> bool:
        """Say whether a person accepted the workspace since: whoever goes on opens it anew."""
        return isinstance(self.log, FilesLog) and self.foreign and self.log.accepted.known

    # -- keeping in step ---------------------------------------------------------------------------

    def refresh(self, *, whole: bool = False) -> None:
        """Take in what people dropped or edited beside the journal, and then what the journal has
        more: for whoever is to see the files as they are.

        It looks at the files five times a second at most, by one thread at a time, and less often
        where a look takes long; `whole` looks now, at every folder. Inside of a snapshot it does
        nothing: that one stays as of its moment.
        """
        if self.index.held:
            return
        start = time.monotonic()
        if whole or start - self._looked >= self._pause:
            if self.readonly:
                self.operator_files.reread()
                self._looked = start
            elif self._alone(lambda tree: self._look(tree, whole), whole):
                self._looked = self._noticed = time.monotonic()
                self._pause = min(max(LOOK_EVERY, 5 * (self._looked - start)), LOOK_AT_LEAST_EVERY)
        if whole:
            self.index.take_in()
        else:
            self.index.to_read(words=False)

    def snapshot(self, *, words: bool = False, late: bool = False) -> Reading:
        """Return what a `with` statement opens to ask questions: the only way to the index.

        It takes in what the journal has more, once, and then answers as of that moment; inside of
        another snapshot of the same thread it is that one. With `words`, full text is complete; a
        `late` one takes nothing in, for hot paths that an older answer serves as well. Nothing is
        written inside.
        """
        return Reading(self.index, words=words, late=late)

    def _notice(self) -> None:
        """Take in the files of the operator alone, by which every agent acts."""
        overdue = time.monotonic() - self._noticed >= LOOK_EVERY and not self.index.held
        if overdue and self._alone(lambda tree: self._take_in_declared()):
            self._noticed = time.monotonic()

    def _alone(self, section: Callable[[Tree], object], whole: bool = False) -> bool:
        """Run it unless another thread is at it. A look that cannot write leaves things as they
        are, and one that is not whole waits for nobody longer than a reader does.
        """
        if self.tree is None or self.readonly or not self._mutex.acquire(blocking=False):
            return False
        tree = self.tree
        try:
            if whole:
                section(tree)
            else:
                with tree.log.journal.lock.waits_at_most(READERS_WAIT):
                    self.index.within(READERS_WAIT, lambda: section(tree))
        except NewerProtocol:
            raise
        except StoreCorrupt:
            if whole:
                raise  # a reader is told by what it reads
        except (OSError, StoreError):
            # the disk is full, or this process may only read: what the caller wants may still be
            # possible
            pass
        finally:
            self._mutex.release()
        return True

    def _take_in_declared(self) -> bool:
        """Take in the operator's files, unless a restore was begun that puts them there."""
        if "restore.json" in self.finish_begun():
            return False
        self.operator_files.notice()
        return True

    def _look(self, tree: Tree, whole: bool) -> None:
        self.index.catch_up()
        if not self._take_in_declared():
            return
        if tree.log.lags:
            self.operator_files.write_missing()
        tree.finish(None if self._looked < 0 else FINISHED_IN_A_LOOK)
        tree.look(self._admit_drop, whole=whole)

    def _admit_drop(self, draft: Draft, channel: Channel) -> Entry:
        """Admit a dropped file. Who it is from is decided by how it came, never by what it says."""
        from synapse.trust.drops import Drops

        self.index.catch_up()  # a process that just began has yet to hear who is declared
        room = sum_below("staging", self.settings.staging_limit)
        standing, limited = self.agents.standing, self.allowances.admit
        drops = Drops(self.index, self.settings, room, self.clock, standing, limited)
        return drops.admit(draft, channel)

    def rebuild(self) -> tuple[int, bool]:
        """Derive the index anew, and compare every file with what the log says of it on the way:
        how many records there are, and whether every file is as it was written.
        """
        if not isinstance(self.log, FilesLog):
            return self.index.rebuild(), True
        from synapse.log.proof import Proof

        proof = Proof(self.log.root, self.log.journal, self.log.mirror)
        return self.index.rebuild(proof.watch), proof.stands()

    # -- asking ------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """Return the settings as they were last noticed."""
        return self.operator_files.settings

    @property
    def foreign_notice(self) -> str:
        """Return the sentence that says how many records were written elsewhere and wait; empty
        where none does.
        """
        with self.snapshot() as snap:
            count = snap.foreign_count()
        return format_foreign(count) if count else ""

    @property
    def keyring(self) -> Keyring:
        """Return this person's keys for the workspace, loaded when one is first needed."""
        if self._keyring is None:
            from synapse.trust.keyring import Keyring

            self._keyring = Keyring(self.root, lambda: self.agents.keys, self._acts_on)
        return self._keyring

    def entry(self, id: str, agent: Agent | None = None) -> Entry:
        """Return the entry under an id, as of now, whoever may see it; NotFound where there is
        none. Of its disputes, those that the agent may see.
        """
        with self.snapshot() as snap:
            entry = snap.entry(id, self.clock(), agent)
        if entry is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return entry

    def acts(
        self, by: str | None, entry: str | None, since: When, limit: int | None, before: int = NEVER
    ) -> list[Record]:
        """Return who did what before a place in the log, newest first; whoever may see it."""
        self.refresh()
        with self.snapshot() as snap:
            return snap.acts(by, entry, parse_since(since, self.clock()) or 0, limit, before)

    def _acts_on(self, id: str) -> list[Record]:
        with self.snapshot() as snap:
            return snap.acts(None, id, 0, None)

    def close(self) -> None:
        self.embeddings.close()
        while self.held:
            os.close(self.held.popitem()[1])
        if self.tree is not None and not self.readonly:
            self.tree.close()
        self.index.close()
        self.log.close()
