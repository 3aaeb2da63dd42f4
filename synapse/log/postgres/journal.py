"""A journal whose lines are committed in PostgreSQL. What lies in the folder is a copy of them,
byte for byte, written after the commit: whoever reads files reads what every machine reads.

Under the folder's lock lines are made behind the last one that is known here and sent to the
database, which stores them if they are still what follows there. Otherwise it answers with what
others wrote, and keeps its lock until the lines are made anew. Every read asks first how far the
database is; where that does not answer, the copy does, and a note says so.
"""

from __future__ import annotations

import os
import time
import uuid
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Sequence

from synapse.errors import Conflict, Forbidden, StoreBusy, StoreError, SynapseError
from synapse.log.accepted import Accepted
from synapse.log.chain import blanked, chain_of, encode, imprint, seq_of, tail_of
from synapse.log.disk import sync_directory, write_all, write_file
from synapse.log.journal import SEGMENT_BYTES, Journal, as_it_is, has_rules
from synapse.log.postgres.database import ConnectionLost, Database, Row, Turn
from synapse.model.placement import NOBODY, Decide, Keeper, Tail
from synapse.model.records import Record
from synapse.system.plain_files import make_folder, read_file
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.log.postgres.listener import Listener

READERS_WAIT = 1.0  # seconds for who holds the folder's lock
PATIENCE = 15.0  # seconds that an append goes on to look for what became of its commit
PAUSE = 0.2
QUIET = 5.0  # seconds without a word of the database, after which none is sent that commits
BATCH = 5_000  # lines that are read at once
MANY = 500  # lines of others that are taken in without the database's lock
OF = "database"  # the file in journal/ that names the workspace of which it is a copy
CUT = "cut"  # the folder of the records that the database has no more


class Made(NamedTuple):
    """Records as they are to stand behind one tail, and their lines."""

    results: list[tuple[Record, bool]]
    raws: list[bytes]

    @property
    def text(self) -> str:
        """Return the lines as the database takes them."""
        return b"".join(self.raws).decode()[:-1]


