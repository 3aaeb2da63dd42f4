"""Requests to one server: with its token, tried again after faults, and never twice where that
would write twice.

Knows nothing of what is asked. The token goes to the address that was named and nowhere else: no
redirect is followed. Called by the other modules of this package.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Mapping
from threading import Thread
from uuid import uuid4

from synapse.client import problems
from synapse.client.arguments import checked_key, query
from synapse.errors import InvalidEntry, StoreError, SynapseError
from synapse.system import extras
from synapse.system.json import dumps
from synapse.system.quoting import inline
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple, T

if TYPE_CHECKING:
    import httpx2

KEY = "Idempotency-Key"
TIMEOUT = 30.0  # seconds that one act may take, with all its tries
UNREACHED = 5.0  # seconds in which a server that was never reached has to be there
FIRST, LAST = 0.05, 2.0  # seconds between tries, doubled from the one to the other
LARGEST = 64 << 20  # bytes of an answer: a page of 1,000 entries of the largest kind
# What is asked again: a lock that another holds, an answer that took too long, a token that asked
# too often. Whatever else is refused would be refused again.
AGAIN = frozenset(("StoreBusy", "TooSlow", "IndexDamaged", "TooMany"))
UNDONE = frozenset(("TooMany",))  # refused before anything was done


class Request(NamedTuple):
    """What is asked. A request with a key, or one that only reads, may be sent twice."""

    method: str
    path: str
    params: Mapping[str, Any] | None
    body: bytes | None
    key: str | None

    @property
    def repeatable(self) -> bool:
        return self.method == "GET" or self.key is not None


class Transport:
    """The way to one server. Thread-safe."""

    def __init__(self, address: str, token: Callable[[], str], timeout: float = TIMEOUT) -> None:
        from ssl import PROTOCOL_TLS_CLIENT, SSLContext

        try:
            import httpx2
        except ImportError as error:
            raise StoreError(extras.missing(error, "a remote memory")) from error

        self.address = address
        self.token = token
        self.timeout = timeout
        self._reached = False  # whether it has answered, so that trying makes sense
        secure = address.startswith("https:")
        self._http = httpx2.Client(
            follow_redirects=False,
            # A proxy of the environment carries what is encrypted, and is shown no token.
            trust_env=secure,
            # Reading the system's certificates takes long, and nothing else is asked for them.
            verify=secure or SSLContext(PROTOCOL_TLS_CLIENT),
            # A few packed bytes unfold to any size.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            limits=httpx2.Limits(max_connections=32, max_keepalive_connections=8),
        )

    def __repr__(self) -> str:
        return f"Transport({self.address!r})"

    def close(self) -> None:
        self._http.close()

    def value(self, parse: Callable[[Any], T], answer: Any) -> T:
        """Return the value that an answer stands for. StoreError where it is none of a memory."""
        try:
            return parse(answer)
        except Exception as error:
            raise StoreError(
                f"{self.address} does not answer as a memory does ({type(error).__name__}): is it"
                " one, and of this version?"
            ) from None

    def get(self, path: str, **params: Any) -> Any:
        """Return the answer to a question."""
        return self._ask(Request("GET", path, query(params), None, None))

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, once: str | None = None
    ) -> Any:
        """Return the answer to an act, which has been done once, whatever was lost on the way."""
        key = uuid4().hex if once is None else checked_key(once)
        return self._ask(Request("POST", path, None, _encoded(body or {}), key))

    def post_once(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to an act that has no key: it is sent again only where it cannot have
        been done."""
        return self._ask(Request("POST", path, None, _encoded(body or {}), None))

    def _ask(self, request: Request) -> Any:
        """Return the answer; tried again until it is there, refused, or the time is over."""
        began, wait = time.monotonic(), FIRST
        until = began + self.timeout
        while True:
            answer = self._try(request, until - time.monotonic())
            if not isinstance(answer, _Fault):
                return answer
            if answer.unsent and not self._reached:
                until = min(until, began + UNREACHED)
            pause = answer.after or wait * random.uniform(0.5, 1.0)
            if not answer.again or time.monotonic() + pause >= until:
                raise answer.error from None
            time.sleep(pause)
            wait = min(2 * wait, LAST)

    def _try(self, request: Request, left: float) -> Any:
        """Return the answer, or what went wrong."""
        import httpx2

        headers = {"Authorization": f"Bearer {self.token()}"}
        if request.key is not None:
            headers[KEY] = request.key
            headers["Prefer"] = (
                "handling=lenient"  # `once` goes by its key alone, as a folder's does
            )
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        # half of what is left, so that a connection that hangs is not the only try
        wait = max(left, self.timeout / 10) / 2
        exchange = _Exchange(self._http, request, self.address + request.path, headers, wait)
        try:
            response = exchange.response(max(left, self.timeout / 10))
            raw = exchange.body
            document = json.loads(raw) if raw else None
        except (httpx2.HTTPError, _NoAnswer) as error:
            return self._unreached(request, error)
        except (ValueError, RecursionError):  # the answer is no JSON, or a part of one
            if response.is_success:
                return self._unreached(request, None)
            document = None
        self._reached = True
        api = response.headers.get("synapse-api", "")
        if (other := problems.other_version(self.address, api)) is not None:
            return _Fault(other)
        if response.is_success:
            return document
        return self._refused(request, response, document)

    def _unreached(self, request: Request, error: httpx2.HTTPError | _NoAnswer | None) -> _Fault:
        """Return that no answer came. Where it is unknown whether the act was done, the error has
        the key under which it can be asked again."""
        import httpx2

        why = inline(str(error) or type(error).__name__) if error else "no answer"
        unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        fails = "gives no answer" if isinstance(error, _NoAnswer) else "cannot be reached"
        message = f"{self.address} {fails}: {why[: problems.MOST]}"
        details = {} if request.key is None or unsent else {"once": request.key}
        if request.method != "GET" and not unsent:
            message += "; whether it was done is not known"
        if details:
            message += f": ask again with once={request.key!r}, and it is done once"
        again = (unsent or request.repeatable) and not _is_final(error)
        return _Fault(StoreError(message, **details), again, unsent=unsent)

    def _refused(self, request: Request, response: httpx2.Response, document: object) -> _Fault:
        if response.is_redirect:
            to = response.headers.get("location", "")
            return _Fault(problems.redirected(self.address, to))
        error = problems.error_of(response.status_code, document, self.address)
        name = document.get("error") if isinstance(document, Mapping) else None
        name = name if isinstance(name, str) else None
        retry = name in AGAIN or (name is None and response.status_code in problems.LATER)
        text = response.headers.get("retry-after", "")
        is_seconds = text.isascii() and text.isdigit() and len(text) < 6
        after = float(text) if is_seconds else 0.0
        return _Fault(error, retry and (request.repeatable or name in UNDONE), after)


