"""The tree that people and other programs read: one Markdown file per entry, archive pages,
quarantine.

It follows the journal and is not synced: whatever a crash leaves undone is done again from there.
What the journal does not hold, a declaration by its bytes, is synced. Every path is opened
component by component and no symbolic link is followed, so nothing lands outside the root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping

from synapse.errors import InvalidEntry, StoreError
from synapse.log.disk import sync, write_all
from synapse.model import kinds
from synapse.model.namespace import is_component
from synapse.model.records import Record
from synapse.system import plain_files
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OPEN, _CLOSE = b"<!-- synapse:entry id=", b" -->\n"
_MAX_OPEN = 64
WRITTEN = ".index/written"


class Page(NamedTuple):
    """One entry as it stands in an archive page."""

    id: str
    text: bytes
    whole: bool


class Mirror:
    """Files below one root. Directories stay open, so that a later symbolic link in their place
    changes nothing. Of an archive page that grows, no more is read than what others added since: a
    night files thousands away.
    """

    def __init__(self, root: str, alone: Callable[[Callable[[], None]], None]) -> None:
        self.root = root
        # runs what reads a page and then writes it, when nobody else does
        self.alone = alone
        self.open: dict[str, int] = {}
        self.modes: dict[int, int] = {}  # of the open directories, by descriptor
        # what a page held when it was last added to
        self.filed: dict[str, tuple[int, int, set[str]]] = {}
        self.written = -1  # the list of files that were put there, to add to
        self.known: tuple[int, set[bytes]] = (0, set())  # as far as it was read

    def place(
        self,
        path: str,
        text: bytes,
        *,
        replace: bool = False,
        mode: int = 0o644,
        sha: str | None = None,
        synced: bool = False,
    ) -> bool:
        """Put a file there, whole or not at all; where it is `synced`, this holds if the machine
        fails too. False where a file of that name stands and is not to be replaced.
        """
        folder, name = os.path.split(path)
        if kinds.is_folder(folder):
            self._note(_line(path, sha or sha256(text)))
        for attempt in (1, 2):
            directory = self._directory(folder)
            try:
                permissions = self.modes[directory]
                placed = self._place(directory, name, text, replace, mode & permissions, synced)
                if synced:
                    os.fsync(directory)
                return placed
            except FileNotFoundError:
                if attempt == 2:
                    raise
                os.close(self.open.pop(folder))
        return False

    def _note(self, line: bytes) -> None:
        """Add to the list of files that the log put there. One that is no more in the log is then
        known for what it is: with git, a journal goes back and may leave files behind.
        """
        try:
            if self.written < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self.written = plain_files.open_file(os.path.join(self.root, WRITTEN), flags)
            os.write(self.written, line)
        except OSError:
            pass  # it is as disposable as the index, beside which it stands

    def forget(self) -> None:
        """Empty the list of files that the log put there."""
        try:
            path = os.path.join(self.root, WRITTEN)
            os.close(plain_files.open_file(path, os.O_WRONLY | os.O_TRUNC))
        except OSError:
            pass

    def wrote(self, path: str, text: bytes) -> bool:
        """Return whether the log itself once put this file there."""
        end, lines = self.known
        try:
            fd = plain_files.open_file(os.path.join(self.root, WRITTEN))
            with open(fd, "rb") as file:
                if os.fstat(file.fileno()).st_size < end:
                    end, lines = 0, set()
                file.seek(end)
                raw = file.read()
        except OSError:
            return False
        complete = raw[: raw.rfind(b"\n") + 1]
        lines.update(complete.splitlines(keepends=True))
        self.known = end + len(complete), lines
        return _line(path, sha256(text)) in lines

    def read(self, path: str, limit: int = 1 << 22) -> bytes | None:
        """Return the bytes of a regular file, None where there is none; never through a link, never
        a device.
        """
        folder, _, name = path.rpartition("/")
        try:
            directory = self._directory(folder, create=False)
            fd = os.open(name, _REGULAR, dir_fd=directory)
        except (OSError, StoreError):
            return None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
                return None
            return _read_all(fd, status.st_size)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.root, path))

    def remove(self, path: str) -> None:
        folder, name = os.path.split(path)
        try:
            os.unlink(name, dir_fd=self._directory(folder, create=False))
        except (FileNotFoundError, NotADirectoryError):
            pass

    def settle(self, folder: str) -> None:
        """Put the names of a folder on the disk, if it is there: what was removed stays away even
        if the machine fails.
        """
        try:
            os.fsync(self._directory(folder, create=False))
        except (FileNotFoundError, NotADirectoryError):
            pass

    def prune(self, folder: str) -> None:
        """Remove a folder that nothing is in any more; who still holds it open makes it anew."""
        try:
            os.rmdir(
                os.path.basename(folder),
                dir_fd=self._directory(os.path.dirname(folder), create=False),
            )
        except OSError:
            return  # something is in it, or it is gone
        if folder in self.open:
            os.close(self.open.pop(folder))

    def move(self, path: str, to: str, mode: int) -> None:
        """Move whatever is there, links and devices themselves included. A file that has other
        names keeps its mode: it is theirs too.
        """
        folder, name = os.path.split(path)
        target, new = os.path.split(to)
        source = self._directory(folder, create=False)
        destination = self._directory(target)
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=destination)
        status = os.stat(new, dir_fd=destination, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            os.chmod(new, mode, dir_fd=destination)

    def file_away(self, page: str, texts: Mapping[str, bytes]) -> None:
        """Add entries to an archive page, each once; only `repair` writes one anew."""
        # not under the lock: others wait for it
        blocks = {id: block(id, text) for id, text in texts.items()}
        self.alone(lambda: self._add(page, blocks))

    def _add(self, page: str, blocks: Mapping[str, bytes]) -> None:
        folder, name = os.path.split(page)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = self._directory(folder)
        mode = self.modes[directory] & 0o644
        fd = os.open(name, flags, mode, dir_fd=directory)
        try:
            status = os.fstat(fd)
            inode, end, ids = self.filed.get(page, (0, 0, set[str]()))
            if inode != status.st_ino or end > status.st_size:
                end, ids = 0, set()
            os.lseek(fd, end, os.SEEK_SET)
            new = _read_all(fd, status.st_size - end)
            complete = new[: _torn_at(new)]
            # its writer died, and the block comes again from the journal
            if complete != new:
                os.ftruncate(fd, end + len(complete))
            ids.update(entry.id for entry in pages(complete) if entry.whole)
            added = b"".join(text for id, text in blocks.items() if id not in ids)
            if added:  # behind what else stands there, on a line of its own
                write_all(fd, added if complete[-1:] in (b"", b"\n") else b"\n" + added)
            ids.update(blocks)
            self.filed[page] = (status.st_ino, os.fstat(fd).st_size, ids)
        finally:
            os.close(fd)

    def close(self) -> None:
        while self.open:
            os.close(self.open.popitem()[1])
        if self.written >= 0:
            fd, self.written = self.written, -1
            os.close(fd)

    def _place(
        self, directory: int, name: str, text: bytes, replace: bool, mode: int, synced: bool
    ) -> bool:
        """Write a hidden draft and name it once it is whole. A file without a name needs no
        draft, but costs a busy ext4 ten times as much, because each passes its list of orphans.
        """
        draft = f".{name}.{os.getpid()}.{os.urandom(3).hex()}"
        fd = os.open(draft, _NEW, mode, dir_fd=directory)
        try:
            write_all(fd, text)
            if synced:
                sync(fd)
            if replace:
                os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
                return True
            os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            return True
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            try:
                os.unlink(draft, dir_fd=directory)
            except FileNotFoundError:
                pass

    def sweep(self, path: str) -> None:
        """Remove the drafts of a file that writers left behind who died while they wrote it."""
        folder, name = os.path.split(path)
        try:
            directory = self._directory(folder, create=False)
            names = [draft for draft in os.listdir(directory) if draft.startswith(f".{name}.")]
        except OSError:
            return  # there is no such folder
        for draft in names:
            self.remove(f"{folder}/{draft}")

    def _directory(self, folder: str, create: bool = True) -> int:
        """Return an open directory below the root, made where needed; no link is followed. One that
        was removed meanwhile is opened anew: another may have its name.
        """
        if folder in self.open:
            status = os.fstat(self.open[folder])
            if status.st_nlink:
                self.modes[self.open[folder]] = status.st_mode
                return self.open[folder]
            os.close(self.open.pop(folder))
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for inner, name in enumerate(filter(None, folder.split("/"))):
                if name in (".", ".."):
                    raise StoreError(f"{folder}: {name!r} is not a directory of this workspace")
                if create:
                    try:
                        # for whom the folder above is for; none but the owner writes
                        mode = os.fstat(fd).st_mode & 0o755 if inner else 0o755
                        os.mkdir(name, mode | 0o700, dir_fd=fd)
                    except FileExistsError:
                        pass
                try:
                    child = os.open(name, _DIRECTORY, dir_fd=fd)
                except NotADirectoryError as error:
                    raise StoreError(
                        f"{folder}: {name!r} is not a directory of this workspace"
                    ) from error
                os.close(fd)
                fd = child
        except BaseException:
            os.close(fd)
            raise
        if len(self.open) >= _MAX_OPEN:
            os.close(self.open.pop(next(iter(self.open))))
        self.open[folder] = fd
        self.modes[fd] = os.fstat(fd).st_mode
        return fd


def _line(path: str, sha: str) -> bytes:
    return f"{sha[:32]} {path}\n".encode()


def path_of(record: Record) -> str:
    """Return where the file of an entry's record was put first: while it waits for review, or
    live. InvalidEntry where the record names no place for an entry, as one from elsewhere may.
    """
    if record.path or not record.fields.get("staged"):
        return live_path(record)
    return kinds.place(record.id or "", record.fields, "staging")


def live_path(record: Record) -> str:
    """Return where the entry's file stands once it is neither staged nor archived; InvalidEntry as
    above. With `path_of`, this alone says where a record's file is: whatever writes, moves or
    removes one asks here.
    """
    if record.path is not None:
        return kinds.given(record.path, record.fields)
    return kinds.place(record.id or "", record.fields)


def has_place(record: Record) -> bool:
    """Return whether the record names a place where its entry's file may stand."""
    return unplaced(record) is None


