"""The files log: a directory that anyone can read with `cat`, kept true by its journal.

The journal's line is the commit and holds the whole text; the Markdown file follows it. Whoever
opens the workspace finishes what a dead writer left undone. Who may write what is not decided here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from synapse.errors import (
    Conflict,
    InvalidEntry,
    NotFound,
    QueueFull,
    StoreError,
    SynapseError,
)
from synapse.log import settle
from synapse.log.adopt import Admit, Drop, Rejected, Scanner
from synapse.log.chain import Tail
from synapse.log.journal import Journal
from synapse.log.line import Line, act_line, agent_pending, entry_line, prepare
from synapse.log.mirror import Mirror
from synapse.log.taken import Taken, claim
from synapse.model import clock, kinds
from synapse.model.agents import Agent
from synapse.model.entry import is_id, mint, minted
from synapse.model.records import Guard, Lost, Pending, Record, demand, unchanged
from synapse.model.settings import PROTOCOL, Settings
from synapse.system import signal
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.formats.keys import Stray
    from synapse.log.merge import Merged
    from synapse.model.protocols import State


class FilesLog:
    """One workspace directory."""

    def __init__(self, root: str, clock: Callable[[], int] = clock.now) -> None:
        self.root = os.path.abspath(root)
        self._refuse_newer()
        self.scanner = Scanner(self.root)
        self.journal = Journal(os.path.join(self.root, "journal"), clock)
        self.taken = Taken(self.journal)
        self.journal.check = self._belongs
        self.mirror = Mirror(self.root, lambda section: self.journal.lock.run(section))
        self.bells = os.path.join(self.root, ".index", "bells")
        self.state: State | None = None
        self.booted: str | None = None

    @property
    def readonly(self) -> bool:
        """Whether this process may only read here; every write is refused."""
        return self.journal.readonly

    # -- the log -----------------------------------------------------------------------------------

    def append(
        self, pending: Pending, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        def make(tail: Tail, at: int) -> Line | Record:
            if (
                once is not None
                and (first := self._derived().first(pending.by, once)) is not None
            ):
                return self.at(first)
            if unless is not None:
                demand(unless, self._derived().keyed)
            return self._line(pending, tail, at, once)

        prepare(pending)
        record, written = self.journal.append((make,))[0]
        if written:
            self.taken.wrote((record,))
            self._follow((record,))
        return record

    def append_all(
        self, batch: Mapping[str, Pending], *, unless: Guard | None = None
    ) -> list[Record]:
        state: list[State] = []  # of before the first of them

        def make(once: str, pending: Pending, tail: Tail, at: int) -> Line | Record:
            if not state:
                state.append(self._derived())
            if (first := state[0].first(pending.by, once)) is not None:
                return self.at(first)
            if unless is not None:
                demand(unless, state[0].keyed)
            return self._line(pending, tail, at, once)

        for pending in batch.values():
            prepare(pending)
        made = self.journal.append(
            [partial(make, once, pending) for once, pending in batch.items()]
        )
        written = [record for record, new in made if new]
        self.taken.wrote(written)
        self._follow(written)
        return [record for record, _ in made]

    def get(self, id: str) -> Record:
        seq = self._derived().holder(id)
        if seq is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return self.at(seq)

    def find(self, ids: Collection[str]) -> Iterator[Record]:
        """The records that hold these ids, those that there are, in their order: many for one way
        through the log.
        """
        holder = self._derived().holder
        return self.journal.these(
            sorted({seq for seq in map(holder, ids) if seq is not None})
        )

    def at(self, seq: int) -> Record:
        record = self.journal.at(seq)
        if record is None:
            raise NotFound(f"the log has no record {seq}", seq=seq)
        return record

    def since(self, cursor: int = 0) -> Iterator[Record]:
        return self.journal.since(cursor)

    def batch(
        self, cursor: int, limit: int, after: str = ""
    ) -> tuple[list[Record], str]:
        return self.journal.batch(cursor, limit, after)

    def proof(self, seq: int) -> str:
        return self.journal.proof(seq)

    def holds(self, proof: str) -> bool:
        return self.journal.holds(proof)

    def last(self) -> int:
        return self.journal.last()

    def mark(self) -> tuple[int, int]:
        return self.journal.mark()

    @property
    def doubts(self) -> int:
        return self.journal.doubts

    def boot(self) -> str:
        if self.booted is None:
            self.booted = settle.boot()
        return self.booted

    def explain(self, lost: Lost) -> str:
        from synapse.log import vanished

        if self.forked:
            return "git merged another history into it"
        return vanished.explain(self.root, self.journal, lost)

    def turn(self) -> int:
        return self._derived().turns() if self.state else 0

    def fork(self, turn: int) -> int | None:
        return self._derived().fork(turn)

    def restart(self, floor: int, forget: bool = False) -> None:
        if forget:
            self.mirror.forget()
        self.scanner.restart()
        settle.restart(self.root, floor)

    def archive(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Pending("archive", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Pending("restore", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def close(self) -> None:
        self.journal.close()
        self.mirror.close()

    # -- what the operator declares ----------------------------------------------------------------

    def agents(self) -> Iterable[Agent]:
        """The agents as their files say now. A file that cannot be read is left out; `doctor` names
        it.
        """
        for path in self.declared():
            try:
                yield self.declaration(path)
            except (SynapseError, OSError):
                continue

    def declared(self) -> list[str]:
        try:
            names = sorted(os.listdir(os.path.join(self.root, "agents")))
        except FileNotFoundError:
            return []
        except (
            OSError
        ) as error:  # which is not the same: nobody is removed because a disk fails
            raise StoreError(f"agents/ cannot be read: {error}") from error
        return [
            f"agents/{name}"
            for name in names
            if name.endswith(".yaml") and not name.startswith(".")
        ]

    def declaration(self, path: str) -> Agent:
        from synapse.formats import declared

        try:
            text = self.declared_raw(path).decode()
        except UnicodeDecodeError as error:
            raise InvalidEntry(
                f"{path}: not UTF-8: byte {error.start} cannot be read", path=path
            ) from None
        return declared.parse_agent(text, path=path)

    def declared_raw(self, path: str) -> bytes:
        """The bytes of a file of the operator's. A pipe in its place is empty, and does not
        block.
        """
        fd = os.open(
            os.path.join(self.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(fd, "rb") as file:
            return file.read(1 << 16)

    def settings(self) -> Settings:
        return self.read_settings(None)[0]

    def read_settings(
        self, last: Settings | None
    ) -> tuple[Settings, tuple[Stray, ...]]:
        """Return the settings as far as they can be read, and what is wrong with them: where one
        cannot be, that of the last good ones holds, else its default.
        """
        from synapse.formats import declared
        from synapse.formats.keys import Stray

        last = last or Settings()
        try:
            with open(
                os.path.join(self.root, "synapse.yaml"), encoding="utf-8"
            ) as file:
                text = file.read(1 << 16)
        except FileNotFoundError:
            return Settings(protocol=0), ()
        except UnicodeDecodeError as error:
            return last, (Stray("", f"not UTF-8: byte {error.start} cannot be read"),)
        except OSError as error:
            raise StoreError(
                f"synapse.yaml cannot be read: {error.strerror}"
            ) from error
        return declared.read_settings(text, "synapse.yaml", last)

    def signatures(self) -> dict[str, tuple[int, int, int]]:
        """Modification time, size and inode of every file of the operator's: equal signatures,
        equal declarations.
        """
        found = {}
        for path in ("synapse.yaml", *self.declared()):
            try:
                status = os.stat(os.path.join(self.root, path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"{path} cannot be read: {error}") from error
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found

    def register(self, agent: Agent, by: str, was: Agent | None = None) -> Record:
        """Write the agent's file, then the record: a crash between the two is noticed as an edit by
        hand.
        """
        from synapse.formats import declared

        if self.readonly:
            self.journal.lock.run(lambda: None)  # which refuses it
        path = f"agents/{agent.id}.yaml"
        raw = declared.render_agent(agent).encode()
        try:
            self.mirror.place(path, raw, replace=True)
            self._inbox(agent)
        except OSError as error:
            raise StoreError(
                f"{path} could not be written: {error.strerror}"
            ) from error
        return self.append(agent_pending(agent, by, was, sha=sha256(raw)))

    def _inbox(self, agent: Agent) -> None:
        """The agent's drop box; its own user's, if it has one and this process may give it away."""
        for name in ("tmp", "new"):
            folder = os.path.join(self.root, "inbox", agent.id, name)
            os.makedirs(folder, exist_ok=True)
            if agent.user and os.geteuid() == 0:
                os.chown(folder, _uid(agent.user), -1)

    # -- adoption and finishing --------------------------------------------------------------------

    def look(self, admit: Admit, *, whole: bool = False) -> int:
        """Adopt what was dropped since the last look, oldest first; how many records that made. Of
        thousands of quiet threads a part, unless the whole tree is to be looked at.
        """
        self._derived()
        try:
            found = list(self.scanner.look(self._known, time.time(), whole=whole))
        except OSError:
            return 0  # a folder vanished or cannot be listed: the next look sees it
        if self.journal.view is not None:
            return 0  # a file of the other side is no drop
        made = sum(
            self._quarantine(drop) for drop in found if isinstance(drop, Rejected)
        )
        drops = [drop for drop in found if isinstance(drop, Drop)]
        drops.sort(
            key=lambda drop: (
                drop.draft.timestamp or "",
                drop.draft.id or "",
                drop.path,
            )
        )
        return made + sum(self._adopt(drop, admit) for drop in drops)

    def finish(self, limit: int | None = None) -> int:
        """Redo what writers that died left undone: the files of committed lines; how many records
        were checked.
        """
        if self.journal.view is not None:
            return 0
        try:
            self.journal.finish()
        except (OSError, StoreError):
            pass  # whoever writes next does it, or cannot write either
        return settle.finish(
            self.root, self.journal, self.mirror, self.find, self._place, limit
        )

    def catch_up(self) -> None:
        """Have the tree follow a journal that is another one than before; what was damaged stays as
        it is, and the journal too: whoever asks for a proof writes nothing into it.
        """
        if self.journal.view is None and settle.lags(self.root):
            settle.finish(
                self.root, self.journal, self.mirror, self.find, self._place, None
            )

    def _place(self, id: str) -> str:
        return self._derived().whereabouts(id)

    def _known(self, folder: str) -> set[str]:
        state = self._derived()
        return state.names(folder)

    def _left_behind(self, found: Drop) -> bool:
        """Whether the log itself put that file there, for an entry that was filed away since or is
        about to be.
        """
        seq = self._derived().holder(found.draft.id) if found.draft.id else None
        if seq is None:
            return False
        record = self.at(seq)
        return record.text == found.text and settle.live_path(record) == found.path

    def _adopt(self, found: Drop, admit: Admit) -> int:
        if self._left_behind(found):
            return 0
        if self.mirror.wrote(found.path, found.text.encode()):
            settle.set_aside(self.mirror, found.path, found.text.encode())
            settle.restart(self.root, self.journal.last())
            return 0
        if kinds.is_plan(found.path):
            last = next(reversed(self._derived().keyed(f"plan:{found.path}")), None)
            if found.plain or last is not None:
                return self._adopt_plan(found, admit, last)
        try:
            entry = admit(found.draft, found.channel)
        except QueueFull:
            return 0
        except SynapseError as error:
            return self._quarantine(Rejected(found.path, str(error)))
        stays = found.channel.inbox is None and not entry.staged
        entry = entry._replace(
            id=found.draft.id or "" if entry.trust != "unverified" else ""
        )
        body = {"start": found.start} if found.start >= 0 else {"body": entry.body}
        fields = body | ({"alias": found.draft.id} if found.draft.id else {})
        key = "staging" if entry.staged else None
        pending = Pending(
            "entry",
            entry.author,
            fields,
            entry,
            found.text,
            found.path if stays else None,
            key,
        )
        self.append(pending, once=f"adopt:{found.path}:{settle.digest(found.text)}")
        if not stays:
            self.mirror.remove(found.path)
        return 1

    def _adopt_plan(self, found: Drop, admit: Admit, last: Record | None) -> int:
        """Adopt what a plan.md says now, in the place of what it said before. The file stays
        people's own: each version becomes an entry beside it, under a name of its own.
        """
        key, digest = f"plan:{found.path}", sha256(found.text.encode())
        if last is not None and last.fields.get("copy") == digest:
            return 0
        olds = () if last is None else (self.at(last.seq).id or "",)
        try:
            entry = admit(found.draft._replace(id=None, replaces=olds), found.channel)
        except QueueFull:
            return 0
        except SynapseError as error:
            return self._quarantine(Rejected(found.path, str(error)))
        fields, seen = {"copy": digest}, unchanged(key, last.seq if last else 0)
        once = (
            f"adopt:{found.path}:{settle.digest(found.text)}" if entry.staged else None
        )
        try:
            pending = Pending(
                "entry",
                entry.author,
                fields,
                entry,
                key="staging" if entry.staged else key,
            )
            self.append(pending, once=once, unless=None if entry.staged else seen)
        except Conflict:
            return 0  # another process took this version in
        return 1

    def _quarantine(self, found: Rejected) -> int:
        pending = settle.quarantine(self.mirror, found)
        if pending is None:
            return 0
        self.append(pending)
        return 1

    def _refuse_newer(self) -> None:
        """A workspace of a newer protocol is refused before anything in it is touched."""
        try:
            with open(
                os.path.join(self.root, "synapse.yaml"), encoding="utf-8"
            ) as file:
                lines = [
                    line
                    for line in file.read(1 << 16).split("\n")
                    if line.startswith("protocol:")
                ]
        except (OSError, ValueError):
            return
        if lines and lines[0].partition(":")[2].strip() != str(PROTOCOL):
            from synapse.formats import declared

            declared.read_protocol(
                "".join(f"{line}\n" for line in lines[:1]), "synapse.yaml"
            )

    def recover(self, raws: Collection[bytes], records: Iterable[Record]) -> None:
        """Begin as the copy of another log: its lines as they are, then the tree that follows from
        them.
        """
        from synapse.log.unite import begin

        begin(self.journal, list(raws))
        records = list(records)
        voids = {record.fields["seq"] for record in records if record.kind == "void"}
        for record in (record for record in records if record.seq not in voids):
            try:
                settle.follow(self.mirror, (record,), self.find)
            except (OSError, StoreError, NotFound):
                pass  # `verify` names it

    # -- below -------------------------------------------------------------------------------------

    def _line(self, pending: Pending, tail: Tail, at: int, once: str | None) -> Line:
        if pending.entry is None:
            return act_line(pending, once)
        id, n = self._claim(tail, at, pending)
        alias = pending.fields.get("alias") or id
        own = minted(alias)
        # A name of our own form is no alias from today on: the log has yet to give it to somebody
        # else.
        old = alias != id and (own is None or own[0] < clock.day(at))
        return entry_line(
            pending, at, id, n, once, old and self._derived().holder(alias) is None
        )

    def _claim(self, tail: Tail, at: int, pending: Pending) -> tuple[str, int]:
        """The entry's id and the day's count after it. A wanted one is kept if it is free and not
        far ahead.
        """
        assert pending.entry is not None
        wanted, namespace, day = (
            pending.entry.id,
            pending.entry.namespace,
            clock.day(at),
        )
        n = tail.n if tail.day == day else 0
        if pending.entry.kind != kinds.ENTRY:
            dropped = pending.text is not None
            return claim(
                pending.entry.kind,
                wanted,
                tail.chain,
                dropped,
                partial(self._held, tail),
            ), n
        wanted = "" if kinds.kind_of(wanted) != kinds.ENTRY else wanted
        if wanted and is_id(wanted) and self._derived().holder(wanted) is None:
            own = minted(wanted)
            if own is None or own[0] < day:
                return wanted, n
            if own[0] == day and own[1] <= n + 1000:
                return wanted, max(n, own[1])
        while True:
            n += 1
            id = mint(day, n)
            if not os.path.lexists(f"{self.root}/entries/{namespace}/{id}.md"):
                return id, n

    def _held(self, tail: Tail, id: str) -> bool:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        return self.taken.holds(self.state, tail, id)

    def _belongs(self) -> None:
        """See under the log's lock that the index is this journal's, before a line follows one of
        another's.
        """
        self.taken = Taken(self.journal)
        if self.state is not None:
            self.state.catch_up()
        if self.journal.view is not None:
            told = self._unite()
            if self.state is not None:
                self.state.hear(
                    f"the journal held two histories: {told.records} records of the"
                    f" other were appended"
                )

    @property
    def forked(self) -> bool:
        return self.journal.view is not None

    def merge(self, lines: Iterable[bytes] = ()) -> Merged:
        """Append what the other histories hold that the journal's files hold, and what these lines
        are of one.
        """
        # what was indexed is compared with what git left here, not with what comes of it
        self._derived()
        more = list(lines)
        if more:
            # what they follow has to be a whole line, or a seal of what is none
            self.journal.finish()
        return self.journal.lock.run(lambda: self._unite(more))

    def _unite(self, more: Collection[bytes] = ()) -> Merged:
        from synapse.log.unite import unite

        merged = unite(self.root, self.journal, self.mirror, more)
        self.scanner.restart()
        return merged

    def _derived(self) -> State:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        self.state.catch_up()
        return self.state

    def _follow(self, records: Sequence[Record]) -> None:
        """After the commit: the bell, for listeners read the journal, then the files that people
        see. Neither can undo the commit.
        """
        signal.notify(self.bells)
        try:
            settle.follow(self.mirror, records, self.find)
        except (OSError, StoreError, NotFound):
            pass  # the journal holds the text; `finish` puts the file there later


def _uid(user: str) -> int:
    """The number of a user of this machine, given by name or number; -1 for one that only another
    machine has.
    """
    import pwd

    try:
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        return -1
