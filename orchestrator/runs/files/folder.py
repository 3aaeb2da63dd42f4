"""The folder of a run: its steps, ledger, receipt and output, as files that anyone can read.

A line is complete or absent. What is synced is on the disk when `record` or `write` returns; of
other lines a power cut may leave a part, or zeros, which count for nothing.
Nothing here knows what a line means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from synapse.errors import NotFound, StoreError
from synapse.privacy.secrets import mask_json
from synapse.system import plain_files

STEPS = "steps.jsonl"
TIMES = "times.jsonl"
LEDGER = "ledger.jsonl"
OUTPUT = "output.md"
RECEIPT = "receipt.json"
MARK = "steps.mark"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
COPY = "they are a copy: the run may go on where they were copied from"
SHORTER = "they are shorter than they were"
TRANSCRIPT, ERROR = "transcript.log", "error.txt"


class Folder:
    """`runs/{run}/` of a workspace. One that does not outlive its process is not `lasting`, and
    nothing is synced.
    """

    def __init__(self, root: str, run: str, *, lasting: bool = True) -> None:
        self.path = os.path.join(root, "runs", run)
        self._lasting = lasting
        self._named = not lasting  # its name, and those of its files, are on the disk
        self._mended: set[str] = set()  # files of lines that a power cut may have torn

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> Folder:
        try:
            plain_files.make_folder(os.path.dirname(self.path))
            plain_files.make_folder(self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be made: {error}") from error
        return self

    def record(self, name: str, line: str, *, sync: bool = True) -> None:
        """Add a line to a file of lines, without the secrets that are in it. A torn end, left by a
        dead writer, is closed first.
        """
        line = mask_json(line)
        try:
            descriptor = self._open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                size = os.fstat(descriptor).st_size
                if size and name not in self._mended:
                    # a power cut may have left parts of its last lines
                    parts = (
                        os.pread(descriptor, 1 << 20, start) for start in range(0, size, 1 << 20)
                    )
                    os.ftruncate(descriptor, _end(b"".join(parts)))
                elif size and os.pread(descriptor, 1, size - 1) != b"\n":
                    os.ftruncate(descriptor, _whole(descriptor, size))
                self._mended.add(name)
                data = line.encode("utf-8", "surrogatepass")
                while data:
                    data = data[os.write(descriptor, data) :]
                if sync and self._lasting:
                    os.fdatasync(descriptor)
                if name == STEPS and (sync or not size):
                    self._mark(descriptor, synced=sync)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(f"{self._at(name)} cannot be written: {error}") from error
        if sync and not self._named:
            self._sync_names()

    def sync(self, name: str) -> None:
        """Put the lines of a file on the disk that were recorded without that."""
        if not self._lasting:
            return
        try:
            descriptor = self._open(name)
            try:
                os.fdatasync(descriptor)
                if name == STEPS:
                    self._mark(descriptor, synced=True)
            finally:
                os.close(descriptor)
            self._sync_names()
        except OSError as error:
            raise StoreError(f"{self._at(name)} cannot be written: {error}") from error

    def _mark(self, steps: int, *, synced: bool) -> None:
        """Note which file the steps are in, and how long it is: `evidence` compares. A line that is
        not synced may go with a power cut, and nothing was done by it.
        """
        status = os.fstat(steps)
        size = status.st_size if synced else 0
        descriptor = self._open(MARK, os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(descriptor, f"{status.st_ino} {size}\n".encode(), 0)
        finally:
            os.close(descriptor)

    def _sync_names(self) -> None:
        """Put the names of the folder and of what is in it on the disk, once."""
        runs = os.path.dirname(self.path)
        for path in (self.path, runs, os.path.dirname(runs)):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._named = True

    def write(self, name: str, text: str, *, sync: bool = True) -> str:
        """Write a file whole or not at all, whatever dies meanwhile, without the secrets that are
        in it, and return its path. Where it is synced, this holds if the machine fails too.
        """
        text = mask_json(text)
        path = self._at(name)
        aside = f"{path}.{os.getpid()}.new"
        try:
            descriptor = self._open(os.path.basename(aside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(
                descriptor, "w", encoding="utf-8", errors="surrogatepass", newline=""
            ) as file:
                file.write(text)
                file.flush()
                if sync and self._lasting:
                    os.fdatasync(file.fileno())
            os.rename(aside, path)
            if sync and self._lasting:
                self._sync_names()
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error}") from error
        return path

    def remove(self, name: str) -> int:
        """Remove a file, and return how many bytes it had; 0 where there is none. A link is not
        followed.
        """
        try:
            directory = os.open(self.path, _FOLDER)
            try:
                size = os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
                os.unlink(name, dir_fd=directory)
            finally:
                os.close(directory)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StoreError(f"{self._at(name)} cannot be removed: {error}") from error
        return size

    def read(self, name: str) -> str:
        try:
            with open(
                self._open(name), encoding="utf-8", errors="surrogatepass", newline=""
            ) as file:
                return file.read()
        except FileNotFoundError as error:
            raise NotFound(f"{self._at(name)} is not there", id=name) from error
        except OSError as error:
            raise StoreError(f"{self._at(name)} cannot be read: {error}") from error

    def lines(self, name: str) -> Iterator[str]:
        """Return the lines so far with their newlines; an empty list where there is no file."""
        try:
            with open(self._open(name), "rb") as file:
                yield from _split(_whole_lines(file.read()))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self._at(name)} cannot be read: {error}") from error

    def has(self, name: str) -> bool:
        return os.path.exists(self._at(name))

    def damage(self, lines: list[str]) -> str:
        """Return why these cannot be all the steps, by the mark beside them; nothing else."""
        inode, size = self._marked()
        if inode and inode != os.stat(self._at(STEPS)).st_ino:
            return COPY
        length = sum(len(line.encode("utf-8", "surrogatepass")) for line in lines)
        return SHORTER if length < size else ""

    def _marked(self) -> tuple[int, int]:
        """Return the inode and the length that were marked; zeros where none is known."""
        try:
            inode, size = next(iter(self.lines(MARK)), "0 0").split()
            return int(inode), int(size)
        except ValueError:
            return 0, 0

    def _open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file of the folder. A link in the place of either is not followed."""
        return _open_in(self.path, name, flags)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)


