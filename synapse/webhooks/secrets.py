"""Secrets of webhooks: read from the environment or from a file outside of the workspace, when they
are needed, and kept nowhere.

A workspace names its secrets and never holds one. Which names are allowed, `formats.wants` says.
"""

from __future__ import annotations

import os
import stat

from synapse.errors import Forbidden, NotFound
from synapse.formats.wants import is_path
from synapse.system.plain_files import open_file

LONGEST = 4096  # bytes of a file
SHORTEST = 16  # characters of a token


def read_secret(name: str, root: str | None) -> str:
    """Return the secret under the name of a variable or the path of a file; NotFound where there is
    none, Forbidden where others may read the file.
    """
    text = _file(name, root) if is_path(name) else os.environ.get(name, "")
    secret = text.strip()
    if len(secret) < SHORTEST:
        problem = "is not set" if not secret else f"is shorter than {SHORTEST} characters"
        raise NotFound(f"the secret {name} {problem}", id=name)
    return secret


def _file(name: str, root: str | None) -> str:
    path = os.path.realpath(os.path.join(root or "", os.path.expanduser(name)))
    try:
        fd = open_file(path)
    except OSError as error:
        why = error.strerror or error
        raise NotFound(f"the secret {path} cannot be read: {why}", id=path) from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
            raise Forbidden(
                f"{path} can be read by other users, or is theirs: chmod 600 {path}",
                action="read a secret",
            )
        return file.read(LONGEST).decode("utf-8", "replace")
