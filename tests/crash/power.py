"""What a power cut may leave of a folder: its writes are recorded, and every state is made anew that
a POSIX file system may leave after any of them.

`Recorder` takes the place of the functions of `os` and of `open` that change files, and notes what
they did; `power_disk.Disk` makes trees of that. What holds of them:

* Bytes that no sync of their file covers may be there, or not, or in part: cut at a sector of 512
  bytes, some sectors new and others old, or zeros in the place of new ones.
* Names that no sync of their folder covers may be there or not, each folder for itself, and within
  a folder in their order. A rename never leaves a file without both of its names.

SQLite writes by itself, and is trusted to survive: its files are left out.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import shutil
import stat
from pathlib import Path
from threading import RLock
from typing import NamedTuple

SQLITE = (".db", ".db-wal", ".db-shm", ".db-journal")


class Names(NamedTuple):
    """Names of a folder that changed at once: each with its file, None where it went. `needs` is
    the operation without which this one is not on the disk: a rename's new name.
    """

    folder: int
    changes: tuple[tuple[str, int | None], ...]
    needs: int | None = None


class Data(NamedTuple):
    """Bytes written at an offset of a file, or its new length."""

    file: int
    offset: int
    raw: bytes
    size: int | None = None


class Sync(NamedTuple):
    """A file, or a folder, was put on the disk."""

    node: int


class Acknowledged(NamedTuple):
    """Somebody was told something."""

    what: object


def is_recorded(name):
    return not name.endswith(SQLITE)


class Recorder:
    """The changes below a folder, in their order. `with` it, they are recorded."""

    def __init__(self, root, patch):
        self.root, self.patch, self.lock = str(root), patch, RLock()
        self.numbers, self.modes, self.count, self.ops = {}, {}, 0, []
        self.calls = {}
        self.folders, self.files = {}, {}
        self._scan(self._number(os.stat(self.root)), self.root)

    def acknowledge(self, what):
        with self.lock:
            self.ops.append(Acknowledged(what))

    def _scan(self, folder, path):
        """Note what is there already: all of it is on the disk."""
        names = self.folders[folder] = {}
        for entry in os.scandir(path):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                names[entry.name] = number = self._number(status)
                self._scan(number, entry.path)
            elif stat.S_ISREG(status.st_mode) and is_recorded(entry.name):
                key = status.st_dev, status.st_ino
                names[entry.name] = self.numbers.get(key) or self._number(status)
                self.files[names[entry.name]] = Path(entry.path).read_bytes()

    def _number(self, status):
        self.count += 1
        self.numbers[status.st_dev, status.st_ino] = self.count
        self.modes[self.count] = stat.S_IMODE(status.st_mode)
        return self.count

    def _forget(self, status):
        """Something new that is not recorded may have the inode of what was, and is gone."""
        self.numbers.pop((status.st_dev, status.st_ino), None)

    def _known(self, status):
        return self.numbers.get((status.st_dev, status.st_ino))

    def _place(self, path, dir_fd):
        """Return the folder of a path, None where it is another's, and the name in it."""
        folder, name = os.path.split(os.fsdecode(path).rstrip("/"))
        try:
            return self._known(os.stat(folder or ".", dir_fd=dir_fd)), name
        except FileNotFoundError:
            return None, name

    def _node(self, path, dir_fd):
        try:
            return os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _named(self, folder, *changes, needs=None):
        if folder is not None and all(is_recorded(name) for name, _ in changes):
            self.ops.append(Names(folder, changes, needs))

    # -- the functions that change files -----------------------------------------------------------

    def __enter__(self):
        for name in (
            "open write pwrite writev pwritev sendfile copy_file_range fsync fdatasync link rename"
            " replace unlink remove mkdir rmdir truncate ftruncate fchmod chmod symlink"
        ).split():
            self.calls[name] = getattr(os, name)
            self.patch.setattr(os, name, self._locked(getattr(self, name), name))
        self.calls["builtin"] = builtins.open
        for module in (builtins, io):
            self.patch.setattr(module, "open", self._opened)
        # which calls into C with its files
        self.patch.setattr(shutil, "_USE_CP_SENDFILE", False, raising=False)
        return self

    def __exit__(self, *error):
        self.patch.undo()

    def _locked(self, call, name):
        real = self.calls[name]

        def locked(first, *args, **options):
            if isinstance(first, int) and name not in ("fchmod",):
                status = os.fstat(first)
                if self._known(status) is None:
                    return real(first, *args, **options)
            elif name == "open" and not args[0] & (os.O_CREAT | os.O_TRUNC):
                return real(first, *args, **options)
            with self.lock:
                return call(real, first, *args, **options)

        return locked

    def open(self, real, path, flags, mode=0o777, *, dir_fd=None):
        folder, name = self._place(path, dir_fd)
        before = self._node(path, dir_fd)
        fd = real(path, flags, mode, dir_fd=dir_fd)
        status = os.fstat(fd)
        if before is None and folder is not None and is_recorded(name):
            self._named(folder, (name, self._number(status)))
        elif before is None:
            self._forget(status)
        elif flags & os.O_TRUNC and before is not None and before.st_size:
            self._cut(status, 0)
        return fd

    def _opened(
        self,
        file,
        mode="r",
        buffering=-1,
        encoding=None,
        errors=None,
        newline=None,
        closefd=True,
        opener=None,
    ):
        """Open a file as `open` does; one that is to be written writes through `os`."""
        if not set(mode) & set("wxa+"):
            return self.calls["builtin"](
                file, mode, buffering, encoding, errors, newline, closefd, opener
            )
        opener = opener or (lambda path, flags: os.open(path, flags, 0o666))
        raw = _File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        if "b" in mode:
            return buffer
        text = io.TextIOWrapper(buffer, encoding, errors, newline, buffering == 1)
        text.mode = mode
        return text

    def _wrote(self, fd, offset, count):
        """Note bytes that a file holds since just now, by reading them back."""
        back = self.calls["open"](f"/proc/self/fd/{fd}", os.O_RDONLY)
        try:
            raw = os.pread(back, count, offset)
        finally:
            os.close(back)
        self.ops.append(Data(self._known(os.fstat(fd)), offset, raw))

    def write(self, real, fd, data):
        count = real(fd, data)
        self._wrote(fd, os.lseek(fd, 0, os.SEEK_CUR) - count, count)
        return count

    writev = write

    def pwrite(self, real, fd, data, offset, *flags):
        count = real(fd, data, offset, *flags)
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
            offset = os.fstat(fd).st_size - count
        self._wrote(fd, offset, count)
        return count

    pwritev = pwrite

    def sendfile(self, real, fd, *args, **options):
        count = real(fd, *args, **options)
        self._wrote(fd, os.lseek(fd, 0, os.SEEK_CUR) - count, count)
        return count

    def copy_file_range(self, real, source, target, *args, **options):
        count = real(source, target, *args, **options)
        if self._known(os.fstat(target)) is not None:
            self._wrote(target, os.lseek(target, 0, os.SEEK_CUR) - count, count)
        return count

    def fsync(self, real, fd):
        real(fd)
        self.ops.append(Sync(self._known(os.fstat(fd))))

    fdatasync = fsync

    def link(self, real, src, dst, *, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=True):
        real(
            src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks
        )
        folder, name = self._place(dst, dst_dir_fd)
        self._named(folder, (name, self._known(self._node(dst, dst_dir_fd))))

    def rename(self, real, src, dst, *, src_dir_fd=None, dst_dir_fd=None):
        source, old = self._place(src, src_dir_fd)
        target, new = self._place(dst, dst_dir_fd)
        real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        node = self._known(self._node(dst, dst_dir_fd))
        if source == target:
            self._named(target, (new, node), (old, None))
            return
        self._named(target, (new, node))
        self._named(source, (old, None), needs=len(self.ops) - 1)

    replace = rename

    def unlink(self, real, path, *, dir_fd=None):
        folder, name = self._place(path, dir_fd)
        real(path, dir_fd=dir_fd)
        self._named(folder, (name, None))

    remove = rmdir = unlink

    def symlink(self, real, src, dst, *args, **options):
        folder, _ = self._place(dst, options.get("dir_fd"))
        assert folder is None, "no act makes a symbolic link in what it keeps"
        return real(src, dst, *args, **options)

    def mkdir(self, real, path, mode=0o777, *, dir_fd=None):
        real(path, mode, dir_fd=dir_fd)
        folder, name = self._place(path, dir_fd)
        if folder is not None:
            number = self._number(self._node(path, dir_fd))
            self.folders[number] = {}
            self._named(folder, (name, number))
        else:
            self._forget(self._node(path, dir_fd))

    def _cut(self, status, size):
        number = self._known(status)
        if number is not None:
            self.ops.append(Data(number, 0, b"", size))

    def truncate(self, real, path, length):
        real(path, length)
        self._cut(os.fstat(path) if isinstance(path, int) else os.stat(path), length)

    def ftruncate(self, real, fd, length):
        real(fd, length)
        self._cut(os.fstat(fd), length)

    def chmod(self, real, path, mode, **options):
        real(path, mode, **options)
        self._moded(os.stat(path, **options))

    def fchmod(self, real, fd, mode):
        real(fd, mode)
        self._moded(os.fstat(fd))

    def _moded(self, status):
        number = self._known(status)
        if number is not None:
            self.modes[number] = stat.S_IMODE(status.st_mode)


class _File(io.FileIO):
    """A file whose writes are recorded."""

    def write(self, data):
        return os.write(self.fileno(), data)

    def truncate(self, size=None):
        size = self.tell() if size is None else size
        os.ftruncate(self.fileno(), size)
        return size


def files_in(root):
    """Return the bytes of each file below a folder that is recorded, None for a folder."""
    found = {}
    for path in Path(root).rglob("*"):
        if path.is_dir() or (path.is_file() and is_recorded(path.name)):
            found[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return found
