"""A model server that follows a script, on 127.0.0.1 alone, for clients that are programs. It
speaks Anthropic's Messages, with and without streaming; `formats` says what else.

A script is what the scripted engine takes: a function from what is seen to the next move, asked
with each request and told nothing but the request. Usage is counted. Faults are queued and met by
the requests that follow.

with ModelServer(lambda seen: "Done.") as server:
    Anthropic(base_url=server.url, api_key="any")
"""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count as counting
from select import select
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from time import monotonic, sleep
from types import ModuleType
from typing import Any, NamedTuple

from orchestrator.engines.scripted import Move, Script, echo
from orchestrator.testing.contract import FAULTS, Fault
from scenarios.provider import messages
from scenarios.provider.formats import Asked, Event, Said, compact, misreported, reply_text, said
from scenarios.provider.prompt_cache import PromptCache
from synapse.system.tokens import Tokens

# How an address ends, the format that is spoken there, and whether it only counts.
Formats = tuple[tuple[str, ModuleType, bool], ...]
MODELS = (
    "scripted",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
    "gpt-5",
    "gpt-5-mini",
    "gemini-2.5-flash",
    "llama3",
)


class Taken(NamedTuple):
    """A request as it came. Headers have lower-case names."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class ModelServer:
    """Serves between `start` and `stop`, or inside `with`, each connection in a thread of its own.

    `window` is how many tokens a prompt may have. `cache_minimum`: shorter prefixes are not cached.
    `delay` is waited before each piece of a stream. `journal` has every request, whole, in the
    order of their arrival.
    """

    formats: Formats = (("/messages", messages, False), ("/messages/count_tokens", messages, True))

    def __init__(
        self,
        script: Script = echo,
        *,
        port: int = 0,
        count: Callable[[str], int] | None = None,
        window: int | None = None,
        cache_minimum: int = 1_024,
        delay: float = 0.0,
    ) -> None:
        self.script = script
        self.window = window
        self.delay = delay
        self.journal: list[Taken] = []
        self.cache = PromptCache(count or Tokens().count, cache_minimum)
        self._faults: deque[Fault] = deque()
        self._numbers = counting(1)
        self._lock = Lock()
        self._http = _Server(("127.0.0.1", port), self)
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def connections(self) -> int:
        """Return how many clients are connected now."""
        return len(self._http.open)

    def fail(self, *faults: Fault) -> None:
        """Let the next requests for a reply meet these faults, one each."""
        if unknown := {fault.kind for fault in faults} - {*FAULTS}:
            raise ValueError(
                f"there is no fault {min(unknown)!r}; it is one of {', '.join(FAULTS)}"
            )
        self._faults.extend(faults)

    def start(self) -> ModelServer:
        self._thread = Thread(
            target=self._http.serve_forever, args=(0.02,), name="model-server", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def left(self, seconds: float = 5.0) -> bool:
        """Return whether all clients hang up within so many seconds."""
        until = monotonic() + seconds
        while self.connections and monotonic() < until:
            sleep(0.01)
        return not self.connections

    # -- what the connections' threads ask ---------------------------------------------------------

    def take(self, taken: Taken, counts: bool) -> tuple[Fault | None, int]:
        """Note a request; the fault that it meets, and its number."""
        with self._lock:
            self.journal.append(taken)
            if counts:
                return None, 0
            return self._faults.popleft() if self._faults else None, next(self._numbers)

    def reply(
        self, asked: Asked, fault: Fault | None, number: int, *, marked: bool
    ) -> tuple[Said, float]:
        """Return the reply, and how long the script thinks before it."""
        moved = self.script(asked.seen)
        move = Move(moved) if isinstance(moved, str) else moved
        reply = said(asked, move, fault, number)
        used = self.cache.use(asked.model, asked.blocks, reply_text(reply), marked=marked)
        return reply._replace(used=used), move.takes


class _Server(ThreadingMixIn, HTTPServer):
    """Knows its open connections, and ends them when it is closed."""

    daemon_threads = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        self.open: set[socket.socket] = set()
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Bind without the look-up of the machine's name that HTTPServer makes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.open.discard(request)

    def server_close(self) -> None:
        for connection in tuple(self.open):
            _end(connection)
        super().server_close()


class _Connection(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing to the terminal: there is the journal."""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):  # the client hung up
            self.close_connection = True

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not path.rstrip("/").endswith("/models"):
            return self._send(
                404, {"error": {"type": "not_found_error", "message": f"there is no {path}"}}
            )
        models = [
            {"id": name, "object": "model", "type": "model", "display_name": name}
            for name in MODELS
        ]
        model_list = [{"name": f"models/{name}"} for name in MODELS]
        return self._send(
            200, {"object": "list", "data": models, "models": model_list, "has_more": False}
        )

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        wire, counts = next(
            (
                (wire, counts)
                for end, wire, counts in self.server.owner.formats
                if path.endswith(end)
            ),
            (None, False),
        )
        if wire is None:
            return self._send(
                404, {"error": {"type": "not_found_error", "message": f"there is no {path}"}}
            )
        try:
            body = json.loads(text)
            record = Taken(
                self.path, {name.lower(): value for name, value in self.headers.items()}, body
            )
            fault, number = self.server.owner.take(record, counts)
            if fault and fault.kind == "status":
                return self._refuse(wire, fault)
            request = wire.read(_addressed(body, path))
            if counts:
                return self._send(200, wire.counted(self.server.owner.cache.count(request.blocks)))
            self._check_window(wire, request, fault)
            return self._answer(
                wire, request, fault, number, lines="alt=sse" in query or ":stream" not in path
            )
        except ConnectionError:
            raise
        except _TooLong as error:
            return self._send(400, wire.failure(400, str(error), context=True))
        # a request or a script that is wrong: the client is told, and does not ask again
        except Exception as error:
            return self._send(400, wire.failure(400, f"{type(error).__name__}: {error}"))

    def _refuse(self, wire: ModuleType, fault: Fault) -> None:
        headers = {}
        if fault.retry_after is not None:
            headers = {
                "retry-after": f"{fault.retry_after:g}",
                "retry-after-ms": f"{fault.retry_after * 1000:g}",
            }
        self._send(fault.status, wire.failure(fault.status, f"injected {fault.status}"), headers)

    def _check_window(self, wire: ModuleType, asked: Asked, fault: Fault | None) -> None:
        sent = self.server.owner.cache.count(asked.blocks)
        window = self.server.owner.window
        if fault and fault.kind == "context":
            window = sent - 1
        if window is not None and sent > window:
            raise _TooLong(wire.CONTEXT.format(sent=sent, window=window))

    def _answer(
        self, wire: ModuleType, asked: Asked, fault: Fault | None, number: int, *, lines: bool
    ) -> None:
        reply, takes = self.server.owner.reply(asked, fault, number, marked=wire.MARKED)
        self._pause(takes)
        if not asked.stream:
            if fault and fault.kind == "drop":
                return self._hang_up()
            return self._send(200, wire.whole(reply, asked))
        if not lines:  # Gemini without alt=sse: one list
            return self._send(200, [event.data for event in wire.events(reply, asked)])
        return self._stream(wire, reply, asked, fault)

    def _stream(self, wire: ModuleType, reply: Said, asked: Asked, fault: Fault | None) -> None:
        kind = fault.kind if fault else ""
        delay = fault.delay if fault and kind == "slow" else self.server.owner.delay
        events = list(wire.events(reply, asked))
        if kind in ("drop", "error"):
            events = _broken(events, "arguments" if reply.calls else "text")
            events += [wire.failure_event("Overloaded")] if kind == "error" else []
        if kind.endswith(" usage"):
            events = [event._replace(data=misreported(event.data, kind)) for event in events]
        self._begin("text/event-stream")
        for index, event in enumerate(events):
            if event.of:
                self._pause(delay)
            data = compact(event.data)
            if kind == "garbled" and index == len(events) // 2:
                data = data[: len(data) // 2]
            self._event(event.name, data)
        if kind == "drop":
            return self._hang_up()
        if wire.END:
            self._event(None, wire.END)
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _event(self, name: str | None, data: str) -> None:
        text = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
        raw = text.encode("utf-8", "surrogatepass")
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))

    def _pause(self, seconds: float) -> None:
        """Wait, unless the client hangs up: a client says nothing while it is being answered."""
        if seconds and select([self.connection], [], [], seconds)[0]:
            raise ConnectionResetError

    def _hang_up(self) -> None:
        self.close_connection = True
        _end(self.connection)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        raw = compact(body).encode("utf-8", "surrogatepass")
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


class _TooLong(Exception):
    """The prompt is longer than the window."""


def _addressed(body: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return the body of a Gemini request with the model and the wish for a stream, which its
    address has.
    """
    model, colon, verb = path.rpartition("/")[2].partition(":")
    return {**body, "model": model, "stream": verb.startswith("stream")} if colon else body


def _broken(events: list[Event], of: str) -> list[Event]:
    """Yield the events up to the first piece of a call, or of the text."""
    pieces = [at for at, event in enumerate(events) if event.of == of]
    return events[: pieces[1] if len(pieces) > 1 else -1]


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is gone already
        pass
