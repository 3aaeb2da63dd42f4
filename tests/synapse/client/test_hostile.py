"""A server that answers whatever it likes: each act ends, with an error of the library in words."""

import gzip
import socket
import threading
import time
from contextlib import contextmanager

import pytest

import synapse
from synapse.errors import StoreError, SynapseError

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def whole(body, head=HEAD):
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def endless(part, pause=0.0, first=b""):
    def parts():
        yield first
        while True:
            yield part
            time.sleep(pause)

    return parts


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
WITHOUT_END = {
    "a body": endless(b"10000\r\n" + b" " * 65_536 + b"\r\n", first=CHUNKED),
    "a body, byte by byte": endless(b"1\r\n \r\n", 0.05, first=CHUNKED),
    "a header, byte by byte": endless(b"x", 0.05, first=HEAD + b"x-long: "),
    "headers": endless(b"x-more: 1\r\n" * 100, first=HEAD),
}
ANSWERS = {
    "a packed bomb": whole(gzip.compress(b" " * (64 << 20)), HEAD + b"content-encoding: gzip\r\n"),
    "null": whole(b"null"),
    "a number": whole(b"7"),
    "a list": whole(b"[[]]"),
    "depth": whole(b"[" * 200_000),
    "other types": whole(
        b'{"entries": 7, "agent": [], "unread": {}, "agents": {}, "cursor": null}'
    ),
    "an entry of other types": whole(b'{"entries": [[1]], "visible": [], "cursor": {}, "id": 3}'),
    "a problem of other types": whole(
        b'{"error": [], "detail": {}, "details": [1]}', b"HTTP/1.1 403 x\r\n"
    ),
    "a problem with our names": whole(
        b'{"error": "NotFound", "detail": "x", "details": {"message": 1, "self": 2}}',
        b"HTTP/1.1 404 x\r\n",
    ),
    "no HTTP": b"SSH-2.0-OpenSSH_9\r\n",
}
ACTS = {
    "read": lambda me: me.read(),
    "id": lambda me: me.id,
    "agents": lambda me: me.agents(),
    "cursor": lambda me: me.cursor,
    "append": lambda me: me.append("text", "api/users"),
    "follow": lambda me: next(iter(me.follow(timeout=1))),
}


@contextmanager
def answering(parts):
    """Answer each connection with bytes, or with parts one after the other; yield the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer(connection):
        with connection:
            try:
                connection.recv(65_536)
                for part in parts() if callable(parts) else (parts,):
                    if over.is_set():
                        return
                    connection.sendall(part)
            except OSError:
                pass

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.close()


def outcome(address, act):
    """Return the error that an act ends with; None where it does not end."""
    errors = []

    def run():
        with synapse.connect(address, "syn_token", timeout=1.0) as me:
            try:
                act(me)
            except BaseException as error:
                errors.append(error)
            else:
                errors.append(AssertionError("it was believed"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    return errors[0] if errors else None


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("parts", WITHOUT_END.values(), ids=WITHOUT_END)
def test_an_answer_without_an_end_ends(parts, act):
    with answering(parts) as address:
        assert isinstance(outcome(address, act), StoreError)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_any_form_is_an_error_in_words(answer, act):
    with answering(answer) as address:
        error = outcome(address, act)
    assert isinstance(error, SynapseError)
    assert str(error)
    assert "bug" not in str(error)


def test_a_packed_answer_is_not_unfolded():
    with answering(ANSWERS["a packed bomb"]) as address:
        error = outcome(address, ACTS["read"])
    assert "nobody asked for that" in str(error)
