"""The files log: a directory that anyone can read with `cat`, kept true by its journal.

The journal's line is the commit and holds the whole text; the Markdown file follows it. Whoever
opens the workspace finishes what a dead writer left undone. Who may write what is not decided here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from synapse.errors import NotFound, StoreError
from synapse.log import settle
from synapse.log.adopt import Admit, Scanner
from synapse.log.chain import Tail
from synapse.log.intake import Intake
from synapse.log.journal import Journal
from synapse.log.line import agent_record, entry_record
from synapse.log.mirror import Mirror, has_place, live_path, pages, path_of
from synapse.log.operator_files import OperatorFiles
from synapse.log.taken_ids import TakenIds, claim, names_of
from synapse.model import clock, kinds
from synapse.model.agents import Agent
from synapse.model.entry import mint, minted
from synapse.model.records import Guard, Lost, Record, demand
from synapse.privacy.records import safe
from synapse.system import plain_files, signal
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index
    from synapse.log.merge import Merged


class FilesLog(OperatorFiles):
    """One workspace directory."""

    def __init__(
        self, root: str, clock: Callable[[], int] = clock.now, readonly: bool = False
    ) -> None:
        super().__init__(root)
        plain_files.demand(self.root)
        self.refuse_newer()
        self.scanner = Scanner(self.root)
        folder = os.path.join(self.root, "journal")
        self.journal = Journal(folder, clock, readonly=readonly)
        self.taken = TakenIds(self.journal)
        self.journal.check = self._belongs
        self.journal.minted = self._minted
        # What the journal answers by itself.
        self.batch, self.damaged = self.journal.batch, self.journal.damaged
        self.holds, self.proof = self.journal.holds, self.journal.proof
        self.last, self.mark = self.journal.last, self.journal.mark
        self.mirror = Mirror(self.root, lambda section: self.journal.lock.run(section))
        self.pipes = os.path.join(self.root, ".index", "bells")
        self.state: Index | None = None
        # told of the first and the last record of each commit of this process
        self.reached: Callable[[int, int], None] = _nothing
        self.booted: str | None = None

    @property
    def readonly(self) -> bool:
        """Say whether this process may only read here; every write is refused."""
        return self.journal.readonly

    # -- the log -----------------------------------------------------------------------------------

    def append(
        self, record: Record, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        if once != record.once:
            record = record._replace(once=once)
        return self._append([record], unless)[0]

    def append_all(
        self, batch: Mapping[str, Record], *, unless: Guard | None = None
    ) -> list[Record]:
        records = [record._replace(once=once) for once, record in batch.items()]
        return self._append(records, unless)

    def _append(self, records: Sequence[Record], unless: Guard | None) -> list[Record]:
        records = [safe(record) for record in records]
        before: list[Index] = []  # the state of the log before the first of the records
        names: set[str] = set()  # what these records are called

        def derived() -> Index:
            if not before:
                before.append(self._derived())
            return before[0]

        def taken(id: str) -> bool:
            return id in names or derived().holder(id) is not None

        def place(record: Record, tail: Tail, at: int) -> Record:
            if record.once is not None or unless is not None:
                state, once = derived(), record.once
                first = None if once is None else state.first(record.by, once)
                if first is not None:
                    return self.at(first)
                demand(unless, state.keyed)
            if record.entry is not None:
                record = self._place_entry(record, tail, at, taken)
                names.update(names_of(record))
            return record

        if any(record.entry is not None for record in records):
            # Under the journal's lock all others would wait for a first import.
            from synapse.formats import codec as codec
        # A damaged index is found before a line is written.
        commit = partial(self.journal.append, records, place)
        results = commit() if self.state is None else self.state.twice(commit)
        written = [record for record, new in results if new]
        if written:
            self.taken.own.extend(written)
            self._follow(written)
            self.reached(written[0].seq, written[-1].seq)
        return [record for record, _ in results]

    def get(self, id: str) -> Record:
        seq = self._derived().holder(id)
        if seq is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return self.at(seq)

    def find(self, ids: Collection[str]) -> Iterator[Record]:
        """Yield the records that hold these ids, those that there are, in their order: many for one
        way through the log.
        """
        holder = self._derived().holder
        return self.journal.these(sorted({seq for seq in map(holder, ids) if seq is not None}))

    def at(self, seq: int) -> Record:
        record = self.journal.at(seq)
        if record is None:
            raise NotFound(f"the log has no record {seq}", seq=seq)
        return record

    def since(self, cursor: int = 0) -> Iterator[Record]:
        return self.journal.since(cursor)

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
            Record.new("archive", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        return self.append(
            Record.new("restore", by, {"ids": list(ids), "reason": reason}), unless=unless
        )

    def close(self) -> None:
        self.journal.close()
        self.mirror.close()

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
            self.mirror.place(path, raw, replace=True, synced=True)
            self.make_inbox(agent)
        except OSError as error:
            raise StoreError(
                f"{error.filename or path} could not be written: {error.strerror}"
            ) from error
        return self.append(agent_record(agent, by, was, sha=sha256(raw)))

    # -- adoption and finishing --------------------------------------------------------------------

    def look(self, admit: Admit, *, whole: bool = False) -> None:
        """Adopt what was dropped since the last look, oldest first. Of thousands of quiet threads a
        part, unless the whole tree is to be looked at.
        """
        state, now = self._derived(), time.time()
        try:
            items = list(self.scanner.look(self._known, now, whole=whole))
        except OSError:
            return  # a folder vanished or cannot be listed: the next look sees it
        if self.journal.view is not None:
            return  # a file of the other side is no drop
        intake = Intake(self, self.mirror, state, admit)
        intake.take(items)
        self.scanner.done(intake.waiting, now)

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
        return self._finish(limit)

    def _finish(self, limit: int | None) -> int:
        log = self.root, self.journal, self.mirror
        return settle.finish(*log, self.find, self._place, self._mend, limit)

    def _mend(self, pages: Collection[str]) -> None:
        """Write archive pages anew that are not what the journal says."""
        from synapse.log.proof import Proof, mend

        if pages:
            proof = Proof(self.root, self.journal, self.mirror)
            proof.run()
            proof.wrong &= {*pages}
            mend(proof)

    def catch_up(self) -> None:
        """Put the files there that writers who died left to others, and make the tree follow a
        journal that is another one than before. What was damaged stays as it is, and the journal
        too: whoever asks for a proof writes nothing into it.
        """
        if self.journal.view is None:
            self._finish(None)

    @property
    def lags(self) -> bool:
        """Say whether the tree is yet to follow a journal that is another one than before."""
        return settle.lags(self.root)

    def texts_of(self, record: Record) -> Iterator[bytes]:
        """Yield the texts that the tree has of an entry, wherever its file may be by now."""
        if not has_place(record):
            return
        for path in {path_of(record), live_path(record)}:
            raw = self.mirror.read(path)
            if raw is not None:
                yield raw
        page = self.mirror.read(settle.page_path(record), limit=1 << 40)
        yield from (entry.text for entry in pages(page or b"") if entry.id == record.id)

    def _place(self, id: str) -> str:
        return self._derived().whereabouts(id)

    def _known(self, folder: str) -> set[str]:
        state = self._derived()
        return state.names(folder)

    def recover(self, raws: Collection[bytes], records: Iterable[Record]) -> None:
        """Become the copy of another log: its lines as they are, then the tree that follows from
        them.
        """
        from synapse.log.unite import begin

        begin(self.root, self.journal, list(raws))
        records = list(records)
        voids = {record.fields["seq"] for record in records if record.kind == "void"}
        for record in (record for record in records if record.seq not in voids):
            settle.follow(self.mirror, (record,), self.find)

    # -- below -------------------------------------------------------------------------------------

    def _place_entry(
        self, record: Record, tail: Tail, at: int, taken: Callable[[str], bool]
    ) -> Record:
        """Return an entry's record with its id and its text. Called under the journal's lock."""
        id = self._claim(record, tail, taken)
        alias = record.fields.get("alias")
        if not alias or alias == id:
            return entry_record(record, at, id, alias_free=False)
        # A name of our own form is no alias from today on: the log has yet to give it to somebody
        # else.
        own = minted(alias)
        old = own is None or own[0] < tail.day
        return entry_record(record, at, id, old and not taken(alias))

    def _claim(self, record: Record, tail: Tail, taken: Callable[[str], bool]) -> str:
        """Return the entry's id. A wanted one is kept if it is free and not far ahead."""
        assert record.entry is not None
        own_id = record.entry.id
        namespace = record.entry.namespace
        kind = record.entry.kind
        if kind != kinds.ENTRY:
            dropped = record.text is not None
            return claim(kind, own_id, tail.chain, dropped, partial(self._held, tail))
        day, number = tail.day, tail.n
        if own_id and kinds.kind_of(own_id) == kinds.ENTRY and not taken(own_id):
            own = minted(own_id)
            if own is None or own[0] < day or (own[0] == day and own[1] <= number + 1000):
                return own_id
        while True:
            number += 1
            id = mint(day, number)
            if not os.path.lexists(f"{self.root}/entries/{namespace}/{id}.md"):
                return id

    def _minted(self, day: str) -> int:
        return 0 if self.state is None else self._derived().minted(day)

    def _held(self, tail: Tail, id: str) -> bool:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        return self.taken.holds(self.state, tail, id)

    def _belongs(self) -> None:
        """See under the log's lock that the index is this journal's, before a line follows one of
        another's.
        """
        self.taken = TakenIds(self.journal)
        if self.state is not None:
            self.state.catch_up()
        if self.journal.view is not None:
            merged = self._unite()
            if self.state is not None:
                self.state.hear(
                    f"the journal held two histories: {merged.records} records of the"
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
        copies = list(lines)
        if copies:
            # what they follow has to be a whole line, or a seal of what is none
            self.journal.finish()
        return self.journal.lock.run(lambda: self._unite(copies))

    def _unite(self, more: Collection[bytes] = ()) -> Merged:
        from synapse.log.unite import unite

        merged = unite(self.root, self.journal, self.mirror, more)
        self.scanner.restart()
        return merged

    def _derived(self) -> Index:
        if self.state is None:
            raise StoreError("the log was opened without its index")
        self.state.catch_up()
        return self.state

    def _follow(self, records: Sequence[Record]) -> None:
        """Notify followers of committed records, which they read in the journal; then write the
        files for people.
        """
        signal.notify(self.pipes)
        settle.follow(self.mirror, records, self.find)


def _nothing(first: int, last: int) -> None:
    """Tell nobody of a commit."""
