"""The journal: one hash-chained JSON line per record, in segments. The line is the commit.

    {"chain":"<64
    hex>","seq":7,"at":"…Z","day":"2026-02-01","n":3,"kind":"entry","by":"…",…,"sha":"…","text":"…"}

`chain` is the sha256 of the line before's chain and of this line's bytes between the chain and the
text; the text is covered by `sha`, so that a text can be redacted without breaking the chain. `n`
counts the ids minted on `day`: all that a writer must know stands in the last line. This module
knows lines, not entries.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from synapse.errors import StoreBusy, StoreCorrupt, StoreError
from synapse.log.chain import (
    GENESIS,
    Tail,
    chain_of,
    decode,
    decode_head,
    encode,
    is_whole,
    seq_of,
    tail_of,
)
from synapse.log.disk import (
    last_line,
    line_before,
    line_from,
    open_segment,
    readable,
    sync,
    sync_directory,
    unreadable,
    whole_lines,
    write_all,
)
from synapse.log.line import Line
from synapse.model.records import Record
from synapse.system.digest import sha256
from synapse.system.lock import Barred, lock_in

SEGMENT_BYTES = 64 << 20
_READERS = 16
# records that are passed over in less time than it takes to look for a place
_NEAR = 200
# ends a torn line; without the sign, one that lacks its end alone would read as whole
_TORN = b"~\n"


Make = Callable[[Tail, int], Line | Record]


class Journal:
    """The segments of one directory. Writers take the lock; readers need none."""

    def __init__(
        self,
        directory: str,
        clock: Callable[[], int],
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.directory = directory
        self.clock = clock
        self.segment_bytes = segment_bytes
        self.lock = lock_in(directory)
        self.readonly = isinstance(self.lock, Barred)
        if self.readonly and not os.path.isdir(directory):
            raise StoreError(
                f"{os.path.dirname(directory)} has no journal yet, and cannot be"
                f" written here: open it once where it can be, so that its entries are"
                " taken in"
            )
        self.listed = 0
        self.starts = self._list() or [1]
        self.fds: dict[int, int] = {}
        self.nothing = (
            -1
        )  # what is read in the place of a first segment that nobody has made yet
        self.inodes: dict[int, int] = {}  # of the files that are open, by descriptor
        self.segment = self.starts[
            -1
        ]  # the one written to: touched under the lock alone
        self.tail: Tail | None = None
        self.resume: dict[int, tuple[int, int]] = {}
        self.replaced = 0  # how often the files turned out to be others than before
        self.doubts = 0  # how often they were, or may have been
        self.stamp = (0, 0, 0)
        self.place = (0, 0)
        # our side's lines, where the files hold two histories
        self.view: list[bytes] | None = None
        self.retired: list[
            int
        ] = []  # of replaced files: somebody may still be reading there
        self.check: Callable[[], object] = lambda: (
            None
        )  # under the lock, before anything follows an unknown line
        self.checked = -1

    # -- writing -----------------------------------------------------------------------------------

    def append(self, makes: Iterable[Make]) -> list[tuple[Record, bool]]:
        """Commit the lines that these give for the tail and time at hand; they run under the lock.
        A Record instead of a Line is an answer: it is returned as it is and nothing is written. The
        second value says whether a line was written. One sync comes after the lock is released, so
        that writers share it. A crash, or a disk that has no room for a void, may leave the first
        lines alone; any other error leaves none.
        """
        made: list[tuple[Record, int]] = []

        def write() -> None:
            for make in makes:
                made.append(self._write(make))

        try:
            self.lock.run(write)
            for fd in {fd for _, fd in made if fd >= 0}:
                sync(fd)
        except BaseException as error:
            self._void(made)
            if isinstance(error, OSError):
                raise StoreError(
                    f"the journal could not be written, nothing was stored: {error}"
                ) from error
            raise
        return [(record, fd >= 0) for record, fd in made]

    def finish(self) -> None:
        """Seal what a writer that died left of its line."""
        fd = self._fd(self.starts[-1])
        size = os.fstat(fd).st_size
        if size and not is_whole(line_before(fd, size)[1]):
            self.lock.run(self._current)

    def _write(self, make: Make) -> tuple[Record, int]:
        tail = self._current()
        while self.checked != self.replaced:
            self.checked = self.replaced
            self.check()
            tail = self._current()
        at = max(self.clock(), tail.at + 1)
        made = make(tail, at)
        if isinstance(made, Record):
            return made, -1
        if tail.end >= self.segment_bytes:
            sync(self._fd(self.segment))
            self.segment, tail = tail.seq + 1, tail._replace(end=0, start=-1)
        return self._put(tail, at, made)

    def _put(self, tail: Tail, at: int, line: Line) -> tuple[Record, int]:
        fd = self._fd(self.segment)
        if tail.end == 0:
            self._sync_places(first=tail.seq == 0)
        raw, record, following = encode(tail, at, line)
        try:
            write_all(fd, raw)
        except OSError as error:
            os.ftruncate(fd, tail.end)
            raise StoreError(
                f"the journal could not be written, nothing was stored: {error}"
            ) from error
        self.tail = following
        return record, fd

    def _void(self, made: Iterable[tuple[Record, int]]) -> None:
        """Take back lines that were not synced, if the disk lets us; nobody was told that they were
        stored.
        """
        try:
            for record in (record for record, fd in made if fd >= 0):
                self.lock.run(partial(self._take_back, record))
        except (StoreError, OSError):
            pass

    def _take_back(self, record: Record) -> None:
        self._write(lambda tail, at: Line("void", record.by, {"seq": record.seq}))

    def _current(self) -> Tail:
        """The tail as it is now, under the lock: a torn end is sealed, a new segment noticed, and a
        file that is another one than before.
        """
        while True:
            fd, size = self._named()
            if self.tail is not None and not self._stands(fd, self.tail):
                self._forget()
                continue
            if self.tail is None or self.tail.end != size or size == 0:
                self.tail = self._find_tail(
                    fd, size, [start for start in self._list() if start <= self.segment]
                )
            # A segment is named by its first record, so the one that follows this tail has exactly
            # one name.
            if self.tail.seq + 1 != self.segment and os.path.exists(
                self._path(self.tail.seq + 1)
            ):
                self.segment, self.tail = self._list()[-1], None
                continue
            if self.tail.end != size:
                self._seal(fd, self.tail, size)
            return self.tail

    def _named(self) -> tuple[int, int]:
        """Return the file that has the segment's name now, open, with its size."""
        fd = self._fd(self.segment)
        try:
            status = os.stat(self._path(self.segment))
        except FileNotFoundError:
            status = None
        if status is not None and status.st_ino == self.inodes[fd]:
            return fd, status.st_size
        self._retire(self.segment)
        self._forget()
        fd = self._fd(self.segment)
        return fd, os.fstat(fd).st_size

    def _stands(self, fd: int, tail: Tail) -> bool:
        """Return whether the line that the tail was read from, or written to, is still there."""
        return (
            tail.start < 0 or os.pread(fd, 74, tail.start)[10:] == tail.chain.encode()
        )

    def _forget(self) -> None:
        """Trust nothing that was noted of the files: they are not those of before."""
        self._doubt()
        self.tail, self.segment = None, (self._list() or [1])[-1]
        if not self.lock.stands():
            self.lock = lock_in(self.directory)
            raise StoreBusy(
                "the journal's folder was replaced meanwhile; nothing was written, try again"
            )

    def _doubt(self) -> None:
        self.replaced += 1
        self.doubts += 1
        self.view = None
        self.resume.clear()

    def _retire(self, start: int) -> None:
        fd = self.fds.pop(start, None)
        if fd is not None:
            self.retired.append(fd)

    def _find_tail(self, fd: int, size: int, starts: list[int]) -> Tail:
        """The last whole line of the newest of these segments, else of the one before it."""
        start, raw = last_line(fd, size, is_whole)
        found = tail_of(raw, start) if raw else None
        if found:
            return found
        if len(starts) > 1:
            before = self._fd(starts[-2])
            start, raw = line_before(before, os.fstat(before).st_size)
            found = tail_of(raw, start)
            if found is None:
                raise StoreCorrupt(
                    f"segment {starts[-2]} of the journal ends in a torn line"
                )
            return found._replace(end=0, start=-1)
        return Tail(0, GENESIS, 0, "", 0, 0)

    def _seal(self, fd: int, tail: Tail, size: int) -> None:
        """A writer died within its write. Its bytes stay, named by a seal, and the chain goes on
        behind them.
        """
        torn = os.pread(fd, size - tail.end, tail.end)
        if not torn.endswith(b"\n"):
            write_all(fd, _TORN)
            torn += _TORN
        line = Line("seal", "log", {"bytes": len(torn), "sha": sha256(torn)})
        self._put(
            tail._replace(end=tail.end + len(torn)),
            max(self.clock(), tail.at + 1),
            line,
        )

    def _sync_places(self, first: bool) -> None:
        """A line is not on the disk before the name of its segment is, nor that before its
        directory's.
        """
        sync_directory(self.directory)
        if first:
            sync_directory(os.path.dirname(self.directory))

    # -- reading -----------------------------------------------------------------------------------

    def mark(self) -> tuple[int, int]:
        """Segment and size: a mark that grows whenever the journal does, for two system calls."""
        return readable(self._mark)

    def _mark(self) -> tuple[int, int]:
        changed, starts = os.stat(self.directory).st_mtime_ns, self.starts
        if changed != self.listed:
            self.starts = starts = self._list() or [1]
            self._look_again()
            # The clock of a file system ticks in milliseconds: a change of just now may not be the
            # last of its tick.
            self.listed = changed if time.time_ns() - changed > 50_000_000 else 0
        status = os.fstat(self._fd(starts[-1]))
        stamp = (starts[-1], status.st_size, status.st_mtime_ns)
        if stamp != self.stamp:
            self.doubts += stamp[:2] <= self.stamp[:2]  # it did not grow
            self.view = None
            self.stamp, self.place = stamp, stamp[:2]
        return self.place

    def _look_again(self) -> None:
        """Let go of the files that have lost their names to others, as a checkout does it."""
        for start, fd in list(self.fds.items()):
            try:
                same = os.stat(self._path(start)).st_ino == self.inodes[fd]
            except FileNotFoundError:
                same = False
            if not same:
                self._retire(start)
                self._doubt()

    def batch(
        self, cursor: int, limit: int, after: str = ""
    ) -> tuple[list[Record], str]:
        """Return the next records after the cursor, and the proof of the last of them: `holds`
        tells later whether the journal is still one that has it. `after` is the proof of the record
        at the cursor, behind which nothing is passed over unseen: a line of another history has a
        place that was there before.
        """
        records: list[Record] = []
        replaced, last, proof, place = (
            self.replaced,
            cursor,
            "",
            self._behind(cursor, after),
        )
        for raw, (segment, behind) in self._lines(*place):
            record = decode(raw)
            if record is None:
                continue
            if record.seq <= last:
                if chain_of(raw) not in after and self._parts():
                    return self.batch(cursor, limit, after)
                continue
            records.append(record)
            last, place = record.seq, (segment, behind)
            proof = self._proof(segment, behind - len(raw), raw)
            if len(records) == limit:
                break
        if records and replaced == self.replaced:
            self._remember((last, place))
        return records, proof

    def _behind(self, cursor: int, after: str) -> tuple[int, int]:
        """Return where the line begins that this is the proof of, or the first one after the
        cursor.
        """
        if self.view is not None or not after or after.startswith("0 "):
            return self._place(cursor)
        segment, start, _ = after.split(" ")[:3]
        known = int(segment) in self.starts and os.path.exists(self._path(int(segment)))
        return (int(segment), int(start)) if known else self._place(cursor)

    def _holds(self, seq: int, chain: str) -> bool:
        """`holds` for a proof that was made, or is asked for, where there are two histories."""
        if self._parts():
            return any(chain_of(raw) == chain for raw in reversed(self.view or ()))
        raw = next((raw for raw, _ in self._lines(*self._place(seq - 1))), b"")
        return seq_of(raw) == seq and chain_of(raw) == chain

    def _parts(self) -> bool:
        """Return whether the files hold two histories. From then on what is read is the one that
        begins first.
        """
        if self.view is None:
            from synapse.log.merge import sides

            found = sides(self.raw_lines())
            if not found.others:
                return False  # a line that stands there twice
            self.resume.clear()
            self.view = found.ours
        return True

    def proof(self, seq: int) -> str:
        """Return what `holds` asks for, of the record at this place; empty where there is none."""
        if seq <= 0:
            return ""
        for raw, (segment, behind) in self._lines(*self._place(seq - 1)):
            if (number := seq_of(raw)) >= seq:
                return (
                    self._proof(segment, behind - len(raw), raw)
                    if number == seq
                    else ""
                )
        return ""

    def _proof(self, segment: int, start: int, raw: bytes) -> str:
        """Where the line is, its chain, and how many segments there are up to it: a missing one may
        come back.
        """
        return (
            f"{segment} {start if segment else seq_of(raw)} {chain_of(raw)}"
            f" {self._before(segment)}"
        )

    def _before(self, segment: int) -> int:
        return sum(start <= segment for start in self.starts)

    def holds(self, proof: str) -> bool:
        """Return whether the record that this is the proof of is where it was. All before it is the
        same then, too: its chain is made of theirs.
        """
        if not proof:
            return True
        segment, start, chain, count = proof.split(" ")
        if segment == "0" or self.view is not None:
            return self._holds(int(start), chain)
        if int(segment) not in self.starts or self._before(int(segment)) != int(count):
            self.starts = self._list() or [1]
            if int(segment) not in self.starts or self._before(int(segment)) != int(
                count
            ):
                self._doubt()
                return False
        kept = readable(lambda: os.pread(self._fd(int(segment)), 74, int(start)))
        if kept[10:] == chain.encode():
            return True
        self._doubt()
        return False

    def last(self) -> int:
        """Return the seq of the last whole record."""
        if self.view is not None:
            return len(self.view)
        starts = self._list() or [1]
        fd = self._fd(starts[-1])
        return readable(lambda: self._find_tail(fd, os.fstat(fd).st_size, starts)).seq

    def _place(self, cursor: int) -> tuple[int, int]:
        return self.resume.get(cursor) or readable(lambda: self._locate(cursor))

    def since(self, cursor: int, texts: bool = True) -> Iterator[Record]:
        """Every whole record after the cursor. Torn and sealed lines are passed over, and doubled
        ones.
        """
        place = self._place(cursor)
        replaced = self.replaced
        before = now = (cursor, place)
        try:
            for raw, behind in self._lines(*place):
                record = decode(raw) if texts else decode_head(raw)
                if record is not None and record.seq > now[0]:
                    before, now = now, (record.seq, behind)
                    yield record
        finally:  # whoever stops at a record comes back for it, or for the next
            if replaced == self.replaced:
                self._remember(before, now)

    def raw_lines(self) -> Iterator[bytes]:
        """Every line of every file, whosever it is."""
        for start in self._list():
            yield from whole_lines(self._fd(start), 0)

    def lines(self) -> Iterator[bytes]:
        return (raw for raw, _ in self._lines(*readable(lambda: self._locate(0))))

    def _lines(
        self, segment: int, offset: int
    ) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """The whole lines from a place on, each with the place behind it."""
        if segment == 0:
            for number, raw in enumerate((self.view or [])[offset:], offset + 1):
                yield raw, (0, number)
            return
        try:
            while True:
                following = self._after(
                    segment
                )  # asked first: only a segment with a successor is complete
                for raw in whole_lines(self._fd(segment), offset):
                    offset += len(raw)
                    yield raw, (segment, offset)
                if following is None:
                    return
                segment, offset = following, 0
        except OSError as error:
            raise unreadable(error) from error

    def _remember(self, *places: tuple[int, tuple[int, int]]) -> None:
        """Where the records after these begin: an index, a follower, who finishes: each comes back
        to its own.
        """
        for seq, place in places:
            self.resume.pop(seq, None)
            self.resume[seq] = place
        while len(self.resume) > _READERS:
            self.resume.pop(next(iter(self.resume)), None)

    def at(self, seq: int) -> Record | None:
        return next(self.these((seq,)), None)

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        """The records at these places, each behind the one before. What lies between near ones is
        passed over on the way; only the line of a far one is looked for.
        """
        lines: Iterator[tuple[bytes, tuple[int, int]]] = iter(())
        found: Record | None = None
        for seq in seqs:
            if found is None or seq - found.seq > _NEAR:
                lines = self._lines(*readable(partial(self._locate, seq - 1)))
            while found is None or found.seq < seq:
                line = next(lines, None)
                if line is None:
                    return
                found = (decode(line[0]) if seq_of(line[0]) >= seq else None) or found
            if found.seq == seq:
                yield found

    def _after(self, segment: int) -> int | None:
        starts = self.starts
        if segment == starts[-1]:
            self.starts = starts = self._list() or starts
        return next((start for start in starts if start > segment), None)

    def _locate(self, cursor: int) -> tuple[int, int]:
        """Segment and offset of the first line after the cursor, by bisection over bytes: lines
        know their seq.
        """
        if self.view is not None:
            return 0, cursor
        self.starts = starts = self._list() or self.starts
        segment = max(
            (start for start in starts if start <= cursor + 1), default=starts[0]
        )
        fd = self._fd(segment)
        low, high, back = (
            0,
            os.fstat(fd).st_size,
            1 << 14,
        )  # from the end on: most are near it, and lines may be long
        while high - low > 4096:
            middle = (low + high) // 2 if low or back >= high else high - back
            found = line_from(fd, middle, high, seq_of)
            if found is None or found[1] > cursor:
                high, back = middle, 4 * back
            else:
                low = found[0]
        for raw in whole_lines(fd, low):
            if seq_of(raw) > cursor:
                break
            low += len(raw)
        return segment, low

    def _list(self) -> list[int]:
        names = os.listdir(self.directory)
        return sorted(
            int(name[:-6])
            for name in names
            if name.endswith(".jsonl") and name[:-6].isdigit()
        )

    def _path(self, start: int) -> str:
        return os.path.join(self.directory, f"{start:012d}.jsonl")

    def _fd(self, start: int) -> int:
        if start not in self.fds:
            fd = open_segment(self._path(start), self.readonly)
            if fd is None:  # it reads as empty, and is looked for again
                if self.nothing < 0:
                    self.nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                return self.nothing
            self.inodes[fd] = os.fstat(fd).st_ino
            if self.fds.setdefault(start, fd) != fd:
                os.close(fd)  # another thread was faster
        return self.fds[start]

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.nothing >= 0:
            os.close(self.nothing)
            self.nothing = -1
        while self.retired:
            os.close(self.retired.pop())
        self.lock.close()