def unplaced(record: Record) -> str | None:
    """Return why a record names no place for the file that follows from it: an entry's, or that of
    an agent; None where it does, or has no file.
    """
    try:
        if record.kind == "entry":
            if path_of(record).startswith("staging/"):
                live_path(record)
        elif record.kind == "agent" and not is_component(record.fields["agent"]["id"]):
            return f"{record.fields['agent']['id']!r} is no name of an agent"
    except InvalidEntry as error:
        return str(error)
    except (LookupError, ValueError, TypeError, AttributeError):
        return "what it says of its place cannot be read"
    return None


def block(id: str, text: bytes) -> bytes:
    """Return an entry as an archive page holds it: a marker with its length and hash, the text, an
    end mark.
    """
    digest = sha256(text)
    head = f"<!-- synapse:entry id={id} bytes={len(text)} sha256={digest} -->\n"
    return head.encode() + text + _end_of(id.encode())


def is_page(raw: bytes) -> bool:
    """Return whether an archive page is whole blocks and nothing else."""
    blocks = list(pages(raw))
    return all(page.whole for page in blocks) and raw == b"".join(
        block(page.id, page.text) for page in blocks
    )


def pages(raw: bytes) -> Iterator[Page]:
    """Yield the entries of an archive page, each read by its length: a body may hold anything,
    markers too.
    """
    for _, head, start, size in _blocks(raw):
        text = raw[start : start + size]
        intact = sha256(text).encode() == head[2][7:]
        yield Page(head[0].decode("ascii", "replace"), text, intact)