class PgJournal(Journal):
    """The segments of one folder, and the database that they are a copy of."""

    def __init__(
        self,
        directory: str,
        clock: Callable[[], int],
        database: Database,
        segment_bytes: int = SEGMENT_BYTES,
        readonly: bool = False,
        accepted: Accepted | None = None,
    ) -> None:
        super().__init__(directory, clock, segment_bytes, readonly, accepted)
        self.database = database
        self.crowded = False  # whether others appended since the last one of here
        self.known: tuple[int, str] | None = None  # the head of the database, as it was taken in
        self.listener: Listener | None = None
        self.arrive: Callable[[Sequence[bytes]], object] = len
        self.leave: Callable[[Iterable[bytes]], object] = list
        self.unsaid: list[str] = []  # notes, until somebody asks
        self.away: StoreBusy | None = None  # why the database does not answer
        self.asks_at = 0.0  # when it is asked again
        self.proved = self.readonly  # whether the folder is known to be a copy of this database
        if not self.readonly:
            try:
                self._demand_copy()
            except ConnectionLost as error:
                if not self._copied():
                    raise
                self._note_away(error, 0)

    def _copied(self) -> str:
        """Return the workspace that the folder is a copy of; empty where it is none yet."""
        try:
            return read_file(os.path.join(self.directory, OF), 100).decode().strip()
        except FileNotFoundError:
            return ""

    def _demand_copy(self) -> None:
        """Raise Conflict where the folder holds a journal that is no copy of this database's."""
        workspace = self.database.workspace()
        if not self._is_copy_of(workspace):
            self.lock.run(lambda: self._become_copy(workspace))
        self.proved = True

    def _is_copy_of(self, workspace: str) -> bool:
        own = self._copied()
        if own not in ("", workspace):
            raise Conflict(
                f"{self.directory} is a copy of another workspace than"
                f" {self.database.address.public} holds: name the database that it is of, or begin"
                " with a new folder"
            )
        return own == workspace

    def _become_copy(self, workspace: str) -> None:
        if self._is_copy_of(workspace):
            return  # another process was faster
        if super().last():
            raise Conflict(
                f"{self.directory} holds records that {self.database.address.public} does not"
                " have: make a new folder for the database, and `synapse export` from here is what"
                " it imports"
            )
        write_file(os.path.join(self.directory, OF), f"{workspace}\n".encode(), 0o600)

    # -- reading -----------------------------------------------------------------------------------

    def mark(self) -> tuple[int, int]:
        self._follow()
        return super().mark()

    def last(self) -> int:
        self._follow()
        return super().last()

    def since(self, cursor: int, texts: bool = True) -> Iterator[Record]:
        self._follow()
        return super().since(cursor, texts)

    def reached(self) -> int:
        """Return the last record of the copy."""
        return super().last()

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        self._follow()
        return super().these(seqs)

    def follow(
        self, arrive: Callable[[Sequence[bytes]], None], leave: Callable[[Iterable[bytes]], None]
    ) -> None:
        """Copy what the database has, and show from now on what comes of others, and what goes."""
        self.arrive, self.leave = arrive, leave
        self._follow()

    def listen(self, pipes: str) -> None:
        """Notify the listeners of this folder when another machine appended, from now on."""
        from synapse.log.postgres.listener import Listener

        if self.listener is None or not self.listener.alive:
            self.listener = Listener(self.database.address, self.database.channel, pipes)

    def _follow(self) -> None:
        """Copy what the database has more than this folder. Where it does not answer, or a process
        holds the folder, what is here has to do: a note says so, once.
        """
        if self.readonly or self.lock.holder == get_ident():
            return  # who appends reads the lines by which it decides
        begun = time.monotonic()
        if begun < self.asks_at:
            return
        try:
            self._demand_answer()
            if _head(self.database) != self.known:
                with self.lock.waits_at_most(READERS_WAIT):
                    self.lock.run(self._pull)
        except StoreBusy as error:
            self._note_away(error, time.monotonic() - begun)
        else:
            self.away = None

    def _demand_answer(self) -> None:
        """Raise ConnectionLost where the database does not answer, if it did not when it was last
        asked.
        """
        if not self.proved:
            self._demand_copy()
        elif self.away:
            _head(self.database)

    def _note_away(self, error: StoreBusy, took: float) -> None:
        """Note it, and have readers not wait for it again at once."""
        self.asks_at = time.monotonic() + 3 * took
        if not self.away:
            self.unsaid.append(
                f"{error}; what is read meanwhile comes from this machine's copy, and may lack what"
                " other machines wrote"
            )
        self.away = error

    def _pull(self) -> None:
        """Copy it, under the folder's lock. Return when it ends where the database does."""
        while True:
            tail = self._current(NOBODY)
            rows = self.database.ask("behind", tail.seq, BATCH)
            if not _continues(tail, rows):
                self._cut(tail)
                continue
            self._take_in(tail, rows)
            if len(rows) < BATCH:
                return

    def _take_in(self, tail: Tail, rows: Sequence[Row]) -> None:
        raws = [f"{raw}\n".encode() for seq, raw in rows if int(seq) > tail.seq]
        if raws:
            self._store(raws)
            self.arrive(raws)

    def _store(self, raws: Sequence[bytes]) -> None:
        """Write lines that the database has behind those that are here."""
        tail = self.tail
        assert tail is not None
        self.ruled = self.ruled or any(map(has_rules, raws))
        if self.accepted is not None:
            # Whoever may write into the database is believed, as who may write the files is.
            self.accepted.note(raws[0])
            self.accepted.add([imprint(raw) for raw in raws[1:]])
        try:
            for segment in _parts(raws, tail.end, self.segment_bytes):
                if tail.end >= self.segment_bytes:
                    self._fd(tail.seq + 1)
                    self.segment, tail = tail.seq + 1, tail._replace(end=0, start=-1)
                write_all(self._fd(self.segment), b"".join(segment))
                following = tail_of(segment[-1], tail.end + sum(map(len, segment[:-1])))
                assert following is not None
                self.tail = tail = following
        except OSError as error:
            self.tail = self.known = None
            raise StoreError(
                f"the copy of the journal in {self.directory} could not be written: {error}"
            ) from error
        self.known = (tail.seq, tail.chain)

    # -- writing -----------------------------------------------------------------------------------

    def append(
        self, records: Iterable[Record], decide: Decide = as_it_is, keeper: Keeper = NOBODY
    ) -> list[tuple[Record, bool]]:
        """Commit these records in the database and return them as stored: all of them or none. A
        commit whose answer was lost is looked up; StoreError says it where that cannot be done.
        """
        append = _Append(self, list(records), decide, keeper)
        return self.lock.run(append.run)

    def sync(self) -> None:
        """Do nothing: what was committed is on the database's disk."""

    def finish(self, keeper: Keeper = NOBODY) -> None:
        """Do nothing: what a writer that died left is cut off by the next."""

    def give_up_last(self, keeper: Keeper = NOBODY) -> None:
        """Do nothing: the database has the line."""

    def extend(self, lines: Iterable[bytes]) -> bool:
        """Make these lines, of which the first are those that are here, the log. Under the lock."""
        raws = list(lines)
        self._pull()
        tail = self._current(NOBODY)
        if tail.seq and (len(raws) < tail.seq or chain_of(raws[tail.seq - 1]) != tail.chain):
            raise Conflict("another machine appended meanwhile: do it again")
        new = raws[tail.seq :]
        accepted = self.accepted
        if accepted is not None and not all(accepted.holds(imprint(raw)) for raw in new):
            raise Forbidden(
                "what is in a database counts on every machine: import it with --believe, or"
                " accept it first where it was (`synapse trust --text`)",
                action="import",
            )
        with self.database.turn() as turn:
            attempt = str(uuid.uuid4())
            rows, _ = turn.hold(tail, tail.seq, attempt, 2)
            if not _continues(tail, rows) or (rows[-1:] and int(rows[-1][0]) > tail.seq):
                raise Conflict("another machine appended meanwhile: do it again")
            if new:
                turn.commit(tail, Made([], new).text, attempt)
                self._store(new)
        return True

    def blank(self, raw: bytes) -> None:
        """Take the text out of this line in the database, before it goes from the folder."""
        self.database.blank(seq_of(raw), blanked(raw).decode()[:-1])

    def _seal(self, fd: int, tail: Tail, size: int) -> None:
        """Cut off what is no whole line: the database has it, or it was never committed."""
        os.ftruncate(fd, tail.end)

    # -- another database than before --------------------------------------------------------------

    def _cut(self, tail: Tail) -> None:
        """Go back to the last line that this folder and the database have in common: the database
        is a standby that was behind, or was restored. What it has no more is kept aside.
        """
        end, _ = _head(self.database)
        low, high = 0, min(end, tail.seq)
        while low < high:
            middle = (low + high + 1) // 2
            own = next(raw for raw, _ in self._lines(*self._locate(middle - 1)))
            if self.database.ask("chain", middle) == [(chain_of(own),)]:
                low = middle
            else:
                high = middle - 1
        folder = os.path.join(os.path.dirname(self.directory), CUT)
        make_folder(folder)
        lost, path = (
            list(self.raw_since(low)),
            f"{folder}/{low + 1}-{tail.seq}-{tail.chain[:8]}.jsonl",
        )
        write_file(path, b"".join(lost), 0o600)
        self.unsaid.append(
            f"the database was set back: records {low + 1} to {tail.seq} are not in it any more;"
            f" {path} has them, and `synapse merge {path}` appends them"
        )
        segment, offset = self._locate(low)
        for start in self._list():
            if start > segment:
                os.unlink(self._path(start))
        os.ftruncate(self._fd(segment), offset)
        sync_directory(self.directory)
        self._look_again()
        self._forget()
        self.known = None
        self.leave(lost)

    def notes(self) -> list[str]:
        notes, self.unsaid = self.unsaid, []
        return notes

    def was_cut(self, seq: int) -> bool:
        folder = os.path.join(os.path.dirname(self.directory), CUT)
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return any(name.startswith(f"{seq + 1}-") for name in names)

    def close(self) -> None:
        """Close every file and connection. Idempotent."""
        if self.listener is not None:
            self.listener.close()
        self.database.close()
        super().close()


