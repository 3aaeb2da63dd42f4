"""The journal: one hash-chained JSON line per record, in segments. The line is the commit.

    {"chain":"<64 hex>","seq":7,"at":"…Z","day":"2026-02-01","n":3,"kind":"entry","by":"…",…,"sha":"…","text":"…"}

`chain` is the sha256 of the line before's chain and of this line's bytes between the chain and the text; the
text is covered by `sha`, so that a text can be redacted without breaking the chain. `n` counts the ids minted on
`day`: all that a writer must know stands in the last line. This module knows lines, not entries.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from synapse import clock
from synapse.digest import sha256
from synapse.errors import Conflict, StoreCorrupt, StoreError
from synapse.lock import Barred, lock_in
from synapse.log.disk import line_before, line_from, sync, sync_directory, whole_lines, write_all
from synapse.log.line import Line
from synapse.records import Record
from synapse.typed import NamedTuple, T

GENESIS = "0" * 64
SEGMENT_BYTES = 64 << 20
_HEAD = len('{"chain":"') + 64 + len('",')
_TEXT = b',"text":'
_NOT_TEXT = b',"\\u0074ext":'  # the same key, of a mapping within the fields
_READERS = 16
_NEAR = 200  # records that are passed over in less time than it takes to look for a place
_TORN = b"~\n"  # ends a torn line; without the sign, one that lacks its end alone would read as whole
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_loads = json.JSONDecoder().decode


class Tail(NamedTuple):
    """Where the journal ends: all that the next line depends on."""

    seq: int
    chain: str
    at: int
    day: str
    n: int
    end: int


Make = Callable[[Tail, int], Line | Record]


class Journal:
    """The segments of one directory. Writers take the lock; readers need none."""

    def __init__(self, directory: str, clock: Callable[[], int], segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = directory
        self.clock = clock
        self.segment_bytes = segment_bytes
        self.lock = lock_in(directory)
        self.readonly = isinstance(self.lock, Barred)
        if self.readonly and not os.path.isdir(directory):
            raise StoreError(
                f"{os.path.dirname(directory)} has no journal yet, and cannot be written here: open it"
                " once where it can be, so that its entries are taken in"
            )
        self.listed = 0
        self.starts = self._list() or [1]
        self.fds: dict[int, int] = {}
        self.nothing = -1  # what is read in the place of a first segment that nobody has made yet
        self.segment = self.starts[-1]  # the one written to: touched under the lock alone
        self.tail: Tail | None = None
        self.resume: dict[int, tuple[int, int]] = {}

    # -- writing -----------------------------------------------------------------------------------

    def append(self, makes: Iterable[Make]) -> list[tuple[Record, bool]]:
        """Commit the lines that these give for the tail and time at hand; they run under the lock. A Record instead
        of a Line is an answer: it is returned as it is and nothing is written. The second value says whether a line
        was written. One sync comes after the lock is released, so that writers share it. A crash, or a disk that has
        no room for a void, may leave the first lines alone; any other error leaves none.
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
                raise StoreError(f"the journal could not be written, nothing was stored: {error}") from error
            raise
        return [(record, fd >= 0) for record, fd in made]

    def finish(self) -> None:
        """Seal what a writer that died left of its line."""
        fd = self._fd(self.starts[-1])
        size = os.fstat(fd).st_size
        if size and not _is_whole(line_before(fd, size)[1]):
            self.lock.run(self._current)

    def _write(self, make: Make) -> tuple[Record, int]:
        tail = self._current()
        at = max(self.clock(), tail.at + 1)
        made = make(tail, at)
        if isinstance(made, Record):
            return made, -1
        if tail.end >= self.segment_bytes:
            tail = self._rotate(tail)
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
            raise StoreError(f"the journal could not be written, nothing was stored: {error}") from error
        self.tail = following
        return record, fd

    def begin_with(self, raws: Collection[bytes]) -> None:
        """Make these lines, already proven, the whole journal of a workspace that has none."""

        def write() -> None:
            if self._current().seq:
                raise Conflict("the journal holds records already")
            fd = self._fd(self.segment)
            for raw in raws:
                write_all(fd, raw)
            sync(fd)
            self.tail = None

        self.lock.run(write)

    def _void(self, made: Iterable[tuple[Record, int]]) -> None:
        """Take back lines that were not synced, if the disk lets us; nobody was told that they were stored."""
        try:
            for record in (record for record, fd in made if fd >= 0):
                self.lock.run(partial(self._take_back, record))
        except (StoreError, OSError):
            pass

    def _take_back(self, record: Record) -> None:
        self._write(lambda tail, at: Line("void", record.by, {"seq": record.seq}))

    def _current(self) -> Tail:
        """The tail as it is now, under the lock: a torn end is sealed, a new segment noticed."""
        while True:
            fd = self._fd(self.segment)
            size = os.fstat(fd).st_size
            if self.tail is None or self.tail.end != size or size == 0:
                self.tail = self._find_tail(fd, size)
            # A segment is named by its first record, so the one that follows this tail has exactly one name.
            if self.tail.seq + 1 != self.segment and os.path.exists(self._path(self.tail.seq + 1)):
                self.segment, self.tail = self._list()[-1], None
                continue
            if self.tail.end != size:
                self._seal(fd, self.tail, size)
            return self.tail

    def _find_tail(self, fd: int, size: int) -> Tail:
        """The last whole line of the newest segment, else of the one before it."""
        end = size
        while end > 0:
            start, raw = line_before(fd, end)
            found = _tail_of(raw, start + len(raw)) if _is_whole(raw) else None
            if found:
                return found
            end = start
        earlier = [start for start in self._list() if start < self.segment]
        if earlier:
            before = self._fd(earlier[-1])
            start, raw = line_before(before, os.fstat(before).st_size)
            found = _tail_of(raw, 0)
            if found is None:
                raise StoreCorrupt(f"segment {earlier[-1]} of the journal ends in a torn line")
            return found
        return Tail(0, GENESIS, 0, "", 0, 0)

    def _seal(self, fd: int, tail: Tail, size: int) -> None:
        """A writer died within its write. Its bytes stay, named by a seal, and the chain goes on behind them."""
        torn = os.pread(fd, size - tail.end, tail.end)
        if not torn.endswith(b"\n"):
            write_all(fd, _TORN)
            torn += _TORN
        line = Line("seal", "log", {"bytes": len(torn), "sha": sha256(torn)})
        self._put(tail._replace(end=tail.end + len(torn)), max(self.clock(), tail.at + 1), line)

    def _rotate(self, tail: Tail) -> Tail:
        sync(self._fd(self.segment))
        self.segment = tail.seq + 1
        return tail._replace(end=0)

    def _sync_places(self, first: bool) -> None:
        """A line is not on the disk before the name of its segment is, nor that before its directory's."""
        sync_directory(self.directory)
        if first:
            sync_directory(os.path.dirname(self.directory))

    # -- reading -----------------------------------------------------------------------------------

    def mark(self) -> tuple[int, int]:
        """Segment and size: a mark that grows whenever the journal does, for two system calls."""
        return self._readable(self._mark)

    def _mark(self) -> tuple[int, int]:
        changed, starts = os.stat(self.directory).st_mtime_ns, self.starts
        if changed != self.listed:
            self.starts = starts = self._list() or [1]
            # The clock of a file system ticks in milliseconds: a change of just now may not be the last of its tick.
            self.listed = changed if time.time_ns() - changed > 50_000_000 else 0
        return starts[-1], os.fstat(self._fd(starts[-1])).st_size

    def since(self, cursor: int, texts: bool = True) -> Iterator[Record]:
        """Every whole record after the cursor. Torn and sealed lines are passed over, and doubled ones."""
        place = self.resume.get(cursor) or self._readable(lambda: self._locate(cursor))
        before = now = (cursor, place)
        try:
            for raw, behind in self._lines(*place):
                record = decode(raw) if texts else decode_head(raw)
                if record is not None and record.seq > now[0]:
                    before, now = now, (record.seq, behind)
                    yield record
        finally:  # whoever stops at a record comes back for it, or for the next
            self._remember(before, now)

    def lines(self) -> Iterator[bytes]:
        return (raw for raw, _ in self._lines(*self._readable(lambda: self._locate(0))))

    def _lines(self, segment: int, offset: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """The whole lines from a place on, each with the place behind it."""
        try:
            while True:
                following = self._after(segment)  # asked first: only a segment with a successor is complete
                for raw in whole_lines(self._fd(segment), offset):
                    offset += len(raw)
                    yield raw, (segment, offset)
                if following is None:
                    return
                segment, offset = following, 0
        except OSError as error:
            raise _unreadable(error) from error

    def _remember(self, *places: tuple[int, tuple[int, int]]) -> None:
        """Where the records after these begin: an index, a follower, who finishes: each comes back to its own."""
        for seq, place in places:
            self.resume.pop(seq, None)
            self.resume[seq] = place
        while len(self.resume) > _READERS:
            self.resume.pop(next(iter(self.resume)), None)

    def at(self, seq: int) -> Record | None:
        return next(self.these((seq,)), None)

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        """The records at these places, each behind the one before. What lies between near ones is passed over on the
        way; only the line of a far one is looked for."""
        lines: Iterator[tuple[bytes, tuple[int, int]]] = iter(())
        found: Record | None = None
        for seq in seqs:
            if found is None or seq - found.seq > _NEAR:
                lines = self._lines(*self._readable(partial(self._locate, seq - 1)))
            while found is None or found.seq < seq:
                line = next(lines, None)
                if line is None:
                    return
                found = (decode(line[0]) if _seq_of(line[0]) >= seq else None) or found
            if found.seq == seq:
                yield found

    def _after(self, segment: int) -> int | None:
        starts = self.starts
        if segment == starts[-1]:
            self.starts = starts = self._list() or starts
        return next((start for start in starts if start > segment), None)

    def _locate(self, cursor: int) -> tuple[int, int]:
        """Segment and offset of the first line after the cursor, by bisection over bytes: lines know their seq."""
        self.starts = starts = self._list() or self.starts
        segment = max((start for start in starts if start <= cursor + 1), default=starts[0])
        fd = self._fd(segment)
        low, high, back = 0, os.fstat(fd).st_size, 1 << 14  # from the end on: most are near it, and lines may be long
        while high - low > 4096:
            middle = (low + high) // 2 if low or back >= high else high - back
            found = line_from(fd, middle, high, _seq_of)
            if found is None or found[1] > cursor:
                high, back = middle, 4 * back
            else:
                low = found[0]
        for raw in whole_lines(fd, low):
            if _seq_of(raw) > cursor:
                break
            low += len(raw)
        return segment, low

    def _readable(self, look: Callable[[], T]) -> T:
        try:
            return look()
        except OSError as error:
            raise _unreadable(error) from error

    def _list(self) -> list[int]:
        names = os.listdir(self.directory)
        return sorted(int(name[:-6]) for name in names if name.endswith(".jsonl") and name[:-6].isdigit())

    def _path(self, start: int) -> str:
        return os.path.join(self.directory, f"{start:012d}.jsonl")

    def _fd(self, start: int) -> int:
        if start not in self.fds:
            fd = self._open(self._path(start))
            if fd == self.nothing:
                return fd
            if self.fds.setdefault(start, fd) != fd:
                os.close(fd)  # another thread was faster
        return self.fds[start]

    def _open(self, path: str) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        if self.readonly:
            return self._readable_file(path)
        try:
            return os.open(path, flags, 0o644)
        except PermissionError:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"the journal could not be opened: {error}") from error

    def _readable_file(self, path: str) -> int:
        """Open a segment to read it alone. One that is not there reads as empty, and is looked for again."""
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if self.nothing < 0:
                self.nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return self.nothing
        except OSError as error:
            raise StoreError(f"the journal could not be opened: {error}") from error

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.nothing >= 0:
            os.close(self.nothing)
            self.nothing = -1
        self.lock.close()


