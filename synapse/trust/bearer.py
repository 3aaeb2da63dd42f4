"""Bearer tokens: a file with the hash of each, the agent that it belongs to, and what it may.

The file holds no token, only hashes: whoever reads it cannot act as anybody. A line is `AGENT:
SHA256`, and behind it `read-only` and `expires=TIME` where they apply; deleting it ends the token
with the next request. Called by the servers, and by the verbs that make and revoke tokens.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from threading import Lock

from synapse.errors import Forbidden, NotFound, StoreError, SynapseError
from synapse.log.disk import line_before, sync_directory, write_all
from synapse.model import clock
from synapse.model.namespace import is_component
from synapse.system.home import operator_home
from synapse.system.plain_files import open_file, read_file
from synapse.system.typed import NamedTuple

PREFIX = "syn_"
_HEX = frozenset("0123456789abcdef")
_READ_ONLY, _EXPIRES, _REVOKED = "read-only", "expires=", "revoked"

log = logging.getLogger(__name__)


class Token(NamedTuple):
    """A token as the file knows it: whose it is, its hash, whether it may write, and until which
    microsecond it is good.
    """

    agent: str
    hash: str
    read_only: bool = False
    expires: int | None = None

    @property
    def id(self) -> str:
        """Return the name by which people revoke it: the beginning of its hash."""
        return self.hash[:12]

    def line(self) -> str:
        parts = [f"{self.agent}: {self.hash}"]
        parts += [_READ_ONLY] if self.read_only else []
        parts += [_EXPIRES + clock.seconds(self.expires)] if self.expires else []
        return " ".join(parts)


def place(root: str) -> str:
    """Return where the tokens of a workspace are kept unless another file is named: in the folder
    of the person who serves it.
    """
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
    return os.path.join(operator_home(), "tokens", name)


class Lines(NamedTuple):
    """What a file says: its tokens by their hashes, how many of each agent were revoked, and the
    numbers of the lines that are passed over.
    """

    tokens: dict[str, Token]
    revoked: Mapping[str, int]
    passed: tuple[int, ...] = ()


class TokenFile:
    """The tokens in a file, read again when it changes."""

    def __init__(self, path: str, now: Callable[[], int] = clock.now) -> None:
        self.path = path
        self._now = now
        self._lock = Lock()
        self._signature: object = None
        self._lines = Lines({}, {})

    def load(self) -> dict[str, Token]:
        """Return the tokens by their hashes; an error where the file cannot be trusted."""
        return self._load().tokens

    def damaged(self) -> tuple[int, ...]:
        """Return the numbers of the lines that are passed over."""
        return self._load().passed

    def revocations(self, agent: str) -> int:
        """Return how many tokens of an agent were revoked; -1 where the file cannot be read."""
        try:
            return self._load().revoked.get(agent, 0)
        except NotFound:
            return 0
        except SynapseError:
            return -1

    def _load(self) -> Lines:
        with self._lock:
            status = _status(self.path)
            signature = (status.st_ino, status.st_size, status.st_mtime_ns)
            if signature != self._signature:
                self._lines = _read(self.path)
                self._signature = signature
            return self._lines

    def find(self, text: str) -> Token | None:
        """Return the token, None where it is nobody's, has expired, or the file cannot be read."""
        hashed = digest(text)
        try:
            token = self.load().get(hashed)
        except NotFound:
            return None
        except SynapseError as error:
            log.warning("no token is believed: %s", error)
            return None
        if token is None or not hmac.compare_digest(token.hash, hashed):
            return None
        expired = token.expires is not None and self._now() >= token.expires
        return None if expired else token

    def agent(self, text: str) -> str | None:
        """Return whose token this is, None where it is nobody's."""
        token = self.find(text)
        return None if token is None else token.agent


def digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(path: str, agent: str, *, read_only: bool = False, expires: int | None = None) -> str:
    """Make a token for an agent, put its hash into the file, and return it: it is never to be
    had again."""
    text = PREFIX + secrets.token_urlsafe(32)
    _append(path, Token(agent, digest(text), read_only, expires).line())
    return text


def revoke(path: str, wanted: str) -> list[Token]:
    """End the token with this id, or all tokens of the agent with this name, and return them. The
    line that says so stays: what was handed out is on record.
    """
    tokens = [
        token for token in TokenFile(path).load().values() if wanted in (token.id, token.agent)
    ]
    if not tokens:
        raise NotFound(f"there is no token {wanted}; `synapse token list` lists them", id=wanted)
    for token in tokens:
        _append(path, f"{token.agent}: {token.hash} {_REVOKED}")
    return tokens


def _append(path: str, line: str) -> None:
    if os.path.exists(path):
        _status(path)
        _read(path)
    try:
        real = os.path.realpath(path)
        fd = open_file(real, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            _close_last_line(fd)
            write_all(fd, f"{line}\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(os.path.dirname(real))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


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
    if line.endswith("\n"):
        return False
    if len(hash) <= 64:
        return len(hash) < 64 and (not colon or _HEX.issuperset(hash))
    return _options(hash[64:]) is None


def _status(path: str) -> os.stat_result:
    """Return the file's status. Raises Forbidden if users other than its owner may use it."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        advice = f"make one with `synapse token new AGENT --token-file {path}`"
        raise NotFound(f"there is no token file {path}: {advice}", id=path) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error.strerror}") from error
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise Forbidden(
            f"{path} can be used by other users: chmod 600 {path}", action="read tokens"
        )
    return status


def _read(path: str) -> Lines:
    """Return what the lines say. One that cannot be read ends the token that it names, and no
    other: it may have been its end.
    """
    try:
        lines = read_file(os.path.realpath(path)).splitlines(keepends=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    tokens: dict[str, Token] = {}
    revoked: Counter[str] = Counter()
    passed = list[int]()
    for number, raw in enumerate(lines, 1):
        line = raw.decode(errors="replace")
        if not line.strip() or line.startswith("#") or _is_part(line):
            continue
        agent, colon, after = (column.strip() for column in line.partition(":"))
        hash, _, options = after.partition(" ")
        chosen = _options(options)
        if (
            not colon
            or not is_component(agent)
            or len(hash) != 64
            or not _HEX.issuperset(hash)
            or chosen is None
        ):
            log.warning(
                "%s, line %d is passed over, and its token with it: write `AGENT: SHA256`, or"
                " have the line made with `synapse token new`",
                path,
                number,
            )
            passed.append(number)
            tokens = {key: token for key, token in tokens.items() if not _names(line, key)}
            continue
        read_only, expires, is_revoked = chosen
        tokens.pop(hash, None)
        if is_revoked:
            revoked[agent] += 1
        else:
            tokens[hash] = Token(agent, hash, read_only, expires)
    return Lines(tokens, revoked, tuple(passed))


def _names(line: str, hash: str) -> bool:
    """Return whether a line that was damaged in one place may name a hash."""
    return hash[:16] in line or hash[-16:] in line


def _options(text: str) -> tuple[bool, int | None, bool] | None:
    """Return what stands behind a hash: read-only, the end, revoked; None where it is no option."""
    expires = None
    words = text.split()
    for word in words:
        if word.startswith(_EXPIRES):
            try:
                expires = clock.micros(word.removeprefix(_EXPIRES))
            except SynapseError:
                return None
        elif word not in (_READ_ONLY, _REVOKED):
            return None
    return _READ_ONLY in words, expires, _REVOKED in words