class _Append:
    """One append, until it is known what became of it."""

    def __init__(
        self, journal: PgJournal, records: list[Record], decide: Decide, keeper: Keeper
    ) -> None:
        self.journal = journal
        self.records = records
        self.decide = decide
        self.keeper = keeper
        self.attempt = str(uuid.uuid4())
        self.after = 0  # the tail that it began with
        self.sent: list[Made] = []  # what may have been committed

    def run(self) -> list[tuple[Record, bool]]:
        try:
            self.journal._demand_answer()
            return self._try()
        except ConnectionLost as error:
            raise StoreBusy(f"{error}; nothing was stored, write it again then") from error

    def _try(self) -> list[tuple[Record, bool]]:
        """Append, or raise ConnectionLost where nothing was stored."""
        self.after = self.journal._current(self.keeper).seq
        until, turn = time.monotonic() + PATIENCE, self._at_once
        if self.journal.crowded or self.journal.database.quiet > QUIET:
            turn = self._in_turn
        while True:
            try:
                results = turn()
            except ConnectionLost as error:
                if time.monotonic() > until or (not error.sent and not self.sent):
                    if self.sent:
                        raise StoreError(
                            f"it is not known whether this was stored: {error}; look for it before"
                            " you write it again"
                        ) from error
                    raise
                time.sleep(PAUSE)
                turn = self._in_turn
            else:
                if results is not None:
                    return results
                turn = self._at_once

    def _at_once(self) -> list[tuple[Record, bool]] | None:
        """Append behind the tail that is known here; in the database's turn where that is not the
        last any more. None where all is to be done again.
        """
        journal = self.journal
        tail = journal._current(self.keeper)
        try:
            batch = self._make(tail)
        except SynapseError:
            # decided by what is known here, which may not be all
            if not self._learn(tail):
                raise
            return None
        if not batch.raws:
            return batch.results
        with journal.database.turn() as turn:
            self.sent.append(batch)
            rows = turn.append(tail, batch.text, self.attempt, MANY)
            journal.crowded = rows is not None
            if rows is None:
                return self._stored(batch)
            self.sent.remove(batch)
            return self._with_head(turn, tail, rows)

    def _in_turn(self) -> list[tuple[Record, bool]] | None:
        """Take the database's turn first: others append too, or a commit is to be looked up, or the
        server may stand still, and store when it goes on what it was sent.
        """
        tail = self.journal._current(self.keeper)
        with self.journal.database.turn() as turn:
            rows, chain = turn.hold(tail, self.after, self.attempt, MANY)
            if not chain:
                self.journal.crowded = len(rows) > 1
                return self._with_head(turn, tail, rows)
        self.journal._pull()
        return next(batch.results for batch in self.sent if chain_of(batch.raws[0]) == chain)

    def _with_head(
        self, turn: Turn, tail: Tail, behind: Sequence[Row]
    ) -> list[tuple[Record, bool]] | None:
        """Make the lines behind the head, which is held, and commit them. None where the database
        has many more lines, or others than are here: those are taken in first, without the head.
        """
        journal = self.journal
        if len(behind) >= MANY or not _continues(tail, behind):
            turn.let_go()
            journal._pull()
            return None
        journal._take_in(tail, behind)
        tail = journal._current(self.keeper)
        batch = self._make(tail)
        if batch.raws:
            self.sent.append(batch)
            turn.commit(tail, batch.text, self.attempt)
            return self._stored(batch)
        return batch.results

    def _make(self, tail: Tail) -> Made:
        """Return the records as they are decided behind this tail, with their lines."""
        place, results, raws = self.decide(), list[tuple[Record, bool]](), list[bytes]()
        for record in self.records:
            placed, start, at = self.journal._placed(record, tail, place, self.keeper)
            if not placed.seq:
                raw, placed, tail = encode(start, at, placed)
                raws.append(raw)
                results.append((placed, True))
            else:
                results.append((placed, False))
        return Made(results, raws)

    def _learn(self, tail: Tail) -> bool:
        """Copy what the database has more; return whether that was anything."""
        self.journal._pull()
        return self.journal._current(self.keeper).chain != tail.chain

    def _stored(self, batch: Made) -> list[tuple[Record, bool]]:
        """Return what was committed, and write it into the folder as well; where that fails, it is
        copied by the next who reads.
        """
        try:
            self.journal._store(batch.raws)
        except StoreError:
            pass
        return batch.results


def _head(database: Database) -> tuple[int, str]:
    ((seq, chain),) = database.ask("head")
    return int(seq), chain


def _continues(tail: Tail, rows: Sequence[Row]) -> bool:
    """Return whether these lines of the database go on from this tail, which is the first one."""
    if not tail.seq:
        return True
    return bool(rows) and int(rows[0][0]) == tail.seq and rows[0][1][10:74] == tail.chain


def _parts(raws: Sequence[bytes], end: int, most: int) -> Iterator[list[bytes]]:
    """Yield the lines that go into one segment after another, of which the first ends here."""
    segment: list[bytes] = []
    for raw in raws:
        if end >= most:
            if segment:
                yield segment
            segment, end = [], 0
        segment.append(raw)
        end += len(raw)
    if segment:
        yield segment
