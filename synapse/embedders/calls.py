"""One HTTP call to a server of embeddings: JSON out, JSON in, standard library alone. Knows no
server's format.

Follows no redirect and uses no proxy: what is embedded goes where synapse.yaml says, and nowhere
else.
"""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from synapse.errors import EmbedderError, Forbidden, InvalidEntry, Refused
from synapse.system.addresses import resolved
from synapse.system.typed import Any

PATIENCE = 60.0  # a server may have to load the model first
LONGEST = 256 << 20  # of an answer, in bytes


class Caller:
    """Posts to one address, over connections that stay open between calls. Threads may share it.

    `trusted` is the kind of place that the address was trusted as: each connection goes to a number
    that was found to be of it. A program's own address may be anything.
    """

    def __init__(
        self, url: str, headers: dict[str, str], patience: float = PATIENCE, trusted: str = ""
    ) -> None:
        self.url = url
        self.place = checked_url(url)
        self.headers = {"content-type": "application/json", "accept": "application/json", **headers}
        self.patience, self.trusted = patience, trusted
        self.idle: list[HTTPConnection] = []

    def post(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the answer's object. Raise Refused where asking again is of no use, else
        EmbedderError.
        """
        text = json.dumps(fields).encode()
        try:
            while self.idle:
                try:
                    return self._exchange(self.idle.pop(), path, text)
                except (ConnectionError, HTTPException):
                    continue  # closed since: only a new one says whether the server is there
                except IndexError:
                    break  # another thread took it
            return self._exchange(self._connection(), path, text)
        except (OSError, HTTPException) as error:
            raise EmbedderError(
                f"{self.url} cannot be reached: {_named(error)}", url=self.url
            ) from error

    def close(self) -> None:
        """Close what is open; a later call opens anew."""
        while self.idle:
            self.idle.pop().close()

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self.place.scheme == "https" else HTTPConnection
        connection = kind(self.place.hostname or "", self.place.port, timeout=self.patience)
        if self.trusted:  # its name stays the host's, for the certificate
            connection._create_connection = self._connect  # type: ignore[attr-defined]
        return connection

    def _connect(
        self, address: tuple[str, int], timeout: float, source: None = None
    ) -> socket.socket:
        """Connect to a number of the host that is of the kind that was trusted."""
        host, port = address
        try:
            numbers = resolved(host, port, self.trusted)
        except Forbidden as error:
            raise EmbedderError(str(error), url=self.url) from error
        failed: OSError | None = None
        for number in numbers:
            try:
                return socket.create_connection((number, port), timeout)
            except OSError as error:
                failed = error
        raise failed or OSError(f"{host} has no address")

    def _exchange(self, connection: HTTPConnection, path: str, text: bytes) -> dict[str, Any]:
        try:
            connection.request("POST", self.place.path.rstrip("/") + path, text, self.headers)
            answer = connection.getresponse()
            raw = answer.read(LONGEST + 1)
            if len(raw) > LONGEST:
                raise EmbedderError(
                    f"{self.url} answered more than {LONGEST >> 20} MiB", url=self.url
                )
        except BaseException:
            connection.close()
            raise
        self.idle.append(connection)
        if answer.status != 200:
            raise self._problem(answer.status, raw)
        return self._object(raw)

    def _object(self, raw: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(raw)
        except ValueError as error:
            raise EmbedderError(
                f"{self.url} did not answer in JSON: {_start(raw)}", url=self.url
            ) from error
        if not isinstance(answer, dict):
            raise EmbedderError(
                f"{self.url} did not answer with an object: {_start(raw)}", url=self.url
            )
        return answer

    def _problem(self, status: int, raw: bytes) -> EmbedderError:
        """Return the error of a status: 400, 413 and 422 are about the texts; anything else about
        the server, the key or the address.
        """
        kind = Refused if status in (400, 413, 422) else EmbedderError
        return kind(f"{self.url} answered {status}: {_start(raw)}", url=self.url, status=status)


def checked_url(url: str) -> SplitResult:
    """Return the parts of an address that can be called."""
    try:
        parsed = urlsplit(url)
        sound = parsed.scheme in ("http", "https") and bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        sound = False
    if not sound or parsed.query or parsed.fragment or parsed.username:
        raise InvalidEntry(
            f"semantic: url {url!r} is not valid: write http://HOST:PORT or https://HOST/PATH",
            url=url,
        )
    return parsed


def vectors_of(answer: object, count: int, url: str) -> list[list[float]]:
    """Return the vectors of an answer, one for each text, all of one dimension; EmbedderError where
    they are not that.
    """
    rows = answer if isinstance(answer, list) else []
    right = len(rows) == count and all(
        isinstance(row, list) and row and _numbers(row) for row in rows
    )
    if not right or len({len(row) for row in rows}) > 1:
        raise EmbedderError(f"{url} did not answer with {count} vectors of one dimension", url=url)
    return rows


def _numbers(row: list[object]) -> bool:
    return all(type(number) in (int, float) for number in row)


def _named(error: Exception) -> str:
    return str(error) or type(error).__name__


def _start(raw: bytes) -> str:
    return " ".join(raw[:300].decode("utf-8", "replace").split()) or "nothing"
