"""What belongs to the person and not to a workspace: one folder, outside of every workspace.

Decisions of trust lie here. The folder is its owner's alone (0700, files 0600), and a file is
replaced whole or not at all. Called by `synapse.trust.decisions`; knows no format.
"""

from __future__ import annotations

import os
import stat

from synapse.errors import StoreError

LONGEST = 1 << 20  # bytes of one file


def operator_home() -> str:
    """Return `$SYNAPSE_HOME`, else `$XDG_CONFIG_HOME/synapse`, else `~/.config/synapse`."""
    if folder := os.environ.get("SYNAPSE_HOME"):
        return os.path.abspath(os.path.expanduser(folder))
    config = os.environ.get("XDG_CONFIG_HOME", "")
    # a relative one is to be ignored, says its specification
    if not os.path.isabs(config):
        config = os.path.expanduser("~/.config")
    return os.path.join(config, "synapse")


def read(name: str) -> bytes | None:
    """Return a file of the folder, such as `trust/x.json`; None where there is none. StoreError
    where it may be another user's work.
    """
    path = os.path.join(operator_home(), name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", path=path) from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        own = status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022
        if not own or not stat.S_ISREG(status.st_mode):
            raise StoreError(
                f"{path} is not believed: another user of this machine may have written it;"
                " look at it, then delete it",
                path=path,
            )
        return file.read(LONGEST)


def write(name: str, raw: bytes, *, new: bool = False) -> None:
    """Put a file in place, whole, on the disk; a `new` one leaves what is there already."""
    path = os.path.join(operator_home(), name)
    aside = f"{path}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
    try:
        make_folder(os.path.dirname(path))
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(fd)
            if new:
                _link(aside, path)
            else:
                os.rename(aside, path)
        except BaseException:
            os.unlink(aside)
            raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", path=path) from error


def remove(name: str) -> bool:
    """Delete a file of the folder, and the folder where nothing else is in it; return whether
    there was one.
    """
    path = os.path.join(operator_home(), name)
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"{path} cannot be deleted: {error.strerror}", path=path) from error
    for folder in (os.path.dirname(path), operator_home()):
        try:
            os.rmdir(folder)
        except OSError:  # something is in it
            break
    return True


def _link(aside: str, path: str) -> None:
    try:
        os.link(aside, path)
    except FileExistsError:  # another process made it meanwhile
        pass
    os.unlink(aside)


def make_folder(folder: str) -> None:
    """Make the folder and those above it; what is new is its owner's alone."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for new in reversed(missing):
        try:
            os.mkdir(new, 0o700)
        except FileExistsError:  # another process made it meanwhile
            continue
