"""A log with its index, kept in step: what every seat at the memory shares. Knows no agent's
wishes.
"""

from __future__ import annotations

import gc
import json
import os
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Mapping

from synapse.authority import admit, check_when, may_replace
from synapse.errors import (
    Conflict,
    Forbidden,
    InvalidEntry,
    NewerProtocol,
    NotFound,
    QueueFull,
    StoreCorrupt,
    StoreError,
    SynapseError,
)
from synapse.index.projection import UNKNOWN, Index
from synapse.log.adopt import Channel
from synapse.log.files import FilesLog
from synapse.log.line import agent_pending
from synapse.model.agents import OPERATOR, Agent, authority_in, settled
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.entry import NEVER, TRUST, Draft, Entry, parse_ttl
from synapse.model.records import Guard, Pending, Record, all_of, sum_below, unruled
from synapse.model.settings import Semantic, Settings
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.formats.keys import Stray
    from synapse.index.vectors import Vectors
    from synapse.log.memory import MemoryLog
    from synapse.model.protocols import Embedder

PLANNER = Agent(
    OPERATOR, "project-lead", authority=80, write=("projects/*",)
)  # by a plan.md that names nobody
LOOK_EVERY = 0.2
LOOK_AT_LEAST_EVERY = 1.0
FINISHED_IN_A_LOOK = 400
FINISHED_BY_A_WRITER = 50

