"""Files written together or not at all: each atomically, with its mode and its link kept, and all
put back where one of them fails. No link below the folder that a file is `within` is followed.

Knows nothing of what is in the files. Called by `apply`.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from synapse.errors import Conflict, StoreError


class Edit(NamedTuple):
    """A file as it is and as it is to be; None where it is not there. `mode` None keeps that of the
    file."""

    path: str
    old: bytes | None
    new: bytes | None
    mode: int | None = None
    # to be removed with the file, where they are empty then
    folders: tuple[str, ...] = ()
    within: str = ""

    @property
    def verb(self) -> str:
        """Return what becomes of the file: `new`, `removed` or `changed`."""
        if self.old is None:
            return "new"
        return "removed" if self.new is None else "changed"

    @property
    def changes(self) -> bool:
        """Tell whether anything is written."""
        return self.old != self.new or (self.mode is not None and self.mode != mode_of(self.path))


class Wrote(NamedTuple):
    """The edits that were made, with the permission bits that the files had, and the folders that
    were made for them."""

    edits: list[Edit]
    folders: list[str]


def read(path: str) -> bytes | None:
    """Return the bytes of a file, None where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", path=path) from error


def refuse_link(path: str, within: str) -> None:
    """Raise Conflict where a part of a path below a folder is a link; any may be with no folder."""
    parts = os.path.relpath(path, within).split(os.sep) if within else []
    for number in range(len(parts)):
        part = os.path.join(within, *parts[: number + 1])
        if os.path.islink(part):
            raise Conflict(
                f"{part} is a link, to {os.readlink(part)}: links in a project are not followed, so"
                " nothing was written; remove it, or put the file or folder itself in its place",
                path=part,
            )


def mode_of(path: str) -> int | None:
    """Return the permission bits of a file, None where there is none."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None


def missing_folders(path: str) -> list[str]:
    """Return the folders that have to be made for a file, the outermost first."""
    folders: list[str] = []
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(folder):
        folders.insert(0, folder)
        folder = os.path.dirname(folder)
    return folders


def refuse_unwritable(edits: Sequence[Edit]) -> None:
    """Raise StoreError for the first file that this user could not write; nothing was tried
    then.
    """
    for edit in edits:
        if not edit.changes:
            continue
        real = os.path.realpath(edit.path)
        folder = os.path.dirname(real)
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise StoreError(
                f"{folder} is no folder, so {edit.path} cannot be written", path=edit.path
            )
        if os.path.isdir(real):
            raise StoreError(f"{edit.path} is a folder, and has to be a file", path=edit.path)
        blocked = real if os.path.exists(real) and not os.access(real, os.W_OK) else folder
        if blocked == real or not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(
                f"{edit.path} cannot be written: this user has no right to change {blocked}",
                path=edit.path,
            )


def write(edits: Sequence[Edit]) -> Wrote:
    """Write all the files, and return what was done. Where one of them fails, or was changed by
    somebody since it was read, those before it are put back."""
    refuse_unwritable(edits)
    done: list[Edit] = []
    new_folders: list[str] = []
    try:
        for edit in edits:
            refuse_link(edit.path, edit.within)
            if read(edit.path) != edit.old:
                raise Conflict(
                    f"{edit.path} was changed by somebody in this moment: try again", path=edit.path
                )
            was = mode_of(edit.path)
            if not edit.changes:
                continue
            folders = missing_folders(edit.path) if edit.new is not None else []
            for folder in folders:
                os.mkdir(folder, 0o777 if edit.within else 0o700)
                new_folders.append(folder)
            done.append(edit._replace(mode=was))
            _replace(edit)
    except (OSError, Conflict) as error:
        put_back(done, new_folders)
        if isinstance(error, Conflict):
            raise
        raise StoreError(
            f"{error.filename or edit.path} could not be written: {error.strerror}"
        ) from error
    for edit in done:
        if edit.new is None:
            for folder in reversed(edit.folders):
                _remove_empty(folder)
    return Wrote(done, new_folders)


def put_back(done: Sequence[Edit], new_folders: Sequence[str] = ()) -> None:
    """Give files their earlier bytes again, and remove the folders that were made."""
    for edit in reversed(done):
        refuse_link(edit.path, edit.within)
        _replace(edit._replace(old=edit.new, new=edit.old))
    for folder in reversed(new_folders):
        _remove_empty(folder)


def _replace(edit: Edit) -> None:
    """Give one file its new bytes, through a link where it is one and may be."""
    real = edit.path if edit.within else os.path.realpath(edit.path)
    if edit.new is None:
        if os.path.lexists(real):
            os.unlink(real)
        return
    mode = edit.mode if edit.mode is not None else mode_of(real)
    if edit.old == edit.new and os.path.exists(real):
        os.chmod(real, mode if mode is not None else 0o644)
        return
    if os.path.exists(real) and os.stat(real).st_nlink > 1:
        _overwrite(real, edit.new, mode)
        return
    fd, temporary = tempfile.mkstemp(prefix=".synapse-", dir=os.path.dirname(real))
    try:
        with open(fd, "wb") as file:
            file.write(edit.new)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode if mode is not None else 0o644)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise


def _overwrite(path: str, data: bytes, mode: int | None) -> None:
    """Give a file that has several names its new bytes where it is: a new file would be that of one
    name alone.
    """
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    if mode is not None:
        os.chmod(path, mode)


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass  # somebody's file is in it, or it is gone
