"""Subscribers of a server in the tests: over a WebSocket and over server-sent events, as any client is."""

import json
import random
import time
from contextlib import suppress
from socket import SHUT_RDWR

import httpx2
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from tests.synapse.served import PLAIN

CONTROL = ("start", "current", "alive", "problem")


def over_websocket(address, token=None, *, headers=None, receive=60, **asked):
    """Yield the frames until the server closes; then a frame of kind `closed`."""
    own = {"authorization": f"Bearer {token}"} if token else {}
    url = f"{address.replace('http', 'ws', 1)}/v1/stream{_query(asked)}"
    options = {"proxy": None, "max_size": None, "max_queue": None}
    with connect(url, additional_headers=own | (headers or {}), **options) as socket:
        try:
            while True:
                yield json.loads(socket.recv(receive))
        except ConnectionClosed as closed:
            got = closed.rcvd
            code, reason = (got.code, got.reason) if got else (1006, "")
            yield {"kind": "closed", "code": code, "reason": reason}
        except GeneratorExit:  # hang up, without a word
            with suppress(OSError):  # the server may have done so before
                socket.socket.shutdown(SHUT_RDWR)


def over_sse(address, token=None, *, last=None, headers=None, receive=60, **asked):
    """Yield the frames until the server ends the stream; then a frame of kind `closed`."""
    own = {"authorization": f"Bearer {token}"} if token else {}
    own |= {"last-event-id": str(last)} if last is not None else {}
    url = f"{address}/v1/events{_query(asked)}"
    with httpx2.stream(
        "GET", url, headers=own | (headers or {}), timeout=receive, trust_env=False, verify=PLAIN
    ) as response:
        if response.status_code != 200:
            response.read()
            raise Refused(response)
        assert response.headers["content-type"].startswith("text/event-stream")
        fields = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            frame = json.loads(fields["data"])
            assert int(fields["id"]) == frame["cursor"]
            assert fields.get("event", frame["kind"]) == frame["kind"]
            fields = {}
            yield frame
    yield {"kind": "closed"}


FORMS = {"websocket": over_websocket, "sse": over_sse}


class Refused(Exception):
    """The server answered with something else than a stream."""

    def __init__(self, response):
        super().__init__(response.status_code)
        self.response = response


LOST = (OSError, httpx2.HTTPError, WebSocketException, EOFError, Refused)


def current(frames):
    """Return the entries up to the frame that says that all is told which was there."""
    told = []
    for frame in frames:
        if frame["kind"] == "current":
            break
        if frame["kind"] not in CONTROL:
            told.append(frame)
    return told


def entries(frames, count):
    """Return the next so many entries."""
    told = []
    while len(told) < count:
        frame = next(frames)
        assert frame["kind"] != "closed", frame
        if frame["kind"] not in CONTROL:
            told.append(frame)
    return told


def until(frames, kind):
    """Return the next frame of a kind."""
    return next(frame for frame in frames if frame["kind"] == kind)


def eventually(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def heard(listen, address, token, over, chance=0.0, dice=random, **asked):
    """Return the ids that one subscriber heard, over as many connections as it took, and how often
    it hung up. It is through when it heard of the cursor `over()`.
    """
    since, ids, cuts = 0, [], 0
    deadline = time.monotonic() + 3_000
    while over() is None or since < over():
        assert time.monotonic() < deadline
        if len(ids) > 2 * len(set(ids)) + 100:
            break  # it hears the same again and again
        frames = listen(address, token, since=since, **asked)
        try:
            for frame in frames:
                if frame["kind"] == "closed":
                    break
                since = frame["cursor"]
                if frame["kind"] not in CONTROL:
                    ids.append(frame["entry"]["id"])
                if dice.random() < chance:
                    cuts += 1
                    break
                if over() is not None and since >= over():
                    break
        except LOST:
            time.sleep(0.01)
        finally:
            frames.close()
    return ids, cuts


def _query(asked):
    pairs = [
        (name, part)
        for name, value in asked.items()
        for part in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return "?" + str(httpx2.QueryParams(pairs)) if pairs else ""