Signatures = dict[str, tuple[int, int, int]]


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
        files = isinstance(log, FilesLog)
        self.root = log.root if isinstance(log, FilesLog) else None
        self.readonly = isinstance(log, FilesLog) and log.readonly
        path = (
            os.path.join(log.root, ".index", "brain.db")
            if isinstance(log, FilesLog)
            else ":memory:"
        )
        self.index = _index_in_memory(log, path) if self.readonly else Index(log, path)
        log.state = self.index
        self.held: dict[
            str, int
        ] = {}  # files that are locked for as long as this is open
        self.mutex = allocate_lock()
        self.looked = self.glanced = self.tidied = -LOOK_EVERY
        self.pause = LOOK_EVERY
        self.signed: Signatures | None = None
        self.turn = -1  # which log they were noticed for, where that is known
        self.declared_settings = None if files else log.settings()
        self._complaints: dict[str, list[str]] | None = None if files else {}
        self.used: dict[
            str, int
        ] = {}  # how often items were asked for, and since when that is not in the log
        self.used_since = clock()
        self._embedder: tuple[Semantic, Embedder] | None = None
        self._vectors: Vectors | None = None
        self.shifts: tuple[object, Mapping[str, int]] = (None, {})

    # -- keeping in step ---------------------------------------------------------------------------

    def fresh(self, *, force: bool = False) -> None:
        """Adopt what was dropped, notice what the operator edited, take in what others wrote."""
        self.look(force=force)
        self.index.catch_up()

    def look(self, *, force: bool = False) -> None:
        """Five times a second at most, by one thread at a time: all of the tree beside the journal.
        Where a look takes long, because much is being written, the next comes later.
        """
        start = time.monotonic()
        due = force or start - self.looked >= self.pause
        if due and self.readonly:
            self._look_only(start)
        elif due and self._alone(lambda log: self._look(log, whole=force)):
            self.looked = self.glanced = self.tidied = time.monotonic()
            self.pause = min(
                max(LOOK_EVERY, 5 * (self.looked - start)), LOOK_AT_LEAST_EVERY
            )

    def glance(self) -> None:
        """What every agent acts by: the operator's files."""
        if time.monotonic() - self.glanced >= LOOK_EVERY and self._alone(
            lambda log: self.notice()
        ):
            self.glanced = time.monotonic()

    def tidy(self) -> None:
        """What writers do for each other, a little at a time: finish what dead ones left undone."""
        if time.monotonic() - self.tidied >= LOOK_EVERY and self._alone(
            lambda log: log.finish(FINISHED_BY_A_WRITER)
        ):
            self.tidied = time.monotonic()

    def _alone(self, section: Callable[[FilesLog], object]) -> bool:
        """Run it unless another thread is at it. A look that cannot write leaves things as they
        are.
        """
        if (
            not isinstance(self.log, FilesLog)
            or self.readonly
            or not self.mutex.acquire(blocking=False)
        ):
            return False
        try:
            section(self.log)
        except (StoreCorrupt, NewerProtocol):
            raise
        except (OSError, StoreError):
            # the disk is full, or this process may only read: what the caller wants may still be
            # possible
            pass
        finally:
            self.mutex.release()
        return True

    def _look_only(self, start: float) -> None:
        """Where nothing can be journalled: settings are what their file says, agents what was
        journalled last.
        """
        assert isinstance(self.log, FilesLog)
        now, self.looked = self.log.signatures(), start
        if now != self.signed:
            self.signed, self.declared_settings = now, None

    def _look(self, log: FilesLog, *, whole: bool) -> None:
        self.index.catch_up()
        self.notice()
        log.finish(None if self.looked < 0 else FINISHED_IN_A_LOOK)
        log.look(self.admit_drop, whole=whole)

    def notice(self) -> None:
        """Journal what changed in the operator's files since they were last read."""
        assert isinstance(self.log, FilesLog)
        now = self.log.signatures()
        if self.signed is None or self.turned:
            self.signed, self.turn = self._recall(), self.index.turns()
        if now == self.signed:
            return
        self.index.catch_up()
        if self.log.forked:
            return  # which of them the files belong to is yet to be seen
        before = self.signed
        for path in sorted(set(now) | set(before)):
            if path.startswith("agents/") and now.get(path) != before.get(path):
                self._noticed(path, now.get(path))
        if now.get("synapse.yaml") != before.get("synapse.yaml"):
            self._noticed_settings(now.get("synapse.yaml"))
        self.signed = now
        self.index.catch_up()  # whoever looked acts by what it found
        self._remember(now)

    @property
    def turned(self) -> bool:
        """Whether the log is another one than the one that the operator's files were noticed
        for.
        """
        return self.turn not in (-1, self.index.turns())

    def _noticed(self, path: str, signature: tuple[int, int, int] | None) -> None:
        from synapse.model.roles import refuse_typo

        assert isinstance(self.log, FilesLog)
        id = os.path.basename(path)[: -len(".yaml")]
        was = self.index.query.declared.get(id)
        if signature is None:
            self.complaints.pop(path, None)
            if was is not None:
                self.log.append(
                    agent_pending(was, OPERATOR, was, "removed"),
                    once=f"removed:{id}:{self.index.cursor()}",
                )
            return
        try:
            declared = self.log.declaration(path)
            agent, sha = settled(declared), sha256(self.log.declared_raw(path))
            if was is None or was.role != agent.role:
                refuse_typo(declared, self.root)
        except (
            SynapseError,
            OSError,
        ) as error:  # the last good declaration stands; `doctor` names the file
            self.complaints[path] = list(getattr(error, "problems", ())) or [str(error)]
            return
        self.complaints.pop(path, None)
        if agent.id != id or (
            agent == was and self.index.query.declared.sha(id) in (sha, None)
        ):
            return
        how = "registered" if was is None else "edited"
        self.log.append(
            agent_pending(agent, OPERATOR, was, how, sha),
            once=f"edit:{path}:{signature}",
        )

    def _noticed_settings(self, signature: tuple[int, int, int] | None) -> None:
        """Settings are journalled when they change, old and new; those that a workspace began with
        need no record.
        """
        kept = self.index.db.meta("settings")
        was = _settings_from(kept) if kept else None
        assert isinstance(self.log, FilesLog)
        found, strays = self.log.read_settings(was)
        self.declared_settings = found
        self._complain(strays)
        if was is not None and was != found:
            fields = {
                "settings": found._asdict(),
                "was": was._asdict(),
                "how": "edited",
            }
            self.log.append(
                Pending("settings", OPERATOR, fields), once=f"settings:{signature}"
            )

    def sign(self, *paths: str) -> None:
        """Note these files of the operator's as they are: they were just written through this
        store.
        """
        if isinstance(self.log, FilesLog):
            now = self.log.signatures()
            known = (
                self._recall() if self.signed is None or self.turned else self.signed
            )
            self.signed = known | {path: now[path] for path in paths if path in now}
            self._remember(self.signed)

    def unnoticed(self, path: str) -> bool:
        """Whether a file of the operator's is not, byte for byte, the one that was last read. A
        copy is.
        """
        return self.index.db.meta(f"sha:{path}") not in (None, self._sha(path))

    def _sha(self, path: str) -> str:
        assert isinstance(self.log, FilesLog)
        try:
            return sha256(self.log.declared_raw(path))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from error

    def _recall(self) -> Signatures:
        kept = json.loads(self.index.db.meta("signatures") or "{}")
        return {
            path: (changed, size, inode)
            for path, (changed, size, inode) in kept.items()
        }

    def _remember(self, signatures: Signatures) -> None:
        """Keep the parsed settings beside the signatures, so that a cold command reads no YAML."""
        self.index.note("settings", json.dumps(self.settings))
        self.index.note("complaints", json.dumps(self.complaints))
        self.index.note("sha:synapse.yaml", self._sha("synapse.yaml"))
        self.index.note("signatures", json.dumps(signatures))

    def rebuild(self) -> tuple[int, bool]:
        """Derive the index anew, and compare every file with what the log says of it on the way:
        how many records there are, and whether every file is as it was written.
        """
        if not isinstance(self.log, FilesLog):
            return self.index.rebuild(), True
        from synapse.log.proof import Proof

        proof, collecting = (
            Proof(self.log.root, self.log.journal, self.log.mirror),
            gc.isenabled(),
        )
        # a trace of every record is kept: looking through them for garbage, over and over, costs a
        # sixth
        gc.disable()
        try:
            return self.index.rebuild(proof.watch), proof.stands()
        finally:
            if collecting:
                gc.enable()

    def demand_writable(self) -> None:
        """Raise ReadOnly where this process may only read."""
        if self.readonly and isinstance(self.log, FilesLog):
            self.log.journal.lock.run(lambda: None)

    # -- what is declared --------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        if self.declared_settings is None:
            self.declared_settings = self._kept_settings() or self._read_settings()
        return self.declared_settings

    @property
    def complaints(self) -> dict[str, list[str]]:
        """What is wrong with which file of the operator's, as of when they were last read."""
        if self._complaints is None:
            self._complaints = json.loads(self.index.db.meta("complaints") or "{}")
        return self._complaints

    def _read_settings(self) -> Settings:
        assert isinstance(self.log, FilesLog)
        found, strays = self.log.read_settings(None)
        self._complain(strays)
        return found

    def _complain(self, strays: Iterable[Stray]) -> None:
        texts = [stray.text for stray in strays]
        self.complaints.pop("synapse.yaml", None)
        self.complaints.update({"synapse.yaml": texts} if texts else {})

    def _kept_settings(self) -> Settings | None:
        kept = self.index.db.meta("settings")
        if not kept or not isinstance(self.log, FilesLog) or self.signed is None:
            return None
        if self._recall().get("synapse.yaml") != self.signed.get("synapse.yaml"):
            return None
        return _settings_from(kept)

    def agents(self) -> Mapping[str, Agent]:
        """The agents as journalled: an edit counts from the moment it was noticed."""
        self.look()
        self.index.catch_up()
        return self.index.query.declared

    def agent(self, id: str) -> Agent | None:
        """One agent, for its seat. Does not wait for the index: declarations change rarely, and a
        glance sees it.
        """
        self.glance()
        if self.index.mark == UNKNOWN:
            self.index.catch_up()
        found = self.index.query.declared.get(id)
        if found is None:
            self.index.catch_up()
            found = self.index.query.declared.get(id)
        return self.standing(found) if found else None

    def unregistered(self, id: str) -> NotFound:
        """Return the error for an agent that there is none of: what is wrong with its file, who may
        have been meant.
        """
        from synapse.system.spelling import closest

        known = self.index.query.declared
        close = closest(id, known)
        if texts := self.complaints.get(f"agents/{id}.yaml"):
            return NotFound(
                f"agent {id} is not registered: agents/{id}.yaml: {'; '.join(texts)}",
                id=id,
            )
        if close:
            meant = f"did you mean {close}? `synapse agents` lists those that are"
        else:
            meant = f"register it with `synapse register --id {id} --role engineer`"
        return NotFound(f"agent {id} is not registered; {meant}", id=id)

    def standing(self, agent: Agent) -> Agent:
        """The agent with what its reputation moved, where that counts here."""
        return (
            agent._replace(shift=shift)
            if (shift := self.shift(agent.id)) != agent.shift
            else agent
        )

    def shift(self, id: str) -> int:
        """By how much reviews moved the authority of an agent."""
        if self.settings.reputation != "on":
            return 0
        if self.shifts[0] != self.index.query.version:
            from synapse.index import deeds

            self.shifts = self.index.query.version, deeds.shifts(self.index.query)
        return self.shifts[1].get(id, 0)

    @property
    def embedder(self) -> Embedder:
        """The embedder that the settings name now; made once, for a model may take a second to
        load.
        """
        chosen = self.settings.semantic
        if self._embedder is None or self._embedder[0] != chosen:
            from synapse.embedders import embedder_of

            if self._embedder is not None:
                self._embedder[1].close()
            self._embedder = (chosen, embedder_of(chosen, self.root))
        return self._embedder[1]

    @property
    def vectors(self) -> Vectors:
        """The vectors beside the index, opened when they are first asked for."""
        if self._vectors is None:
            from synapse.index.vectors import Vectors, path_beside

            path = path_beside(self.index.db.path)
            self._vectors = (
                _vectors_in_memory(f"{self.root}/.index/vectors.db")
                if self.readonly
                else Vectors(path)
            )
        return self._vectors

    # -- writing -----------------------------------------------------------------------------------

    def act(
        self, kind: str, by: str, guard: Guard | None = None, /, **fields: object
    ) -> Record:
        """Append an act that is no entry, where the guard holds."""
        if kind not in ("approve", "reject"):
            return self.log.append(Pending(kind, by, fields), unless=guard)
        waits = unruled("staging", str(fields["entry"]))
        return self.log.append(
            Pending(kind, by, fields | {"amount": -1}, key="staging"),
            unless=all_of(guard, waits),
        )

    def admit_drop(self, draft: Draft, channel: Channel) -> Entry:
        """Who a dropped file is from is decided by how it came, never by what it says."""
        self.index.catch_up()  # a process that just began has yet to hear who is declared
        check_when(draft)
        if channel.inbox is not None:
            return self._from_inbox(draft, channel, channel.inbox)
        mapped = self._mapped(channel.uid)
        if not draft.author:
            if mapped is None and not channel.owner:
                raise InvalidEntry(
                    "from is missing: write who it is from, in a block of `key:"
                    " value` lines between `---`"
                )
            draft = draft._replace(author=mapped or OPERATOR)
            if mapped is None:
                return admit(draft, PLANNER, self.settings)
        if mapped is not None and draft.author != mapped:
            raise Forbidden(
                f"it says from: {draft.author}, but its owner is {mapped}",
                agent=mapped,
                action="write as",
            )
        if channel.owner or mapped is not None:
            return self._admitted(draft, self.index.query.declared.get(draft.author))
        return admit(draft, None, self.settings, trust="unverified")

    def _from_inbox(self, draft: Draft, channel: Channel, inbox: str) -> Entry:
        agent = self.index.query.declared.get(inbox)
        if agent is None:
            raise NotFound(
                f"there is no agent {inbox}, so its inbox is nobody's", id=inbox
            )
        if not channel.owner and self._mapped(channel.uid) != inbox:
            raise Forbidden(
                f"its owner (user {channel.uid}) is not {inbox}",
                agent=inbox,
                action="use the inbox of",
            )
        if draft.author not in ("", inbox):
            raise Forbidden(
                f"it says from: {draft.author}, but came through the inbox of {inbox}",
                agent=inbox,
            )
        return self._admitted(draft._replace(author=inbox), agent)

    def _admitted(self, draft: Draft, agent: Agent | None) -> Entry:
        """A draft of an agent's own, with the same rights as if it had come from its seat."""
        now = self.clock()
        sources = [self.index.entry(id, now) for id in draft.derived_from]
        trust = min(
            ("local", *(source.trust for source in sources if source)), key=TRUST.index
        )
        entry = admit(draft, agent and self.standing(agent), self.settings, trust=trust)
        for id in entry.replaces:
            old = self.index.entry(id, now)
            if agent is not None and old is not None:
                may_replace(agent, old, entry)
        if entry.staged and not self.has_room.holds(self.index.keyed("staging")):
            raise QueueFull("too many entries wait for review; this one waits outside")
        return entry

    @property
    def has_room(self) -> Guard:
        return sum_below("staging", self.settings.staging_limit)

    def _mapped(self, uid: int) -> str | None:
        """The agent that a user of this machine is."""
        if (
            not any(agent.user for agent in self.index.query.declared.values())
            and not self.settings.users
        ):
            return None
        import pwd

        try:
            names = {str(uid), pwd.getpwuid(uid).pw_name}
        except KeyError:
            names = {str(uid)}
        declared = (
            (agent.user or "", agent.id) for agent in self.index.query.declared.values()
        )
        return next(
            (id for user, id in (*declared, *self.settings.users) if user in names),
            None,
        )

    def expire_staged(self) -> None:
        """Turn away what waited for review longer than the settings allow."""
        if self.readonly:
            return
        self.index.catch_up()
        now = self.clock()
        for entry in self.index.query.staged():
            if self.waits_until(entry) <= now:
                try:
                    self.act(
                        "reject",
                        "log",
                        entry=entry.id,
                        reason="nobody reviewed it in time",
                    )
                except Conflict:
                    pass  # somebody just did
        self.index.catch_up()

    def vouched(self, entry: Entry) -> tuple[int, str]:
        """What an unverified entry counts once it is believed: its author's authority, the priority
        it claimed.
        """
        author = self.index.query.declared.get(entry.author)
        authority = (
            0
            if author is None
            else authority_in(
                self.standing(author), entry.namespace, self.settings.flat
            )
        )
        return authority, entry.claimed or entry.priority

    @property
    def bells(self) -> str | None:
        return self.log.bells if isinstance(self.log, FilesLog) else None

    # -- reading -----------------------------------------------------------------------------------

    def current(self, id: str, agent: Agent | None = None) -> Entry:
        """The entry under an id, as of now, whoever may see it; NotFound where there is none. Of
        its disputes, those that the agent may see.
        """
        self.index.catch_up()
        found = self.index.entry(id, self.clock(), agent)
        if found is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return found

    def acts(
        self, by: str | None, entry: str | None, since: When, limit: int | None
    ) -> list[Record]:
        """Who did what, newest first; whoever may see it."""
        self.fresh()
        return self.index.query.acts(
            by, entry, parse_since(since, self.clock()) or 0, limit
        )

    def waits_until(self, entry: Entry) -> int:
        """The microsecond at which a staged entry's time is up."""
        span = parse_ttl(self.settings.staging_ttl)
        return NEVER if span is None else entry.at + span

    def close(self) -> None:
        for each in (self._embedder and self._embedder[1], self._vectors):
            if each is not None:
                each.close()
        while self.held:
            os.close(self.held.popitem()[1])
        self.index.close()
        self.log.close()


def _index_in_memory(log: FilesLog | MemoryLog, path: str) -> Index:
    """Return the index where it may not be written: a copy, which the first read catches up from
    the log.
    """
    from synapse.index.copy import in_memory

    return Index(log, ":memory:", in_memory(path))


def _vectors_in_memory(path: str) -> Vectors:
    from synapse.index.copy import in_memory
    from synapse.index.vectors import KIND, Vectors

    return Vectors(":memory:", in_memory(path, KIND))


def _settings_from(kept: str) -> Settings:
    """Settings as they were kept beside the index."""
    values = dict(zip(Settings._fields, json.loads(kept), strict=True))
    for name in ("ttl", "users", "sizes", "quota", "other"):
        values[name] = tuple((key, value) for key, value in values[name])
    values["semantic"] = Semantic(*values["semantic"])
    return Settings(**values)
