"""The secret of a workspace, from which its agents' fences come, and the form of what others wrote.
No templates here.
"""

from __future__ import annotations

import os

from synapse.errors import StoreError
from synapse.log.disk import make_directory, sync_directory
from synapse.system.plain_files import read_file
from synapse.system.quoting import escaped, prefixed

SECRET_BYTES = 32


def quoted(text: str) -> str:
    """Return the text behind `>`, line by line, with invisible characters spelled out. It ends in a
    newline.
    """
    return prefixed(escaped(text.strip("\n")), "> ")


def inline(text: str, most: int = 80) -> str:
    """Return the beginning of a text on one line, with invisible characters spelled out."""
    start = " ".join(text[: most * 4].split())
    return escaped(start[:most]) + "…" * (len(start) > most)


def secret(root: str) -> bytes:
    """Return the secret of a workspace, made at the first use; only its owner may read it."""
    path = os.path.join(root, "runs", ".secret")
    try:
        return _read(path) or _make(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read or made: {error}") from error


def _read(path: str) -> bytes | None:
    try:
        content = read_file(path, SECRET_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) != SECRET_BYTES:
        raise StoreError(
            f"{path} is damaged: {len(content)} bytes, not {SECRET_BYTES}; delete it,"
            f" and a new one is made"
        )
    return content


def _make(path: str) -> bytes:
    """Write the secret aside and link it, so that it is complete or absent, and the first of
    several writers wins.
    """
    make_directory(os.path.dirname(path), 0o700)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(os.urandom(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
    finally:
        os.unlink(aside)
    sync_directory(os.path.dirname(path))
    secret = _read(path)
    assert secret is not None  # it was linked, by us or by another
    return secret