def encode(tail: Tail, at: int, line: Line) -> tuple[bytes, Record, Tail]:
    """The bytes of the line that follows this tail, the record it holds, and the tail it leaves."""
    day = clock.day(at)
    n = line.n if line.n is not None else tail.n if tail.day == day else 0
    seq = tail.seq + 1
    text = None if line.text is None else line.text.encode()
    sha = None if text is None else sha256(text)
    pairs = {"seq": seq, "at": clock.iso(at), "day": day, "n": n, "kind": line.kind, "by": line.by, "id": line.id}
    pairs |= {"path": line.path, "once": line.once, "key": line.key, "f": line.fields or None, "sha": sha}
    head = _dumps({name: value for name, value in pairs.items() if value is not None})[1:-1].encode()
    head = head.replace(_TEXT, _NOT_TEXT)
    chain = link(tail.chain, head)
    body = b"" if line.text is None else _TEXT + _dumps(line.text).encode()
    raw = b'{"chain":"' + chain.encode() + b'",' + head + body + b"}\n"
    record = Record(seq, at, line.kind, line.by, line.id, line.fields, line.text, line.path, line.once, line.key, sha)
    return raw, record, Tail(seq, chain, at, day, n, tail.end + len(raw))


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"the journal could not be read: {error}")


def link(chain: str, head: bytes) -> str:
    return sha256(chain.encode(), head)


