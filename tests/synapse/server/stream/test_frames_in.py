"""Whatever a subscriber sends: a stream ends in order, the log has no exception, memory stays flat."""

import base64
import gc
import json
import logging
import os
import random
import socket
import struct
import time
import tracemalloc

import pytest
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from synapse.server import run
from tests.synapse.server.stream.listeners import current, eventually, over_websocket

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
OPCODES = (CONT, TEXT, BINARY, CLOSE, PING, PONG, 3, 11)


CLOSED = 12  # seconds after which uvicorn has forgotten a WebSocket that it closed


class Raw:
    """A WebSocket of bytes: what is sent is sent, whether the protocol allows it or not."""

    def __init__(self, address, token, *, subprotocol=None):
        port = int(address.rpartition(":")[2])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /v1/stream HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Authorization: Bearer {token}",
        ]
        lines += [f"Sec-WebSocket-Protocol: {subprotocol}"] if subprotocol else []
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.answer = self.socket.recv(1_000)

    def send(self, data):
        """Return whether the server still takes something."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def close(self):
        """Hang up once the server has read everything: it answers that with its own end."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(65_536):
                pass
        except OSError:
            pass
        self.socket.close()


def frame(opcode, payload, *, fin=True, rsv=0, masked=True, length=None):
    """Return the bytes of a frame; `length` is what it says of its length."""
    size = len(payload) if length is None else length
    head = bytes([(fin << 7) | (rsv << 4) | opcode])
    mask = 0x80 if masked else 0
    if size < 126:
        head += bytes([mask | size])
    elif size < 65_536:
        head += bytes([mask | 126]) + struct.pack("!H", size)
    else:
        head += bytes([mask | 127]) + struct.pack("!Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


def fuzzed(dice):
    """Return the bytes of a frame of any kind."""
    kind = dice.randrange(10)
    if kind == 0:
        return frame(TEXT, b'{"subscribe": ' * dice.randrange(1, 9))
    if kind == 1:
        return frame(TEXT, json.dumps({"since": dice.random()}).encode())
    if kind == 2:
        return frame(TEXT, dice.randbytes(dice.randrange(300)))
    if kind == 3:
        return frame(BINARY, dice.randbytes(dice.randrange(2_000)))
    if kind == 4:
        return frame(TEXT, b"x" * dice.choice([16_384, 16_385, 100_000]))
    if kind == 5:
        return frame(TEXT, b"", length=dice.choice([2**31, 2**40, 2**63 - 1]))
    if kind == 6:
        parts = [frame(CONT, b"y" * 3_000, fin=False) for _ in range(dice.randrange(9))]
        return frame(TEXT, b"y", fin=False) + b"".join(parts)
    if kind == 7:
        return frame(PING, dice.randbytes(dice.randrange(126)))
    if kind == 8:
        return frame(CLOSE, dice.randbytes(dice.randrange(20)))
    return frame(
        dice.choice(OPCODES),
        dice.randbytes(dice.randrange(200)),
        fin=dice.random() < 0.5,
        rsv=dice.choice([0, 0, 1, 7]),
        masked=dice.random() < 0.8,
    )


def played(site, count, caplog, seed=3):
    """Send so many frames and return what the log then has of errors, and how many bytes more are
    in use for each thousand of the later frames.
    """
    dice, token, sent = random.Random(seed), site.token("eng"), 0
    streams, marks = site.app.state.hub.streams, []
    tracemalloc.start()
    try:
        with caplog.at_level(logging.WARNING):
            while sent < count:
                protocol = dice.choice([None, None, "mqtt", "graphql-ws, x", ","])
                raw = Raw(site.address, token, subprotocol=protocol)
                for _ in range(dice.randrange(1, 20)):
                    sent += 1
                    if not raw.send(fuzzed(dice)):
                        break
                raw.close()
                if (not marks and sent >= count // 2) or sent >= count:
                    eventually(lambda: streams["websocket"] == 0)
                    if count >= 10_000:
                        time.sleep(CLOSED)
                    gc.collect()
                    marks.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    return errors, (marks[-1] - marks[0]) / (count / 2_000)


def test_no_frame_does_harm(site, caplog):
    errors, growth = played(site, 1_000, caplog)
    assert errors == []
    # what is closed is forgotten only after some seconds; frames that are kept take 10 MB
    assert growth < 3_000_000
    frames = over_websocket(site.address, site.token("eng"), since=0)
    assert current(frames) == []
    frames.close()


@pytest.mark.soak
def test_ten_thousand_frames_do_no_harm(site, caplog):
    errors, growth = played(site, 10_000, caplog)
    print(f"\n{growth:.0f} bytes more for each thousand frames")
    assert errors == []
    assert growth < 40_000


def test_a_protocol_that_logs_what_it_is_sent_is_found_out(serve, caplog, monkeypatch):
    monkeypatch.setattr(run, "Sockets", WebSocketsSansIOProtocol)
    site = serve()
    with caplog.at_level(logging.ERROR):
        for _ in range(20):
            raw = Raw(site.address, site.token("eng"))
            raw.send(frame(TEXT, b"\xff is no text"))
            raw.close()
        eventually(lambda: caplog.records)
