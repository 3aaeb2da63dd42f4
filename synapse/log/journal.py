"""The journal: one hash-chained JSON line per record, in segments. The line is the commit.

    {"chain":"<64
    hex>","seq":7,"at":"…Z","day":"2026-02-01","n":3,"kind":"entry","by":"…",…,"sha":"…","text":"…"}

`chain` is the sha256 of the line before's chain and of this line's bytes between the chain and the
text; the text is covered by `sha`, so that a text can be redacted without breaking the chain. `n`
counts the ids minted on `day`: all that a writer must know stands in the last line.

Here lines are written; `reader` reads them. Both know lines, not entries. The files log calls this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from synapse.errors import ReadOnly, StoreBusy, StoreCorrupt, StoreError
from synapse.log.accepted import FOREIGN_WORKSPACE, Accepted
from synapse.log.chain import encode, is_whole, tail_of
from synapse.log.damage import is_changed
from synapse.log.disk import line_before, sync, sync_directory, unwritten, write_all
from synapse.log.reader import JournalReader
from synapse.model.clock import day, stamp
from synapse.model.placement import NOBODY, Decide, Keeper, Place, Tail
from synapse.model.records import Record
from synapse.system.digest import sha256
from synapse.system.lock import Barred, lock_in

SEGMENT_BYTES = 64 << 20
# What ends a torn line. Without the sign, a line that lacks only its newline would read as whole.
_TORN = b"~\n"
_NEWS = 1 << 20  # bytes of other writers' lines that are read at once
# in a line by which others may not write as before: the second stands where the first does, but
# for lines of 0.2.0
_RULES = (b'"features":', b'"kind":"key"')


def _unchanged(record: Record, tail: Tail, at: int) -> Record:
    """Return a record that is complete as it is."""
    return record


def as_it_is() -> Place:
    """Return the decision about records that are complete as they are."""
    return _unchanged


class Journal(JournalReader):
    """The segments of one directory. Writers take the lock; readers need none."""

    def __init__(
        self,
        directory: str,
        clock: Callable[[], int],
        segment_bytes: int = SEGMENT_BYTES,
        readonly: bool = False,
        accepted: Accepted | None = None,
    ) -> None:
        self.clock = clock
        self.segment_bytes = segment_bytes
        if accepted is None or accepted.known:
            self.lock = lock_in(directory, readonly)
        else:
            self.lock = Barred(os.path.join(directory, "lock"), OSError(FOREIGN_WORKSPACE))
        readonly = isinstance(self.lock, Barred)
        if readonly and not os.path.isdir(directory):
            raise StoreError(
                f"{os.path.dirname(directory)} has no journal yet, and cannot be"
                f" written here: open it once where it can be, so that its entries are"
                " taken in"
            )
        super().__init__(directory, readonly, accepted)
        self.segment = self.starts[-1]  # where lines are written, under the lock alone
        self.tail: Tail | None = None
        self.checked = -1
        self.gives_up = False  # whether a line that was changed may be sealed
        self.ruled = True  # whether keys may have come or gone since the keeper was told

    def append(
        self, records: Iterable[Record], decide: Decide = as_it_is, keeper: Keeper = NOBODY
    ) -> list[tuple[Record, bool]]:
        """Commit these records and return them as stored, each with whether a line was written for
        it.

        What `decide` returns runs under the lock: it completes a record for the tail and the time
        at hand, or returns one that the log has already. One sync comes after the lock is released,
        so that writers share it. A crash, or a disk that has no room for a void, may leave the
        first lines alone; any other error leaves none.
        """
        results: list[tuple[Record, bool]] = []
        fds: set[int] = set()
        place = decide()

        def write() -> None:
            for record in records:
                results.append(self._write(record, place, keeper))
                # Also of a record that was there: whoever wrote it may have died before its sync.
                fds.add(self._fd(self.segment))

        try:
            self.lock.run(write)
            for fd in fds:
                sync(fd)
        except BaseException as error:
            self._void([record for record, new in results if new], keeper)
            if isinstance(error, OSError):
                raise unwritten(error) from error
            raise
        return results

    def sync(self) -> None:
        """Put the lines on the disk that are there by now, whoever wrote them: for who acts on one
        beyond this machine. A segment that is complete was synced before the next began.
        """
        try:
            sync(self._fd((self._list() or [1])[-1]))
        except OSError as error:
            raise StoreError(f"the journal could not be put on the disk: {error}") from error

    def finish(self, keeper: Keeper = NOBODY) -> None:
        """Seal what a writer that died left of its line."""
        fd = self._fd((self._list() or [1])[-1])
        size = os.fstat(fd).st_size
        if size and not is_whole(line_before(fd, size)[1]):
            self.lock.run(partial(self._current, keeper))

    def give_up_last(self, keeper: Keeper = NOBODY) -> None:
        """Seal a last line whose bytes were changed: what it said is given up."""
        self.gives_up = True
        try:
            self.lock.run(partial(self._current, keeper))
        finally:
            self.gives_up = False

    def follow(
        self, arrive: Callable[[Sequence[bytes]], None], leave: Callable[[Iterable[bytes]], None]
    ) -> None:
        """Do nothing: no lines arrive here but those that are written."""

    def listen(self, pipes: str) -> None:
        """Do nothing: whoever writes here notifies those who listen."""

    def extend(self, lines: Iterable[bytes]) -> bool:
        """Return whether these lines became the log where it is committed: here that is files."""
        return False

    def blank(self, raw: bytes) -> None:
        """Take the text out of this line where it is committed: here its file is all there is."""

    def notes(self) -> list[str]:
        """Return what is to be said since this was last asked, a sentence each."""
        return []

    def was_cut(self, seq: int) -> bool:
        """Return whether what stood behind this record was cut off."""
        return False

    def _write(self, record: Record, place: Place, keeper: Keeper) -> tuple[Record, bool]:
        """Write the line of a record, under the lock, to the segment that is to be synced; return
        it as stored, and whether a line was written.
        """
        tail = self._current(keeper)
        while self.checked != self.replaced:
            self.checked = self.replaced
            if self.accepted is not None and not self.accepted.known:
                raise ReadOnly(FOREIGN_WORKSPACE, path=self.directory)
            keeper.check()
            tail = self._current(keeper)
        placed, tail, at = self._placed(record, tail, place, keeper)
        if placed.seq:
            return placed, False
        if tail.end >= self.segment_bytes:
            sync(self._fd(self.segment))
            self._fd(tail.seq + 1)  # where that fails, the segment is still this one
            self.segment, tail = tail.seq + 1, tail._replace(end=0, start=-1)
        return self._put(placed, tail, at)

    def _placed(
        self, record: Record, tail: Tail, place: Place, keeper: Keeper
    ) -> tuple[Record, Tail, int]:
        """Return a record as it is decided, with the tail and the time that its line is to have."""
        if self.ruled:
            keeper.hear()
            self.ruled = False
        at = stamp(self.clock(), tail.at)
        # a new one; or an old one, where a clock was ahead
        if (now := day(at)) != tail.day:
            tail = tail._replace(day=now, n=keeper.minted(now))
        return place(record, tail, at), tail, at

    def _put(self, record: Record, tail: Tail, at: int) -> tuple[Record, bool]:
        fd = self._fd(self.segment)
        if tail.end == 0:
            # A line is not on the disk before the name of its segment is, nor that before its
            # directory's.
            sync_directory(self.directory)
            if tail.seq == 0:
                sync_directory(os.path.dirname(self.directory))
        raw, placed, following = encode(tail, at, record)
        if self.accepted is not None:
            # first: a line that is whole and not noted would be taken for another's
            self.accepted.note(raw)
        try:
            write_all(fd, raw)
        except OSError as error:
            os.ftruncate(fd, tail.end)
            if self.accepted is not None:
                self.accepted.forget()  # it may have been the first line
            raise unwritten(error) from error
        self.tail = following
        self.ruled = self.ruled or has_rules(raw)
        return placed, True

    def _void(self, records: Iterable[Record], keeper: Keeper) -> None:
        """Take back lines that were not synced, if the disk lets us; nobody was told that they were
        stored.
        """
        try:
            for record in records:
                void = Record.new("void", record.by, {"seq": record.seq})
                self.lock.run(partial(self._write, void, _unchanged, keeper))
        except (StoreError, OSError):
            pass

    def _current(self, keeper: Keeper) -> Tail:
        """Return the tail as it is now, under the lock. A torn end is sealed; a new segment, and a
        file that is another one than before, are noticed.
        """
        while True:
            fd, size = self._named()
            tail = self.tail
            if tail is not None and tail.start >= 0:
                raw = os.pread(
                    fd, min(size - tail.start, _NEWS) if size > tail.end else 74, tail.start
                )
                # the line that the tail was read from is gone
                if raw[10:74] != tail.chain.encode():
                    self._forget()
                    continue
                if size > tail.end:
                    self.ruled = self.ruled or has_rules(raw)
                    tail = _last_of(raw, tail, size)
            if tail is None or tail.end != size or size == 0:
                self.ruled = True
                tail = self._find_tail(fd, size, self.segment)
            self.tail = tail
            # A segment is named by its first record, so the one that follows this tail has exactly
            # one name.
            if tail.seq + 1 != self.segment and os.access(self._path(tail.seq + 1), os.F_OK):
                self.segment, self.tail = self._list()[-1], None
                continue
            if tail.end == size:
                return self.tail
            replaced = self.replaced
            # A seal takes the place of a record: what was lost there is found out before.
            keeper.check()
            if replaced == self.replaced:
                self._seal(fd, tail, size)
                return self.tail

    def _named(self) -> tuple[int, int]:
        """Return the file that has the segment's name now, open, with its size."""
        fd = self._fd(self.segment)
        try:
            status = os.stat(self._path(self.segment))
        except FileNotFoundError:
            status = None
        same = status is not None and status.st_ino == self.inodes[fd]
        if status is not None and same and self.lock.stands():
            return fd, status.st_size
        self._retire(self.segment)
        self._forget()
        fd = self._fd(self.segment)
        return fd, os.fstat(fd).st_size

    def _forget(self) -> None:
        """Trust nothing that was noted of the files: they are not those of before."""
        self._doubt()
        self.tail, self.segment = None, (self._list() or [1])[-1]
        self.demand_lock()

    def demand_lock(self) -> None:
        """Raise StoreBusy where others take another lock than this one, and take that."""
        if not self.lock.stands():
            self.lock = lock_in(self.directory)
            raise StoreBusy(
                "the journal's folder was replaced meanwhile; nothing was written, try again"
            )

    def _seal(self, fd: int, tail: Tail, size: int) -> None:
        """Seal a torn line: a writer died within its write. Its bytes stay, named by a seal, and
        the chain goes on behind them.
        """
        torn = os.pread(fd, size - tail.end, tail.end)
        if is_changed(torn) and not self.gives_up:
            raise StoreCorrupt(
                "the last line of the journal cannot be read, and is not torn: its bytes were"
                " changed; `synapse repair --dry-run` says what can be done",
                path=self._path(self.segment),
            )
        if not torn.endswith(b"\n"):
            write_all(fd, _TORN)
            torn += _TORN
        seal = Record.new("seal", "log", {"bytes": len(torn), "sha": sha256(torn)})
        end = tail.end + len(torn)
        self._put(seal, tail._replace(end=end), tail.at + 1)

    def close(self) -> None:
        """Close every file, behind whoever writes. Idempotent."""
        self.lock.close()
        super().close()


def has_rules(raw: bytes) -> bool:
    """Return whether a line is one by which others may not write as before."""
    return any(rule in raw for rule in _RULES)


def _last_of(known: bytes, tail: Tail, size: int) -> Tail | None:
    """Return the tail by the last of the lines behind a known one; None where it has to be looked
    for.
    """
    if len(known) < size - tail.start:
        return None
    start = known.rfind(b"\n", 0, -1) + 1
    return tail_of(known[start:], tail.start + start)
