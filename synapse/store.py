"""A log with its index, kept in step: what all agent memories share. Knows no agent's
wishes.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from synapse.errors import Conflict, NewerProtocol, NotFound, StoreCorrupt, StoreError
from synapse.index.index import UNKNOWN, Index
from synapse.index.questions.allowance import Allowances
from synapse.index.reading import Reading
from synapse.log.adopt import Channel
from synapse.log.commit import Commit
from synapse.log.files import FilesLog
from synapse.log.upkeep.tree import Tree
from synapse.model.agents import Agent
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.entry import NEVER, Draft, Entry, parse_ttl
from synapse.model.records import Guard, Record, act_of, all_of, sum_below
from synapse.model.settings import Semantic, Settings
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.lineage import Sights
from synapse.trust.operator_files import OperatorFiles, Signatures

if TYPE_CHECKING:
    from synapse.index.vectors.vectors import Vectors
    from synapse.log.memory import MemoryLog
    from synapse.model.keys import Keys
    from synapse.model.protocols import Embedder
    from synapse.system.tokens import Tokens
    from synapse.trust.keyring import Keyring

LOOK_EVERY = 0.2
LOOK_AT_LEAST_EVERY = 1.0
FINISHED_IN_A_LOOK = 400


class Store:
    """One open workspace. Threads may share it."""

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
        if self.readonly:
            from synapse.index.replay import index_in_memory

            self.index = index_in_memory(log, path)
        else:
            self.index = Index(log, path)
        self.commit = Commit(log, self.index)
        self.tree = Tree(log, self.commit, self.index) if isinstance(log, FilesLog) else None
        self.afterwards = self.index.afterwards  # runs what writes, behind a snapshot
        self.held: dict[str, int] = {}  # files that are locked while this is open
        self.mutex = allocate_lock()
        # finishes what killed processes began here; returns what is left
        self.finish_begun: Callable[[], list[str]] = list
        self.looked = self.glanced = -LOOK_EVERY
        self.pause = LOOK_EVERY
        self.operator_files = OperatorFiles(log, self.commit, self.index)
        # how often items were asked for, and since when that is not in the log
        self.used: dict[str, int] = {}
        self.used_since = clock()
        self._keyring: Keyring | None = None
        self.sights = Sights()
        self._embedder: tuple[Semantic, Embedder] | None = None
        self._vectors: Vectors | None = None
        self.allowances = Allowances()
        self.shifts: tuple[object, Mapping[str, int]] = (None, {})

    # -- keeping in step ---------------------------------------------------------------------------

    def snapshot(self, *, look: bool = False, words: bool = False, late: bool = False) -> Reading:
        """Return what a `with` statement opens to ask questions: the only way to the index.

        It takes in what the log has more, once, and then answers as of that moment; inside of
        another snapshot of the same thread it is that one. With `look`, what people dropped or
        edited is taken in first; with `words`, full text is complete; a `late` one takes
        nothing in, for hot paths that an older answer serves as well. Nothing is written inside.
        """
        if look:
            self.look()
        return Reading(self.index, words, late)

    def refresh(self, *, look: bool = False, force: bool = False) -> None:
        """Take in what the log has more, for whoever wants that done before anybody asks."""
        if look or force:
            self.look(force=force)
        self.index.catch_up()

    def look(self, *, force: bool = False) -> None:
        """Look for changes beside the journal, five times a second at most, by one thread at a
        time. Where a look takes long, because much is being written, the next comes later.
        """
        start = time.monotonic()
        overdue = (force or start - self.looked >= self.pause) and not self.index.held
        if overdue and self.readonly:
            self.operator_files.reread()
            self.looked = start
        elif overdue and self._alone(lambda tree: self._look(tree, whole=force)):
            self.looked = self.glanced = time.monotonic()
            self.pause = min(max(LOOK_EVERY, 5 * (self.looked - start)), LOOK_AT_LEAST_EVERY)

    def glance(self) -> None:
        """Notice what every agent acts by: the operator's files."""
        overdue = time.monotonic() - self.glanced >= LOOK_EVERY and not self.index.held
        if overdue and self._alone(lambda tree: self._notice()):
            self.glanced = time.monotonic()

    def _alone(self, section: Callable[[Tree], object]) -> bool:
        """Run it unless another thread is at it. A look that cannot write leaves things as they
        are.
        """
        if self.tree is None or self.readonly or not self.mutex.acquire(blocking=False):
            return False
        try:
            section(self.tree)
        except (StoreCorrupt, NewerProtocol):
            raise
        except (OSError, StoreError):
            # the disk is full, or this process may only read: what the caller wants may still be
            # possible
            pass
        finally:
            self.mutex.release()
        return True

    def _notice(self) -> bool:
        """Take in the operator's files, unless a restore was begun that puts them there."""
        if "restore.json" in self.finish_begun():
            return False
        self.operator_files.notice()
        return True

    def _look(self, tree: Tree, *, whole: bool) -> None:
        self.index.catch_up()
        if not self._notice():
            return
        if tree.lags:
            self.operator_files.write_missing()
        tree.finish(None if self.looked < 0 else FINISHED_IN_A_LOOK)
        tree.look(self.admit_drop, whole=whole)

    def catch_up_tree(self) -> None:
        """Make the tree follow the journal, for a proof: where a writer died, or an import."""
        if self.readonly or self.tree is None:
            return
        if self.tree.lags:
            self.operator_files.write_missing()
        self.tree.catch_up()

    def restored(self, floor: int) -> None:
        """Derive everything anew: the journal has lines again, after this record, that it lacked,
        or has given some up.
        """
        self.index.restored(floor)
        self.refresh()

    def sign(self, *paths: str) -> None:
        """Note these files of the operator's as they are: they were just written through this
        store.
        """
        self.operator_files.sign(*paths)

    def unnoticed(self, path: str) -> bool:
        """Return whether a file of the operator's is not, byte for byte, the one that was last
        read. A copy is.
        """
        return self.operator_files.unnoticed(path)

    def rebuild(self) -> tuple[int, bool]:
        """Derive the index anew, and compare every file with what the log says of it on the way:
        how many records there are, and whether every file is as it was written.
        """
        if not isinstance(self.log, FilesLog):
            return self.index.rebuild(), True
        from synapse.log.proof import Proof

        proof = Proof(self.log.root, self.log.journal, self.log.mirror)
        return self.index.rebuild(proof.watch), proof.stands()

    def digest(self) -> str:
        """Return a hash of all that was derived from the log."""
        self.index.catch_up()
        return self.index.digest()

    def check(self) -> str:
        """Return what SQLite says of the index: `ok`, or what is wrong."""
        self.index.catch_up()
        return self.index.check()

    def hear(self, say: Callable[[str], object]) -> None:
        """Set the function that is called with each message of the index for people."""
        self.index.say = say

    def say(self, text: str) -> None:
        """Show people a message, by the function that `hear` set."""
        self.index.say(text)

    def purge(self) -> None:
        """Derive the index anew, and leave no byte of what was in its files."""
        self.index.purge()

    def fold(self, least: int) -> None:
        """Fold the index's log of changes back into its file, if so many batches were taken in."""
        self.index.fold(least)

    def let_go(self) -> None:
        """Close this thread's connection to the index: it has nothing more to ask."""
        self.index.db.let_go()

    def turn(self) -> int:
        """Return how often the log turned out to be another one than before, as far as that was
        noticed.
        """
        self.index.catch_up()
        return self.index.turns()

    def fork(self, turn: int) -> int | None:
        """Return the last record that all logs since this turn have in common; None where that is
        not known.
        """
        return self.index.fork(turn)

    def highest_seen(self) -> int:
        """Return the highest seq ever taken in, be it in the log still or not."""
        return self.index.seen()

    def demand_writable(self) -> None:
        """Raise ReadOnly where this process may only read."""
        if self.readonly and isinstance(self.log, FilesLog):
            self.log.journal.lock.run(lambda: None)

    # -- what is declared --------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.operator_files.declared_settings or self.operator_files.settings

    @property
    def declared_settings(self) -> Settings | None:
        """Return the settings as they were last read; None where their file is to be read again."""
        return self.operator_files.declared_settings

    @declared_settings.setter
    def declared_settings(self, settings: Settings | None) -> None:
        self.operator_files.declare(settings)

    @property
    def signed(self) -> Signatures | None:
        """Return the signatures of the operator's files as last read; None: see the index."""
        return self.operator_files.signed

    @signed.setter
    def signed(self, signatures: Signatures | None) -> None:
        self.operator_files.signed = signatures

    @property
    def complaints(self) -> dict[str, list[str]]:
        """Return what is wrong with which file of the operator's, by the last look."""
        return self.operator_files.complaints

    @property
    def signers(self) -> Keys | None:
        """Return the public keys of the agents; None where no agent ever had one."""
        return self.index.current.names.keys

    def is_tainted(self, id: str, late: bool = False) -> bool:
        """Return whether an entry is kept out of sight; a late answer takes in nothing first."""
        with self.snapshot(late=late) as snap:
            return snap.is_tainted(id)

    def agents(self) -> Mapping[str, Agent]:
        """Return the agents as journalled: an edit counts from the moment it was noticed."""
        with self.snapshot(look=True) as snap:
            return snap.declared

    def agent(self, id: str) -> Agent | None:
        """Return one agent, for its memory. Does not wait for the index: declarations change
        rarely, and a glance sees it.
        """
        self.glance()
        declared = self.index.current.declared.get(id)
        if declared is None or self.index.current.mark == UNKNOWN:
            with self.snapshot() as snap:
                declared = snap.declared.get(id)
        return self.standing(declared) if declared else None

    def unregistered(self, id: str) -> NotFound:
        """Return the error for an agent that there is none of: what is wrong with its file, who may
        have been meant.
        """
        from synapse.system.spelling import closest

        declared = self.index.current.declared
        close = closest(id, declared)
        if texts := self.complaints.get(f"agents/{id}.yaml"):
            return NotFound(
                f"agent {id} is not registered: agents/{id}.yaml: {'; '.join(texts)}", id=id
            )
        if close:
            meant = f"did you mean {close}? `synapse agents` lists those that are"
        else:
            command = f"`synapse register --id {id} --role engineer`"
            meant = f"register it: memory.register(Agent({id!r})), or {command}"
        return NotFound(f"agent {id} is not registered; {meant}", id=id)

    def standing(self, agent: Agent) -> Agent:
        """Return the agent with what its reputation moved, where that counts here."""
        if self.settings.reputation != "on" and not agent.shift:
            return agent
        shift = self.shift(agent.id)
        return agent if shift == agent.shift else agent._replace(shift=shift)

    def shift(self, id: str) -> int:
        """Return by how much reviews moved the authority of an agent."""
        if self.settings.reputation != "on":
            return 0
        snap = self.index.current
        if self.shifts[0] != snap.names.version:
            from synapse.index.questions import outcomes

            self.shifts = snap.names.version, outcomes.shifts(snap)
        return self.shifts[1].get(id, 0)

    @property
    def keyring(self) -> Keyring:
        """Return this person's keys for the workspace, loaded when one is first needed."""
        if self._keyring is None:
            from synapse.trust.keyring import Keyring

            self._keyring = Keyring(self.root, lambda: self.signers, self._acts_on)
        return self._keyring

    @property
    def semantic(self) -> Semantic:
        """Return which embedder is used."""
        from synapse.embedders import in_use

        return in_use(self.settings.semantic)

    @property
    def embedder(self) -> Embedder:
        """Return the embedder that is used now; made once, for a model may take a second to load.
        EmbedderError where a person did not trust the workspace with its address.
        """
        chosen = self.semantic
        if self._embedder is None or self._embedder[0] != chosen:
            from synapse.embedders import embedder_of
            from synapse.trust.decisions import demand_embedder

            trusted = demand_embedder(self.root, chosen)
            if self._embedder is not None:
                self._embedder[1].close()
            self._embedder = (chosen, embedder_of(chosen, trusted))
        return self._embedder[1]

    @property
    def vectors_path(self) -> str:
        """Return where the vectors are, be there any or not."""
        from synapse.index.vectors.vectors import path_beside

        return path_beside(self.index.db.path)

    @property
    def has_vectors(self) -> bool:
        """Return whether anything was ever embedded here."""
        return self._vectors is not None or os.path.exists(self.vectors_path)

    @property
    def vectors(self) -> Vectors:
        """Return the vectors beside the index, opened when they are first asked for."""
        if self._vectors is None:
            from synapse.index.replay import open_vectors

            copied = f"{self.root}/.index/vectors.db" if self.readonly else None
            self._vectors = open_vectors(self.vectors_path, copied)
        return self._vectors

    # -- writing -----------------------------------------------------------------------------------

    def write(
        self, record: Record, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        """Commit a record of the operator or of the system. Agents' records go through `Writer`."""
        return self.commit.append(record, once=once, unless=unless)

    def write_all(
        self, batch: Mapping[str, Record], *, unless: Guard | None = None
    ) -> list[Record]:
        """Commit these records, each under its `once`, with one turn at the lock and one sync."""
        return self.commit.append_all(batch, unless=unless)

    def act(self, kind: str, by: str, guard: Guard | None = None, /, **fields: object) -> Record:
        """Commit an act that is no entry, where the guard holds."""
        record, own = act_of(kind, by, fields)
        return self.commit.append(record, unless=all_of(guard, own))

    def admit_drop(self, draft: Draft, channel: Channel) -> Entry:
        """Admit a dropped file. Who it is from is decided by how it came, never by what it says."""
        from synapse.trust.drops import Drops

        self.index.catch_up()  # a process that just began has yet to hear who is declared
        drops = Drops(
            self.index, self.settings, self.has_room, self.clock, self.standing, self.within_limits
        )
        return drops.admit(draft, channel)

    def tokens(self, encoding: str, *, quick: bool = False, keep: bool = True) -> Tokens:
        """Return what counts tokens in an encoding. New counts are kept with the index, each under
        a digest of its text, unless they are not to be: of what was sealed nothing is.
        """
        from synapse.system.tokens import Tokens

        stored = partial(self.index.token_counts, encoding)
        keeps = partial(self.index.keep_tokens, encoding) if keep else lambda _: None
        return Tokens(encoding, stored, keeps, quick=quick)

    def within_limits(self, entry: Entry) -> Entry:
        """Return an entry as its author's hour lets it in; QueueFull where it lets in no more."""
        return self.allowances.admit(entry, self.settings, self.clock(), self.snapshot, self.write)

    @property
    def has_room(self) -> Guard:
        return sum_below("staging", self.settings.staging_limit)

    def expire_staged(self) -> None:
        """Turn away what waited for review longer than the settings allow."""
        if self.readonly:
            return
        with self.snapshot() as snap:
            waiting = snap.staged()
        now = self.clock()
        for entry in waiting:
            if self.waits_until(entry) <= now:
                why = "nobody reviewed it in time"
                with suppress(Conflict):  # somebody just did
                    self.act("reject", "log", entry=entry.id, reason=why)

    @property
    def pipes(self) -> str | None:
        return self.log.pipes if isinstance(self.log, FilesLog) else None

    # -- reading -----------------------------------------------------------------------------------

    def current(self, id: str, agent: Agent | None = None) -> Entry:
        """Return the entry under an id, as of now, whoever may see it; NotFound where there is
        none. Of its disputes, those that the agent may see.
        """
        with self.snapshot() as snap:
            entry = snap.entry(id, self.clock(), agent)
        if entry is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return entry

    def acts(
        self, by: str | None, entry: str | None, since: When, limit: int | None
    ) -> list[Record]:
        """Return who did what, newest first; whoever may see it."""
        with self.snapshot(look=True) as snap:
            return snap.acts(by, entry, parse_since(since, self.clock()) or 0, limit)

    def _acts_on(self, id: str) -> list[Record]:
        with self.snapshot() as snap:
            return snap.acts(None, id, 0, None)

    def waits_until(self, entry: Entry) -> int:
        """Return the microsecond at which a staged entry's time is up."""
        span = parse_ttl(self.settings.staging_ttl)
        return NEVER if span is None else entry.at + span

    def close(self) -> None:
        for resource in (self._embedder and self._embedder[1], self._vectors):
            if resource is not None:
                resource.close()
        while self.held:
            os.close(self.held.popitem()[1])
        if self.tree is not None and not self.readonly:
            self.tree.close()
        self.index.close()
        self.log.close()