class _NoAnswer(Exception):
    """The answer is none that can be read: too large, packed, or without an end."""


class _Exchange:
    """One request and its answer, in a thread of its own: a server that sends a byte now and then
    keeps each read within its time, and its caller for ever.
    """

    def __init__(
        self,
        http: httpx2.Client,
        request: Request,
        url: str,
        headers: Mapping[str, str],
        wait: float,
    ) -> None:
        self.body = b""
        self._http, self._request, self._url = http, request, url
        self._headers, self._wait = headers, wait
        self._response: httpx2.Response | None = None
        self._error: Exception | None = None
        self._over = False

    def response(self, left: float) -> httpx2.Response:
        """Return the answer, whose body has come then; raise what went wrong, within a time."""
        thread = Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(left)
        if self._error is not None:
            raise self._error
        if thread.is_alive() or self._response is None:
            self._over = True  # the thread ends with the next byte
            raise _NoAnswer("it sends without an end")
        return self._response

    def _run(self) -> None:
        request = self._request
        try:
            with self._http.stream(
                request.method,
                self._url,
                params=request.params,
                content=request.body,
                headers=self._headers,
                timeout=self._wait,
            ) as response:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise _NoAnswer("it is packed, and nobody asked for that")
                chunks, size = [], 0
                for chunk in response.iter_raw():
                    size += len(chunk)
                    if self._over or size > LARGEST:
                        raise _NoAnswer(f"it has more than {LARGEST >> 20} MiB")
                    chunks.append(chunk)
                self.body = b"".join(chunks)
                self._response = response
        except Exception as error:  # raised again where it is waited for
            self._error = error


class _Fault(NamedTuple):
    """Why there is no answer, whether to ask again, after how many seconds at the least, and
    whether no connection was made.
    """

    error: SynapseError
    again: bool = False
    after: float = 0.0
    unsent: bool = False


def _is_final(error: BaseException | None) -> bool:
    """Return whether a fault is the same at every try: a certificate that is not believed, a server
    that speaks no TLS or sends what cannot be read, a name that there is not.
    """
    import ssl

    passing = ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError
    while error is not None:
        if isinstance(error, _NoAnswer):
            return True
        if isinstance(error, socket.gaierror):
            return error.errno == socket.EAI_NONAME
        if isinstance(error, ssl.SSLError):
            return not isinstance(error, passing)
        error = error.__cause__ or error.__context__
    return False


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return dumps(body).encode()
    except (TypeError, ValueError) as error:
        raise InvalidEntry(f"this cannot be sent as JSON: {error}") from None
