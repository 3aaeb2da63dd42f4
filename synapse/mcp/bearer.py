"""Tokens of the HTTP server: a file with the hash of each token, and the agent that it belongs to.

The file holds no token, only hashes: whoever reads it cannot act as anybody. A line is `AGENT:
SHA256`; deleting it ends the token with the next request.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from hashlib import sha256
from threading import Lock

from synapse.errors import Forbidden, InvalidEntry, NotFound, StoreError, SynapseError
from synapse.log.disk import line_before, sync_directory, write_all
from synapse.model.namespace import is_component

PREFIX = "syn_mcp_"
_HEX = frozenset("0123456789abcdef")

log = logging.getLogger(__name__)


class TokenFile:
    """The agents of the tokens in a file, read again when it changes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock()
        self._signature: object = None
        self._agents: dict[str, str] = {}

    def load(self) -> dict[str, str]:
        """Return the agents by their tokens' hashes; an error where the file cannot be trusted."""
        with self._lock:
            status = _status(self.path)
            signature = (status.st_ino, status.st_size, status.st_mtime_ns)
            if signature != self._signature:
                self._agents = _read(self.path)
                self._signature = signature
            return self._agents

    def agent(self, token: str) -> str | None:
        """Return whose token this is, None where it is nobody's, or the file cannot be read."""
        try:
            return self.load().get(digest(token))
        except SynapseError as error:
            log.warning("no token is believed: %s", error)
            return None


def digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(path: str, agent: str) -> str:
    """Make a token for an agent, put its hash into the file, and return it: it is never to be
    had again."""
    token = PREFIX + secrets.token_urlsafe(32)
    if os.path.exists(path):
        _status(path)
        _read(path)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _close_last_line(fd)
            write_all(fd, f"{agent}: {digest(token)}\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    return token


def _close_last_line(fd: int) -> None:
    """End the last line, or remove it where the machine went down before all of it was written."""
    start, last = line_before(fd, os.fstat(fd).st_size)
    if last and not last.endswith(b"\n"):
        if _is_part(last.decode(errors="replace")):
            os.ftruncate(fd, start)
        else:
            write_all(fd, b"\n")


def _is_part(line: str) -> bool:
    """Return whether a line is what a power cut left of one that was being added: its beginning,
    or zeros.
    """
    if "\0" in line:
        return True
    _, colon, hash = (column.strip() for column in line.partition(":"))
    ended = line.endswith("\n")
    return not ended and len(hash) < 64 and (not colon or _HEX.issuperset(hash))


def _status(path: str) -> os.stat_result:
    """Return the file's status. Raises Forbidden if users other than its owner may use it."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        advice = f"make one with `synapse mcp --token-file {path} --new-token AGENT`"
        raise NotFound(f"there is no token file {path}: {advice}", id=path) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error.strerror}") from error
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise Forbidden(
            f"{path} can be used by other users: chmod 600 {path}",
            action="read tokens",
        )
    return status


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        agent, colon, hash = (column.strip() for column in line.partition(":"))
        if not line.strip() or line.startswith("#") or _is_part(line):
            continue
        if (
            not colon
            or not is_component(agent)
            or len(hash) != 64
            or not _HEX.issuperset(hash)
        ):
            raise InvalidEntry(
                f"{path}, line {number}: write `AGENT: SHA256`, or make it with --new-token"
            )
        tokens[hash] = agent
    return tokens