class Tail:
    """A file of lines that grows: each time, the whole lines that are new."""

    def __init__(self, root: str, run: str, name: str) -> None:
        self.path = os.path.join(root, "runs", run, name)
        self.offset = 0

    def lines(self) -> list[str]:
        try:
            with open(_open_in(*os.path.split(self.path)), "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error
        complete = _whole_lines(data)
        self.offset += len(complete.encode("utf-8", "surrogatepass"))
        return list(_split(complete))


def _open_in(folder: str, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of a folder that is no link."""
    directory = os.open(folder, _FOLDER)
    try:
        return plain_files.open_file(name, flags, dir_fd=directory)
    finally:
        os.close(directory)


def _end(data: bytes) -> int:
    """Return where the whole lines end: at the last newline, or before the first zeros."""
    zeros = data.find(b"\0")
    return data.rfind(b"\n", 0, len(data) if zeros < 0 else zeros) + 1


def _whole_lines(data: bytes) -> str:
    return data[: _end(data)].decode("utf-8", "surrogatepass")


def _split(text: str) -> Iterator[str]:
    """Split at line feeds alone: a line of JSON may hold other separators."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start : end + 1]
        start = end + 1
    if start < len(text):
        yield text[start:]


def _whole(descriptor: int, size: int) -> int:
    """Return the length of the file without its torn last line."""
    while size:
        start = max(size - 65_536, 0)
        newline = os.pread(descriptor, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0
