"""Connections are bounded: a header that does not come ends one, those that wait longest end for
others, and a server without descriptors says so seldom.
"""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from synapse.system import listening
from synapse.system.connections import WAITING_OF_ONE
from tests.server_process import process, team

ASKED = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


async def answering(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    address = scope["client"][0].encode()
    headers = [(b"content-length", b"%d" % len(address))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": address})


@contextmanager
def served(**options):
    """Serve an application that answers with the caller's address; yield what connects to it."""
    listener = listening.listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = listening.server(answering, **options)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    connections = []

    def connect():
        connections.append(socket.create_connection(("127.0.0.1", port), 20))
        return connections[-1]

    try:
        yield connect
    finally:
        for connection in connections:
            connection.close()
        server.should_exit = True
        thread.join(30)


def answer_to(connection, sent=ASKED):
    connection.sendall(sent)
    answer = b""
    while not answer.endswith((b"127.0.0.1", b"10.1.2.3")):
        part = connection.recv(4_096)
        assert part
        answer += part
    return answer


def ends(connection):
    try:
        return connection.recv(4_096) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET / HT", ASKED[:-2]])
def test_a_header_that_does_not_come_ends_the_connection(sent):
    with served(header=0.3) as connect:
        connection = connect()
        connection.sendall(sent)
        assert ends(connection)


def test_a_header_that_drips_ends_the_connection():
    with served(header=0.5) as connect:
        connection, closed = connect(), False
        for _ in range(200):
            try:
                connection.sendall(b"G")
                time.sleep(0.05)
            except OSError:
                closed = True
                break
        assert closed


def test_a_body_that_nobody_read_does_not_hold_the_connection():
    with served(header=0.3) as connect:
        connection = connect()
        posted = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\n"
        assert answer_to(connection, posted).startswith(b"HTTP/1.1 200 ")
        assert ends(connection)


def test_those_that_wait_longest_end_and_nobody_else_does():
    with served() as connect:
        resting = connect()
        assert answer_to(resting).startswith(b"HTTP/1.1 200 ")
        halves = [connect() for _ in range(WAITING_OF_ONE + 20)]
        for half in halves:
            half.sendall(b"GET / HTTP/1.1\r\n")
        assert answer_to(connect()).startswith(b"HTTP/1.1 200 ")
        assert answer_to(resting).startswith(b"HTTP/1.1 200 ")
        assert all(ends(half) for half in halves[:20])


def test_a_request_of_two_lengths_is_the_last_of_its_connection():
    framed = (
        b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    with served() as connect:
        connection = connect()
        assert answer_to(connection, framed + b"0\r\n\r\n" + ASKED).count(b"HTTP/1.1 200 ") == 1
        assert ends(connection)


@pytest.mark.parametrize(("proxies", "seen"), [((), b"127.0.0.1"), (("127.0.0.1",), b"10.1.2.3")])
def test_another_address_is_believed_of_a_named_proxy_alone(proxies, seen):
    asked = ASKED[:-2] + b"x-forwarded-for: 10.1.2.3\r\n\r\n"
    with served(proxies=proxies) as connect:
        assert answer_to(connect(), asked).endswith(seen)


def test_a_server_without_descriptors_says_so_in_few_lines(tmp_path):
    with process(team(tmp_path / "team"), tmp_path, descriptors=48) as server:
        open_ones = []
        for _ in range(120):
            open_ones.append(socket.create_connection(("127.0.0.1", server.port), 20))
        time.sleep(2.5)
        log = server.log
        assert "no connection is accepted now" in log
        assert "Traceback" not in log
        assert len(log.splitlines()) < 20
        for connection in open_ones:
            connection.close()
        assert server.stop() == 0
