"""Reading the journal: its segments as files, its lines as records, from any cursor on.

Nothing here takes the lock or writes. `Journal` adds the writing; the index, followers and whoever
proves the log read through it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from functools import partial

from synapse.errors import StoreCorrupt
from synapse.log.chain import chain_of, decode, decode_head, is_whole, seq_of, tail_of
from synapse.log.damage import Stretch, has_text, stretches, walk
from synapse.log.disk import (
    has_zeros,
    last_line,
    line_before,
    line_from,
    open_segment,
    readable,
    unreadable,
    whole_lines,
)
from synapse.model.placement import GENESIS, NOTHING, Tail
from synapse.model.records import Record, demand_known, foreign
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.log.accepted import Accepted

_READERS = 16
# records that are passed over in less time than it takes to look for a place
_NEAR = 200


class JournalReader:
    """The segments of one directory, open as far as somebody read them."""

    def __init__(self, directory: str, readonly: bool, accepted: Accepted | None = None) -> None:
        self.directory = directory
        self.accepted = accepted  # which lines count; all of them where nothing is said
        self.readonly = readonly
        self.listed = 0
        self.starts = self._list() or [1]
        self.fds: dict[int, int] = {}
        # what is read in the place of a first segment that nobody has made yet
        self.nothing = -1
        self.inodes: dict[int, int] = {}  # of the files that are open, by descriptor
        self.resume: dict[int, tuple[int, int]] = {}
        self.replaced = 0  # how often the files turned out to be others than before
        self.doubts = 0  # how often they were, or may have been
        # records that were passed over, by their numbers
        self.damaged: set[int] = set()
        self.stamp = (0, 0, 0)
        self.place = (0, 0)
        # our side's lines, where the files hold two histories
        self.view: list[bytes] | None = None
        # of replaced files: somebody may still be reading there
        self.retired: list[int] = []

    def mark(self) -> tuple[int, int]:
        """Return segment and size: a mark that grows whenever the journal does, for two system
        calls.
        """
        try:
            changed, starts = os.stat(self.directory).st_mtime_ns, self.starts
            if changed != self.listed:
                self.starts = starts = self._list() or [1]
                self._look_again()
                # The clock of a file system ticks in milliseconds: a change of just now may not be
                # the last of its tick.
                self.listed = changed if time.time_ns() - changed > 50_000_000 else 0
            status = os.fstat(self._fd(starts[-1]))
        except OSError as error:
            raise unreadable(error) from error
        stamp = (starts[-1], status.st_size, status.st_mtime_ns)
        if stamp != self.stamp:
            self.doubts += stamp[:2] <= self.stamp[:2]  # it did not grow
            self.view = None
            self.stamp, self.place = stamp, stamp[:2]
        return self.place

    def _look_again(self) -> None:
        """Let go of the files that have lost their names to others, as a checkout does it."""
        for start, fd in list(self.fds.items()):
            if self._inode(start) != self.inodes[fd]:
                self._retire(start)
                self._doubt()

    def _inode(self, start: int) -> int:
        """Return the inode of the file that has a segment's name; 0 where there is none."""
        try:
            return os.stat(self._path(start)).st_ino
        except FileNotFoundError:
            return 0

    def batch(self, cursor: int, limit: int, after: str = "") -> tuple[list[Record], str]:
        """Return the next records after the cursor, and the proof of the last of them: `holds`
        tells later whether the journal is still one that has it. `after` is the proof of the record
        at the cursor, behind which nothing is passed over unseen: a line of another history has a
        place that was there before.
        """
        records: list[Record] = []
        replaced = self.replaced
        last = cursor
        proof = ""
        position = self._behind(cursor, after)
        chain = after.split(" ")[2] if after else GENESIS if cursor == 0 else None
        for step in walk(self._lines(*position), cursor, chain):
            raw, (segment, end), record, lost = step
            self.damaged.update(lost)
            if record is None:
                continue
            if record.seq <= last:
                if chain_of(raw) not in after and self._parts():
                    return self.batch(cursor, limit, after)
                continue
            records.append(self._counted(raw, record))
            last, position = record.seq, (segment, end)
            proof = self._proof(segment, end - len(raw), raw)
            if len(records) == limit:
                break
        if records and replaced == self.replaced:
            self._remember((last, position))
        return records, proof

    def _behind(self, cursor: int, after: str) -> tuple[int, int]:
        """Return where the line begins that this is the proof of, or the first one after the
        cursor.
        """
        if self.view is not None or not after or after.startswith("0 "):
            return self._place(cursor)
        segment, start, _ = after.split(" ")[:3]
        exists = int(segment) in self.starts and os.path.exists(self._path(int(segment)))
        return (int(segment), int(start)) if exists else self._place(cursor)

    def stretches(self) -> list[Stretch]:
        """Return what is damaged of the lines, in their order; nothing while the files hold two
        histories.
        """
        if self.view is not None:
            return []
        return list(stretches(self._lines(*readable(lambda: self._locate(0)))))

    def last_stretches(self) -> list[Stretch]:
        """Return what is damaged of the last segment, where a byte in it is zero: those before were
        on the disk when it was begun, and no line has such a byte.
        """
        start = (self._list() or [1])[-1]
        if self.view is not None or not has_zeros(self._fd(start)):
            return []
        return list(stretches(self._lines(start, 0), start - 1, "" if start > 1 else GENESIS))

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

            histories = sides(self.raw_lines())
            if not histories.others:
                return False  # a line that stands there twice
            self.resume.clear()
            self.view = histories.ours
        return True

    def proof(self, seq: int) -> str:
        """Return what `holds` asks for, of the record at this place; empty where there is none."""
        if seq <= 0:
            return ""
        for raw, (segment, end) in self._lines(*self._place(seq - 1)):
            if (number := seq_of(raw)) >= seq:
                return self._proof(segment, end - len(raw), raw) if number == seq else ""
        return ""

    def _proof(self, segment: int, start: int, raw: bytes) -> str:
        """Return where the line is, its chain, how many segments there are up to it (a missing one
        may come back), and its length: after a power cut a line may be there in part.
        """
        offset = start if segment else seq_of(raw)
        place_and_chain = f"{segment} {offset} {chain_of(raw)}"
        return f"{place_and_chain} {self._before(segment)} {len(raw)}"

    def _before(self, segment: int) -> int:
        return sum(start <= segment for start in self.starts)

    def holds(self, proof: str) -> bool:
        """Return whether the record that this is the proof of is where it was. All before it is the
        same then, too: its chain is made of theirs.
        """
        if not proof:
            return True
        segment, start, chain, count, *size = proof.split(" ")
        if segment == "0" or self.view is not None:
            return self._holds(int(start), chain)
        if int(segment) not in self.starts or self._before(int(segment)) != int(count):
            self.starts = self._list() or [1]
            if int(segment) not in self.starts or self._before(int(segment)) != int(count):
                self._doubt()
                return False
        length = int(size[0]) if size else 74  # an index of before has no length
        line = readable(lambda: os.pread(self._fd(int(segment)), length, int(start)))
        # Not all of a line may have come to the disk: it is cut then, or filled up with zeros.
        complete = len(line) == length and b"\0" not in line
        if line[10:74] == chain.encode() and complete:
            return True  # a changed byte in it is for `verify` to find
        self._doubt()
        return False

    def last(self) -> int:
        """Return the seq of the last whole record."""
        if self.view is not None:
            return len(self.view)
        segment = (self._list() or [1])[-1]
        fd = self._fd(segment)
        return readable(lambda: self._find_tail(fd, os.fstat(fd).st_size, segment)).seq

    def _place(self, cursor: int) -> tuple[int, int]:
        return self.resume.get(cursor) or readable(lambda: self._locate(cursor))

    def since(self, cursor: int, texts: bool = True) -> Iterator[Record]:
        """Yield every whole record after the cursor. Torn and sealed lines are passed over, and
        doubled ones.
        """
        position = self._place(cursor)
        replaced = self.replaced
        before = now = (cursor, position)
        try:
            for raw, end in self._lines(*position):
                record = decode(raw) if texts else decode_head(raw)
                if record is not None and record.seq > now[0]:
                    before, now = now, (record.seq, end)
                    yield self._counted(raw, record, texts)
        finally:  # whoever stops at a record comes back for it, or for the next
            if replaced == self.replaced:
                self._remember(before, now)

    def _counted(self, raw: bytes, record: Record, texts: bool = False) -> Record:
        """Return the record of a line, or what is told of one that is foreign. `texts`: nobody has
        looked yet whether its text is what its line says. NewerProtocol where it needs what this
        software does not know.
        """
        if self.accepted is not None:
            counts = self.accepted.takes(raw, record) and (not texts or has_text(record, raw))
            if not counts:
                return foreign(record)
        if "features" in record.fields:
            demand_known(record.fields["features"])
        return record

    def raw_lines(self) -> Iterator[bytes]:
        """Yield every line of every file, whosever it is."""
        for start in self._list():
            yield from whole_lines(self._fd(start), 0)

    def raw_since(self, cursor: int) -> Iterator[bytes]:
        """Yield the whole lines behind a record, as bytes."""
        return (raw for raw, _ in self._lines(*self._place(cursor)))

    def lines(self) -> Iterator[bytes]:
        return (raw for raw, _ in self._lines(*readable(lambda: self._locate(0))))

    def _lines(self, segment: int, offset: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield the whole lines from a place on, each with the place behind it."""
        if segment == 0:
            for number, raw in enumerate((self.view or [])[offset:], offset + 1):
                yield raw, (0, number)
            return
        try:
            while True:
                # Asked first: only a segment with a successor is complete.
                following = self._after(segment)
                for raw in whole_lines(self._fd(segment), offset):
                    offset += len(raw)
                    yield raw, (segment, offset)
                if following is None:
                    return
                if self._inode(segment) not in (0, self.inodes.get(self._fd(segment))):
                    self._look_again()  # others wrote into the one that has the name
                    continue
                segment, offset = following, 0
        except OSError as error:
            raise unreadable(error) from error

    def _remember(self, *places: tuple[int, tuple[int, int]]) -> None:
        """Note where the records after these begin: an index, a follower, who finishes: each comes
        back to its own.
        """
        for seq, position in places:
            self.resume.pop(seq, None)
            self.resume[seq] = position
        while len(self.resume) > _READERS:
            self.resume.pop(next(iter(self.resume)), None)

    def at(self, seq: int) -> Record | None:
        return next(self.these((seq,)), None)

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        """Yield the records at these places, each behind the one before. What lies between near
        ones is passed over on the way; only the line of a far one is looked for.
        """
        lines: Iterator[tuple[bytes, tuple[int, int]]] = iter(())
        record: Record | None = None
        for seq in seqs:
            if record is None or seq - record.seq > _NEAR:
                lines = self._lines(*readable(partial(self._locate, seq - 1)))
            while record is None or record.seq < seq:
                line = next(lines, None)
                if line is None:
                    return
                record = (decode(line[0]) if seq_of(line[0]) >= seq else None) or record
            if record.seq == seq:
                yield record

    def _after(self, segment: int) -> int | None:
        if segment == self.starts[-1]:
            self.starts = self._list() or self.starts
        return next((start for start in self.starts if start > segment), None)

    def _locate(self, cursor: int) -> tuple[int, int]:
        """Return segment and offset of the first line after the cursor, by bisection over bytes:
        lines know their seq.
        """
        if self.view is not None:
            return 0, cursor
        self.starts = starts = self._list() or self.starts
        segment = max((start for start in starts if start <= cursor + 1), default=starts[0])
        fd = self._fd(segment)
        # from the end on: most are near it, and lines may be long
        low, high, back = 0, os.fstat(fd).st_size, 1 << 14
        while high - low > 4096:
            middle = (low + high) // 2 if low or back >= high else high - back
            line = line_from(fd, middle, high, seq_of)
            if line is None or line[1] > cursor:
                high, back = middle, 4 * back
            else:
                low = line[0]
        for raw in whole_lines(fd, low):
            if seq_of(raw) > cursor:
                break
            low += len(raw)
        return segment, low

    def _list(self) -> list[int]:
        names = os.listdir(self.directory)
        return sorted(
            int(name[:-6]) for name in names if name.endswith(".jsonl") and name[:-6].isdigit()
        )

    def _path(self, start: int) -> str:
        return f"{self.directory}/{start:012d}.jsonl"

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

    def _find_tail(self, fd: int, size: int, segment: int) -> Tail:
        """Return the tail by the last whole line of the open segment, else of the one before it."""
        start, raw = last_line(fd, size, is_whole)
        tail = tail_of(raw, start) if raw else None
        if tail:
            return tail
        starts = [start for start in self._list() if start <= segment]
        if len(starts) <= 1:
            return NOTHING
        before = self._fd(starts[-2])
        start, raw = line_before(before, os.fstat(before).st_size)
        tail = tail_of(raw, start)
        if tail is None:
            raise StoreCorrupt(f"segment {starts[-2]} of the journal ends in a torn line")
        return tail._replace(end=0, start=-1)

    def _doubt(self) -> None:
        self.replaced += 1
        self.doubts += 1
        self.view = None
        self.resume.clear()
        if self.accepted is not None:
            self.accepted.forget()

    def _retire(self, start: int) -> None:
        fd = self.fds.pop(start, None)
        if fd is not None:
            self.retired.append(fd)

    def close(self) -> None:
        """Close every file. Idempotent."""
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.nothing >= 0:
            fd, self.nothing = self.nothing, -1
            os.close(fd)
        while self.retired:
            os.close(self.retired.pop())