def decode(raw: bytes) -> Record | None:
    """The record on a line, or None for one that is torn."""
    try:
        got = _loads(raw.decode())
        get, at = got.get, clock.micros(got["at"])
        head = (got["seq"], at, got["kind"], got["by"], get("id"), get("f") or {})
        return Record(*head, get("text"), get("path"), get("once"), get("key"), get("sha"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def decode_head(raw: bytes) -> Record | None:
    """The record without its text: most of a line, for who only asks what it is about."""
    head, mark, _ = raw.partition(_TEXT)
    return decode(head + b"}" if mark else raw)


def _seq_of(raw: bytes) -> int:
    """What a line says that its place is, without a look at the rest of it; 0 where it says nothing of the kind."""
    said = raw[_HEAD : raw.find(b",", _HEAD)]
    return int(said[6:]) if said.startswith(b'"seq":') and said[6:].isdigit() else 0


def _is_whole(raw: bytes) -> bool:
    return raw.endswith(b"\n") and decode(raw) is not None


def split(raw: bytes) -> tuple[str, bytes, bytes]:
    """A line's chain, the bytes that the chain covers, and the JSON of its text, empty for none."""
    inner = raw[_HEAD:].rstrip(b"\n").removesuffix(b"}")
    head, mark, text = inner.partition(_TEXT)
    return raw[10:74].decode("ascii", "replace"), head, text if mark else b""


def _tail_of(raw: bytes, end: int) -> Tail | None:
    head, mark, _ = raw.partition(_TEXT)
    try:
        got = json.loads(head + b"}" if mark else head)
        return Tail(got["seq"], got["chain"], clock.micros(got["at"]), got["day"], got["n"], end)
    except (ValueError, KeyError, TypeError):
        return None