def _blocks(raw: bytes) -> Iterator[tuple[int, list[bytes], int, int]]:
    """Yield where each block of a page begins, the words of its head, where its text begins, and
    how long that is.
    """
    at = 0
    while (at := raw.find(_OPEN, at)) >= 0:
        if at and raw[at - 1 : at] != b"\n":
            at += 1
            continue
        line = raw[at : raw.find(b"\n", at) + 1]
        head = line[len(_OPEN) :].removesuffix(_CLOSE).split(b" ")
        if not line.endswith(_CLOSE) or len(head) != 3 or not head[1][6:].isdigit():
            at += 1
            continue
        start, size = at + len(line), int(head[1][6:])
        yield at, head, start, size
        at = start + size


def _torn_at(raw: bytes) -> int:
    """Return where the last block of a page begins if its end is missing, else the page's length.
    Behind a head without its text, what is added next would be taken for that text.
    """
    for at, head, start, size in _blocks(raw):
        if len(raw) < start + size + len(_end_of(head[0])):
            return at
    last = raw.rfind(b"\n") + 1
    torn = raw[last:]
    is_head = torn.startswith(_OPEN) or (torn and _OPEN.startswith(torn))
    return last if is_head else len(raw)


def _end_of(id: bytes) -> bytes:
    return b"\n<!-- /synapse:entry " + id + b" -->\n"


def _read_all(fd: int, size: int) -> bytes:
    raw = os.read(fd, min(size, 1 << 20))  # a small file comes at once
    chunks, size = [raw], size - len(raw)
    while raw and size > 0 and (chunk := os.read(fd, min(size, 1 << 20))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
