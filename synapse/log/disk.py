"""Bytes on a disk: whole lines, read from both ends; files and folders that outlive a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator

from synapse.errors import StoreError
from synapse.system.plain_files import open_file
from synapse.system.typed import T


def sync(fd: int) -> None:
    """Return when everything written to the file is on the disk, its cache included."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_directory(path: str) -> None:
    """Put the names in a directory on the disk, as they are now."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str, mode: int = 0o777) -> None:
    """Make a directory where there is none, and those above it, and put their names on the
    disk. The name of one that is there already is put there too: who made it may have died since.
    """
    grown = [os.path.dirname(os.path.abspath(path))]
    while not os.path.isdir(grown[-1]):
        grown.append(os.path.dirname(grown[-1]))
    try:
        os.makedirs(path, mode, exist_ok=True)
    except FileExistsError as error:
        why = errno.ENOTDIR
        raise NotADirectoryError(why, os.strerror(why), path) from error
    for folder in grown:
        try:
            sync_directory(folder)
        except PermissionError:
            continue  # it may be entered, but not opened


def write_file(path: str, raw: bytes, mode: int | None = None) -> None:
    """Write a file whole or not at all, whatever dies meanwhile, the machine included. It is on
    the disk, its name too, when this returns.
    """
    aside = f"{path}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(aside, new, 0o666 if mode is None else mode)
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            write_all(fd, raw)
            sync(fd)
        finally:
            os.close(fd)
        os.rename(aside, path)
    except BaseException:
        try:
            os.unlink(aside)
        except FileNotFoundError:
            pass
        raise
    sync_directory(os.path.dirname(os.path.abspath(path)))


def write_all(fd: int, raw: bytes) -> None:
    """Write all of it, in one call where the system agrees; a short write goes on."""
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]


def line_before(fd: int, end: int) -> tuple[int, bytes]:
    """Return the line that ends at this offset, newline or not, and where it starts."""
    step = 4096
    while True:
        start = max(0, end - step)
        block = os.pread(fd, end - start, start)
        cut = block.rfind(b"\n", 0, len(block) - 1)
        if cut >= 0 or start == 0:
            return start + cut + 1, block[cut + 1 :]
        step *= 4


def last_line(fd: int, end: int, whole: Callable[[bytes], bool]) -> tuple[int, bytes]:
    """Return where the last line before this offset begins that is whole, and the line; nothing
    where none is.
    """
    while end > 0:
        start, raw = line_before(fd, end)
        if whole(raw):
            return start, raw
        end = start
    return 0, b""


def line_from(
    fd: int, offset: int, end: int, number: Callable[[bytes], int]
) -> tuple[int, int] | None:
    """Return offset and number of the first whole line that starts at or after the offset, before
    the end, and has one.
    """
    step = 4096
    while True:
        block = os.pread(fd, min(step, end - offset), offset)
        start = block.find(b"\n") + 1
        stop = block.find(b"\n", start) if start else -1
        while stop >= 0:
            seq = number(block[start : stop + 1])
            if seq:
                return offset + start, seq
            start, stop = stop + 1, block.find(b"\n", stop + 1)
        if offset + len(block) >= end:
            return None
        step *= 4


def whole_lines(fd: int, offset: int) -> Iterator[bytes]:
    """Yield the lines from here on that have their newline, read in pieces: small at first, for
    most who ask are at the end, or stop soon.
    """
    partial_line, chunk = b"", 1 << 15
    while True:
        block = os.pread(fd, chunk, offset)
        if not block:
            return
        offset, chunk = offset + len(block), min(2 * chunk, 1 << 20)
        lines = (partial_line + block).split(b"\n")
        partial_line = lines.pop()
        for line in lines:
            yield line + b"\n"


def has_zeros(fd: int) -> bool:
    """Return whether a byte of the file is zero, as in a sector that was never written."""
    offset = 0
    while block := os.pread(fd, 1 << 20, offset):
        if b"\0" in block:
            return True
        offset += len(block)
    return False


def open_segment(path: str, readonly: bool) -> int | None:
    """Open a file of the journal, made where it is not there, to append to it; or, where nothing
    may be written, to read it. None is one that is not there then.
    """
    try:
        if not readonly:
            mode = os.stat(os.path.dirname(path)).st_mode & 0o644
            return open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
    except PermissionError:
        pass  # it may be read all the same
    except OSError as error:
        raise StoreError(f"the journal could not be opened: {error}") from error
    try:
        return open_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"the journal could not be opened: {error}") from error


def readable(look: Callable[[], T]) -> T:
    """Return what a look at the journal gives; StoreError where it cannot be read."""
    try:
        return look()
    except OSError as error:
        raise unreadable(error) from error


def unreadable(error: OSError) -> StoreError:
    """Return the error of a journal that cannot be read."""
    return StoreError(f"the journal could not be read: {error}")


def unwritten(error: OSError) -> StoreError:
    """Return the error of a journal that cannot be written."""
    return StoreError(f"the journal could not be written, nothing was stored: {error}")
