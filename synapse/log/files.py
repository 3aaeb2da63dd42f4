"""The files log: a directory that anyone can read with `cat`, kept true by its journal.

The journal's line is the commit and holds the whole text; the Markdown file follows it. Whoever
opens the workspace finishes what a dead writer left undone. Who may write what is not decided here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from synapse.errors import InvalidEntry, NotFound, NotTrusted, StoreBusy, StoreError, SynapseError
from synapse.log import progress, settle
from synapse.log.accepted import Accepted
from synapse.log.adopt import Scanner
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror, has_place, live_path, pages, path_of
from synapse.log.operator_files import OperatorFiles
from synapse.model import clock
from synapse.model.agents import Agent
from synapse.model.placement import Decide, Keeper
from synapse.model.records import Lost, Record
from synapse.model.settings import PROTOCOL
from synapse.system import plain_files
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.log.merge import Merged
    from synapse.log.postgres.address import Address
    from synapse.log.postgres.database import Database


NOTED_WITHIN = 0.5  # seconds


class FilesLog(OperatorFiles):
    """One workspace directory."""

    def __init__(
        self,
        root: str,
        clock: Callable[[], int] = clock.now,
        readonly: bool = False,
        database: Address | None = None,
    ) -> None:
        super().__init__(root)
        plain_files.demand(self.root)
        self.refuse_newer()
        self.scanner = Scanner(self.root)
        folder = os.path.join(self.root, "journal")
        self.accepted = Accepted(self.root)
        self.was_foreign = not self.accepted.known
        self.journal = self._open_journal(folder, clock, readonly, database)
        if not self.readonly and not self.accepted.placed:
            self._note_place()
        self.mirror = Mirror(self.root, lambda section: self.journal.lock.run(section))
        self.pipes_folder = os.path.join(self.root, ".index", "bells")
        self.booted: str | None = None
        self.journal.follow(self._arrive, self._leave)

    def _open_journal(
        self, folder: str, clock: Callable[[], int], readonly: bool, database: Address | None
    ) -> Journal:
        """Return the journal of this folder: its own, or a copy of a database's."""
        database = database or self.declared_database()
        if database is None:
            return Journal(folder, clock, readonly=readonly, accepted=self.accepted)
        from synapse.log.postgres.database import Database
        from synapse.log.postgres.journal import PgJournal

        schema = Database(database)
        try:
            return PgJournal(folder, clock, schema, readonly=readonly, accepted=self.accepted)
        except BaseException:
            schema.close()
            raise

    @property
    def database(self) -> Database | None:
        """Return the database that holds the log, where this folder is a copy."""
        return getattr(self.journal, "database", None)

    def _leave(self, raws: Iterable[bytes]) -> None:
        from synapse.log.postgres.arrive import leave

        leave(self.mirror, raws)

    def _arrive(self, raws: Sequence[bytes]) -> None:
        from synapse.log.postgres.arrive import arrive

        arrive(self, self.mirror, self.accepted, raws)

    def declared_database(self) -> Address | None:
        """Return the address that synapse.yaml names as `log:`; None where it names none. One that
        was written elsewhere needs a person first: what is written here would go there.
        """
        from synapse.log import git
        from synapse.log.postgres.address import parse_address

        try:
            raw = self.declared_raw("synapse.yaml")
        except (OSError, InvalidEntry):
            return None
        lines = [line for line in raw.decode(errors="replace").split("\n") if line[:4] == "log:"]
        if not lines:
            return None
        text = lines[0][4:].split(" #")[0].strip().strip("\"'")
        address = parse_address(text)
        if not self.accepted.holds_file("synapse.yaml", raw) and (
            not self.accepted.known or git.brought(self.root, {"synapse.yaml": raw})
        ):
            raise NotTrusted(
                f"synapse.yaml was written elsewhere and names {address.public} as the log:"
                f" `synapse init {self.root} --log {address.public}` says that it is meant",
                action="open",
            )
        return address

    @property
    def pipes(self) -> str:
        """Return the folder of those who are to be notified, for one who wants to be."""
        self.journal.listen(self.pipes_folder)
        return self.pipes_folder

    def _note_place(self) -> None:
        """Note that this is where the workspace lies, unless somebody holds the journal: then who
        comes next does, and until then what lies beside it is not believed.
        """
        self.journal.lock.wait_for(NOTED_WITHIN)
        try:
            self.accepted.settle(self.journal.lock.run, self.journal.lines)
        except StoreBusy:
            pass
        finally:
            self.journal.lock.wait_for(None)

    @property
    def readonly(self) -> bool:
        """Say whether this process may only read here; every write is refused."""
        return self.journal.readonly

    def demand_writable(self) -> None:
        """Raise ReadOnly where this process may only read."""
        if self.readonly:
            self.journal.lock.run(lambda: None)  # which refuses it

    # -- the log -----------------------------------------------------------------------------------

    def write(
        self, records: Iterable[Record], decide: Decide, keeper: Keeper
    ) -> list[tuple[Record, bool]]:
        return self.journal.append(records, decide, keeper)

    def sync(self) -> None:
        """Put what the log holds by now on the disk, whoever wrote it."""
        self.journal.sync()

    def occupied(self, path: str) -> bool:
        """Return whether the tree has something of this name."""
        return os.path.lexists(f"{self.root}/{path}")

    def at(self, seq: int) -> Record:
        record = self.journal.at(seq)
        if record is None:
            raise NotFound(f"the log has no record {seq}", seq=seq)
        return record

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        return self.journal.these(seqs)

    def since(self, cursor: int = 0, texts: bool = True) -> Iterator[Record]:
        return self.journal.since(cursor, texts)

    def batch(self, cursor: int, limit: int, after: str = "") -> tuple[list[Record], str]:
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
    def damaged(self) -> set[int]:
        return self.journal.damaged

    def redact(self, record: Record) -> None:
        """Take the text of an entry out of its line and out of the tree."""
        from synapse.log import redact

        redact.blank(self.root, self.journal, record.seq)
        redact.remove(self.mirror, record)

    @property
    def doubts(self) -> int:
        return self.journal.doubts

    def boot(self) -> str:
        if self.booted is None:
            self.booted = progress.boot()
        return self.booted

    def notes(self) -> list[str]:
        return self.journal.notes()

    def was_cut(self, seq: int) -> bool:
        return self.journal.was_cut(seq)

    def explain(self, lost: Lost) -> str:
        from synapse.log import vanished

        if self.forked:
            return "git merged another history into it"
        return vanished.explain(self.root, self.journal, lost)

    def restart(self, floor: int, forget: bool = False) -> None:
        if forget:
            self.mirror.forget()
        self.scanner.restart()
        progress.restart(self.root, floor)

    def close(self) -> None:
        self.journal.close()
        self.accepted.close()
        self.mirror.close()

    def declare(self, agent: Agent) -> str | None:
        """Write the agent's file and make its drop box; return the digest of the file."""
        from synapse.formats import declared

        self.demand_writable()
        path = f"agents/{agent.id}.yaml"
        raw = declared.render_agent(agent).encode()
        try:
            self.accepted.note_file(path, raw)
            self.mirror.place(path, raw, replace=True, synced=True)
            self.make_inbox(agent)
        except OSError as error:
            raise StoreError(
                f"{error.filename or path} could not be written: {error.strerror}"
            ) from error
        return sha256(raw)

    def raise_protocol(self) -> bool:
        """Have software refuse the workspace that knows protocol 1 alone, and return whether that
        is new. A synapse.yaml that says nothing of it, or is not to be written, stays.
        """
        path = "synapse.yaml"
        try:
            raw = self.declared_raw(path)
            newer = (b"\n" + raw).replace(b"\nprotocol: 1\n", b"\nprotocol: %d\n" % PROTOCOL, 1)[1:]
            if newer == raw:
                return False
            self.accepted.note_file(path, newer)
            self.mirror.place(path, newer, replace=True, synced=True)
        except (OSError, SynapseError):
            return False
        return True

    @property
    def lags(self) -> bool:
        """Say whether the tree is yet to follow a journal that is another one than before."""
        return progress.lags(self.root)

    def texts_of(self, record: Record) -> Iterator[bytes]:
        """Yield the texts that the tree has of an entry, wherever its file may be by now."""
        if record.kind != "entry" or not has_place(record):
            return
        for path in {path_of(record), live_path(record)}:
            raw = self.mirror.read(path)
            if raw is not None:
                yield raw
        page = self.mirror.read(settle.page_path(record), limit=1 << 40)
        yield from (entry.text for entry in pages(page or b"") if entry.id == record.id)

    def recover(self, raws: Iterable[bytes]) -> None:
        """Become the copy of another log: its lines as they are. The tree follows at the next
        look.
        """
        from synapse.log.unite import begin

        begin(self.root, self.journal, raws)

    @property
    def forked(self) -> bool:
        return self.journal.view is not None

    def unite(self, more: Collection[bytes] = ()) -> Merged:
        """Append what the other histories hold that the journal's files hold, and what these lines
        are of one. Called under the journal's lock.
        """
        from synapse.log.unite import unite

        merged = unite(self.root, self.journal, self.mirror, more)
        self.scanner.restart()
        return merged
