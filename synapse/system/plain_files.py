"""Regular files and folders of a workspace: opened without following a link and without waiting for
a pipe, and refused by name where something else stands in their place.

Somebody else may have put together what one opens. Only the path to the workspace itself may lead
through links. Whoever opens a file of a workspace by its name opens it here, or as `log.mirror`
does; SQLite, which opens by itself, is preceded by `demand_file`. Entries are no matter of this
module.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from synapse.errors import StoreError

# Folders that are opened by their path. In those marked, every name is looked at before that.
_FOLDERS = (
    (".index", True),
    ("journal", True),
    ("inbox", False),
    ("agents", False),
    ("bin", False),
    ("prompts", False),
    ("views", False),
    ("runs", False),
    ("runs/.clients", False),
    ("runs/.holders", False),
    ("runs/.plugins", False),
    ("runs/.webhooks", True),
)
DRAFT = "journal-"  # in .index: what will be renamed into the journal
_FILES = ("synapse.yaml", "team.yaml", "runs/spend.db", "runs/spend.db-journal")
_BESIDE = ("", "-wal", "-shm", "-journal")
_WRITES = os.O_WRONLY | os.O_RDWR
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_file(
    path: str, flags: int = os.O_RDONLY, mode: int = 0o600, dir_fd: int | None = None
) -> int:
    """Open a regular file and return its descriptor. OSError where the name is a link's or anything
    else's, or, for writing, where the file has another name beside this one.
    """
    try:
        fd = os.open(path, flags & ~os.O_TRUNC | _CAREFUL, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "it is a symbolic link, which is not followed"
        raise
    try:
        if why := _fault(os.fstat(fd), bool(flags & _WRITES)):
            raise OSError(errno.EINVAL, f"it {why}", path)
        if flags & os.O_TRUNC:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(path: str, limit: int = -1, dir_fd: int | None = None) -> bytes:
    """Return the bytes of a regular file, at most so many."""
    with open(open_file(path, dir_fd=dir_fd), "rb") as file:
        return file.read(limit)


def replace_file(path: str, raw: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, under a name that nobody can have taken before. It is not
    synced.
    """
    aside = f"{path}.{os.getpid()}.{os.urandom(3).hex()}"
    fd = open_file(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(fd, "wb") as file:
            file.write(raw)
        os.rename(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def make_folder(path: str, mode: int = 0o700) -> None:
    """Make one folder where there is none. OSError where something else, be it a link to one, has
    its name.
    """
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            text = "it is not a folder, and a link in its place is not followed"
            raise NotADirectoryError(errno.ENOTDIR, text, path) from None


def demand_file(path: str) -> None:
    """Raise StoreError where SQLite would not find its own file under this name, or beside it: it
    opens what there is.
    """
    for end in _BESIDE:
        if why := _fault_at(path + end, written=True):
            raise StoreError(_refusal(path + end, why))


def demand(root: str) -> None:
    """Raise StoreError where a place of a workspace is not its own: a link, or something that is no
    file or folder. Nothing was opened by then.
    """
    _drop_second_names(root)
    for path, why in faults(root):
        raise StoreError(_refusal(os.path.join(root, path), why))


def faults(root: str) -> list[tuple[str, str]]:
    """Return the places of a workspace that are not its own, each with what it is instead."""
    problems = []
    for folder, recursive in _FOLDERS:
        path = os.path.join(root, folder)
        try:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                problems.append((folder, _fault_at(path, written=True) or "is no folder"))
                continue
            names = os.listdir(path) if recursive else []
        except OSError:
            continue  # it is not there, or not for this user to see
        for name in names:
            why = _fault_at(os.path.join(path, name), written=True, folders=True)
            if why:
                problems.append((f"{folder}/{name}", why))
    for name in _FILES:
        if why := _fault_at(os.path.join(root, name), written="/" in name):
            problems.append((name, why))
    return problems


def _drop_second_names(root: str) -> None:
    """Delete the names under which parts of the journal were written, where the file has its place
    by now: a power cut within a rename may leave it both.
    """
    folder = os.path.join(root, ".index")
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return  # what it leads to is not ours
        drafts = [name for name in os.listdir(folder) if name.startswith(DRAFT)]
    except OSError:
        return
    for name in drafts:
        path = os.path.join(folder, name)
        with suppress(OSError):  # it went meanwhile, or may not be written
            if os.lstat(path).st_nlink > 1:
                os.unlink(path)


def _refusal(path: str, why: str) -> str:
    return (
        f"{path} {why}: what a workspace holds is its own, and no link in it is followed;"
        " put the file or folder itself there (a link to the whole workspace is fine)"
    )


def _fault_at(path: str, written: bool, folders: bool = False) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None  # nothing is there
    if folders and stat.S_ISDIR(status.st_mode):
        return None
    return _fault(status, written)


def _fault(status: os.stat_result, written: bool) -> str | None:
    """Return what is wrong with a file that is to be regular, with one name if it is written to."""
    if stat.S_ISREG(status.st_mode):
        if written and status.st_nlink > 1:
            return f"has {status.st_nlink} names (hard links)"
        return None
    kinds = (
        (stat.S_ISLNK, "symbolic link"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "named pipe"),
        (stat.S_ISSOCK, "socket"),
    )
    kind = next((name for is_it, name in kinds if is_it(status.st_mode)), "device")
    return f"is a {kind}"
