"""A file of imprints, and what it holds of the journal whose it is. `accepted` asks it."""

from __future__ import annotations

import os
from errno import EDQUOT, EIO, ENOSPC

from synapse.log.disk import write_all
from synapse.system import home
from synapse.system.plain_files import open_file

SIZE = 16  # bytes of an imprint
END = 256 * SIZE  # of a file that is read first: most who ask are about the last lines
_PASSING = frozenset((EDQUOT, EIO, ENOSPC))


class Imprints:
    """One file of imprints. It is read from its end, and to its beginning where that is needed."""

    def __init__(self, path: str, start: int = 0, persons: bool = False) -> None:
        self.path = path
        self.start = start  # where the first imprint is
        self.persons = persons
        self.fd = -1
        self.writing = False
        self.full = False  # the disk took the last imprints not, which may be over soon
        self.low = self.high = -1  # what was read of it

    def add(self, raw: bytes) -> bool:
        """Add imprints; return whether that was done."""
        try:
            write_all(self._open(writing=True), raw)
        except OSError as error:
            self.full = error.errno in _PASSING
            return False
        self.full = False
        return True

    def read_at(self, length: int, offset: int) -> bytes:
        """Return so many of its bytes; empty where there is no file."""
        try:
            return os.pread(self._open(), length, offset)
        except OSError:
            return b""

    def begins(self, mark: bytes) -> bool:
        """Return whether this is one of its first imprints."""
        raw = self.read_at(END, self.start)
        return any(raw[at : at + SIZE] == mark for at in range(0, len(raw), SIZE))

    def read(self, into: set[bytes], whole: bool) -> bool:
        """Take in what it has more; return whether that was anything."""
        try:
            fd = self._open()
            size = os.fstat(fd).st_size // SIZE * SIZE
            if self.high < 0:
                self.low = self.high = max(self.start, size - END)
            ranges = [(self.high, size)] if size > self.high else []
            ranges += [(self.start, self.low)] if whole and self.low > self.start else []
            for low, high in ranges:
                raw = os.pread(fd, high - low, low)
                into.update(raw[at : at + SIZE] for at in range(0, len(raw), SIZE))
        except OSError:
            return False
        self.high = max(self.high, size)
        self.low = self.start if whole else self.low
        return bool(ranges)

    def _open(self, writing: bool = False) -> int:
        """Return its descriptor; OSError where there is no such file, or it is not this user's."""
        if self.fd >= 0 and os.fstat(self.fd).st_nlink and self.writing >= writing:
            return self.fd
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)
        flags, mode = os.O_RDONLY, 0o600
        if writing:
            flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if self.persons else 0)
        if writing and self.persons:
            home.make_folder(os.path.dirname(self.path))
        fd = open_file(self.path, flags, mode)
        status = os.fstat(fd)
        if self.persons and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022):
            os.close(fd)
            raise PermissionError(f"{self.path} may be another user's work")
        if writing and status.st_size % SIZE:  # somebody was stopped in the middle
            os.write(fd, b"\0" * (SIZE - status.st_size % SIZE))
        self.fd, self.writing = fd, writing
        return fd

    def __del__(self) -> None:
        self.close()  # where a workspace was not closed, or could not be opened

    def close(self) -> None:
        """Close it. Idempotent."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)
