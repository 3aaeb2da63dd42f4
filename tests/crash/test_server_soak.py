"""A server that lasts: teams that come and go, streams that are cut, and restarts leave no descriptor,
no memory and no traceback behind.

A round is the same each time: what a later one adds to what an earlier one left is a leak.
"""

import socket
import struct
import threading
import time

import pytest

import synapse
from synapse.trust.bearer import new_token
from tests.server_process import process, team

AT_ONCE = 8
READS = (
    lambda me: me.unread(),
    lambda me: me.read(limit=20),
    lambda me: me.briefing(2_000),
    lambda me: me.search("users"),
    lambda me: me.knowledge.agent_acts("eng", limit=20),
    lambda me: me.mail.inbox(),
)


def cut_stream(port, token, path):
    """Open a stream, wait until it has begun, and end it with a reset."""
    head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 30) as stream:
        stream.sendall(head.encode())
        stream.recv(65_536)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def round_of(server, streams, requests):
    """Have a team connect, ask, write, follow and leave."""
    token, errors = new_token(server.tokens, "eng"), []

    def member(number):
        try:
            ask(number)
        except Exception as error:
            errors.append(error)

    def ask(number):
        with synapse.connect(server.address, token) as me:
            for turn in range(requests):
                READS[(number + turn) % len(READS)](me)
            me.append("GET /v2/users is live", "api/users", topic="users")
        for _ in range(streams):
            cut_stream(server.port, token, "/v1/events?since=0")

    threads = [threading.Thread(target=member, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert errors == []


def held(server):
    """Return the descriptors that stay when nobody asks: streams that were cut end with the next
    frame."""
    counts = []
    for _ in range(30):
        counts.append(server.descriptors())
        time.sleep(0.1)
    return min(counts)


def lasting(folder, rounds, streams, requests):
    """Return how many descriptors and megabytes the last rounds added to those of the first, and the
    log, over restarts."""
    root = team(folder / "team")
    with open(root / "synapse.yaml", "a", encoding="utf-8") as settings:
        # the first one loads `cryptography`, which is no leak
        settings.write("checkpoints: {every: 10}\n")
    grown = []
    for _ in range(2):
        with process(root, folder) as server:
            for _ in range(2):  # until all that is loaded once is there
                round_of(server, streams, requests)
            files, size = held(server), server.megabytes()
            for _ in range(rounds):
                round_of(server, streams, requests)
            grown.append((held(server) - files, server.megabytes() - size))
            assert server.stop() == 0
    return grown, (folder / "serve.log").read_text(encoding="utf-8")


def test_streams_that_are_cut_and_teams_that_come_again_leave_nothing(tmp_path):
    grown, log = lasting(tmp_path, rounds=4, streams=10, requests=10)
    assert all(files <= 5 and size <= 20 for files, size in grown), grown
    assert "Traceback" not in log


@pytest.mark.soak
def test_ten_minutes_of_them_leave_nothing(tmp_path):
    grown, log = lasting(tmp_path, rounds=30, streams=20, requests=200)
    assert all(files <= 10 and size <= 20 for files, size in grown), grown
    assert "Traceback" not in log
