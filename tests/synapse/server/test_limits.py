"""Requests are bounded: their size, their number, what they cost, how many are worked on at once,
and how long they may take; and what one caller does keeps no other waiting.
"""

import asyncio
import socket
import threading
import time

import pytest

from synapse.errors import StoreBusy
from synapse.server.limits import MOST, Buckets, Limits
from synapse.server.routes import acts

DRAFT = {"body": "use /v2", "namespace": "api/users"}


def test_a_body_that_is_too_large_is_refused(serve):
    eng = serve(limits=Limits(body=2_000)).client("eng")
    large = {**DRAFT, "body": "x" * 3_000}
    for sent in ({"json": large}, {"content": (b"x" * 500 for _ in range(9))}):
        answer = eng.post("/v1/entries", **sent)
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
    assert eng.post("/v1/entries", json=DRAFT).status_code == 201
    assert len(eng.get("/v1/entries").json()["entries"]) == 1


def test_a_body_without_an_end_is_refused_before_it_is_read(serve):
    site = serve(limits=Limits(body=2_000))
    host, port = site.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 30) as sent:
        sent.sendall(
            f"POST /v1/entries HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked"
            f"\r\nauthorization: Bearer {site.token('eng')}\r\n\r\n".encode()
        )
        sent.sendall(b"400\r\n" + b"x" * 1_024 + b"\r\n")
        sent.sendall(b"400\r\n" + b"x" * 1_024 + b"\r\n")
        assert sent.recv(4_096).startswith(b"HTTP/1.1 413 ")


def test_a_token_that_asks_too_often_waits(serve):
    site = serve(limits=Limits(rate=0.001, burst=3_000, cost=0))
    eng, qa = site.client("eng"), site.client("qa")
    assert [eng.get("/v1/me").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    refused = eng.get("/v1/me")
    assert refused.json()["error"] == "TooMany"
    assert int(refused.headers["retry-after"]) > 1
    assert qa.get("/v1/me").status_code == 200  # each has its own
    assert site.client().get("/healthz").status_code == 200


def test_wrong_tokens_are_counted_by_their_address(serve):
    site = serve(limits=Limits(wrong=0.001, burst=3_000, cost=0))
    wrong = site.client(token="synapse_wrong")
    codes = [wrong.get("/v1/me").status_code for _ in range(5)]
    assert codes == [401] * 3 + [429] * 2
    assert site.client("eng").get("/v1/me").status_code == 200


def test_a_bucket_fills_as_time_goes_by_and_there_are_so_many():
    now = [0.0]
    buckets = Buckets(2.0, 1.0, lambda: now[0])
    assert [buckets.wait("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    now[0] = 0.5
    assert [buckets.wait("a") for _ in range(2)] == [0.0, 0.5]
    for number in range(2 * MOST):
        buckets.wait(str(number))
    assert len(buckets._levels) <= MOST


def test_what_is_dear_counts_for_more():
    now = [0.0]
    buckets = Buckets(2.0, 1.0, lambda: now[0])
    assert buckets.wait("a") == 0
    buckets.spend("a", 100.0)  # no more than a bucket is owed
    assert (buckets.wait("a"), buckets.wait("b")) == (1.5, 0.0)


def test_a_question_that_takes_long_is_paid_for(serve):
    def slow(app):
        @app.get("/v1/slow")
        def wait() -> str:
            time.sleep(0.3)
            return "dear"

    limits = Limits(rate=10.0, burst=1.0, cost=1_000)
    site = serve(extensions=(slow,), limits=limits)
    eng, qa = site.client("eng"), site.client("qa")
    assert eng.get("/v1/slow").status_code == 200
    assert eng.get("/v1/me").status_code == 429
    assert qa.get("/v1/me").status_code == 200


def raw(site, head, token=None):
    """Return a connection on which the header of a request was sent."""
    host, port = site.address.removeprefix("http://").split(":")
    proof = f"authorization: Bearer {token}\r\n" if token else ""
    connection = socket.create_connection((host, int(port)), 20)
    connection.sendall(f"{head} HTTP/1.1\r\nhost: {host}\r\n{proof}\r\n".encode())
    return connection


@pytest.mark.parametrize("token", [None, "syn_wrong"])
def test_no_body_is_read_before_the_token_is_good(site, token):
    head = f"POST /v1/entries HTTP/1.1\r\ncontent-length: {4 << 20}\r\nx: "
    with raw(site, head, token) as sent:
        assert sent.recv(4_096).startswith(b"HTTP/1.1 401 ")


def test_a_body_that_does_not_come_is_given_up(serve):
    site = serve(limits=Limits(upload=0.3))
    with raw(
        site, "POST /v1/entries HTTP/1.1\r\ncontent-length: 9\r\nx: ", site.token("eng")
    ) as sent:
        sent.sendall(b"{")
        answer = sent.recv(4_096)
        while b"}" not in answer:
            answer += sent.recv(4_096)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"the body was not there" in answer


class Held:
    """A route that answers once it may, and counts how many are in it at once."""

    def __init__(self):
        self.lock, self.go = threading.Lock(), threading.Event()
        self.now = self.most = self.calls = 0

    def __call__(self, app):
        @app.get("/v1/held")
        def held() -> str:
            with self.lock:
                self.now, self.calls = self.now + 1, self.calls + 1
                self.most = max(self.most, self.now)
            self.go.wait(60)
            with self.lock:
                self.now -= 1
            return "held"


def ask_often(client, count):
    """Ask in threads; the threads, and a list that the answers' codes come to."""
    codes = []
    ask = lambda: codes.append(client.get("/v1/held").status_code)  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, codes


def test_one_token_at_once_keeps_no_other_waiting(serve):
    held = Held()
    site = serve(extensions=(held,), limits=Limits(at_once=2, cost=0))
    threads, codes = ask_often(site.client("eng"), 30)
    while held.now < 2:
        time.sleep(0.01)
    qa = site.client("qa")
    assert [qa.get("/v1/me").status_code for _ in range(5)] == [200] * 5
    held.go.set()
    for thread in threads:
        thread.join(60)
    assert (held.most, codes) == (2, [200] * 30)


def test_so_many_of_one_token_wait_and_no_more(serve):
    held = Held()
    site = serve(extensions=(held,), limits=Limits(at_once=1, queue=2, cost=0))
    threads, codes = ask_often(site.client("eng"), 8)
    while len(codes) < 5:
        time.sleep(0.01)
    held.go.set()
    for thread in threads:
        thread.join(60)
    assert sorted(codes) == [200] * 3 + [429] * 5


def test_who_waits_too_long_is_not_worked_for(serve):
    held = Held()
    site = serve(extensions=(held,), limits=Limits(at_once=1, seconds=0.5, cost=0))
    threads, codes = ask_often(site.client("eng"), 4)
    while len(codes) < 4:
        time.sleep(0.01)
    held.go.set()
    for thread in threads:
        thread.join(60)
    assert (codes, held.calls) == ([503] * 4, 1)


def test_what_is_read_for_a_late_answer_ends(serve):
    ends = []

    def slow(app):
        @app.get("/v1/slow")
        def read() -> str:
            until = time.monotonic() + 30
            try:
                while time.monotonic() < until:
                    with site.memory.store.snapshot() as snap:
                        snap.run("none")
                    time.sleep(0.01)
            except StoreBusy as error:
                ends.append(error)
                raise
            return "late"

    site = serve(extensions=(slow,), limits=Limits(seconds=0.3))
    eng = site.client("eng")
    assert eng.get("/v1/slow").status_code == 503
    assert eng.get("/v1/me").status_code == 200
    until = time.monotonic() + 20
    while not ends:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("/v1/entries", "entries"),
        ("/v1/entries?unread=true&limit=1000000", "entries"),
        ("/v1/search?q=use&limit=1000000", "entries"),
        ("/v1/recent?limit=1000000", "moments"),
        ("/v1/agents/lead/acts", "moments"),
        ("/v1/agents/lead/acts?limit=0", "moments"),
        ("/v1/log?limit=0", "acts"),
    ],
)
def test_no_page_is_larger_than_a_page(site, monkeypatch, path, rows):
    from synapse.server.routes import history

    monkeypatch.setattr(acts, "PAGE", 3)
    monkeypatch.setattr(history, "PAGE", 3)
    lead = site.memory.as_agent("lead")
    for number in range(7):
        lead.append(f"use /v{number}", "api/users")
    assert len(site.client("eng").get(path).json()[rows]) == 3


def test_who_is_not_let_in_is_logged_without_a_token(site, caplog):
    site.client(token="syn_wrong-one").get("/v1/entries")
    (line,) = [record.getMessage() for record in caplog.records if "not let in" in record.msg]
    assert "GET /v1/entries, wrong 127.0.0.1" in line
    assert "wrong-one" not in line


def test_an_answer_that_comes_too_late_is_told_so(serve):
    answered = threading.Event()

    def slow(app):
        @app.get("/v1/slow")
        def wait() -> str:
            answered.wait(60)
            return "late"

    site = serve(extensions=(slow,), limits=Limits(seconds=1.0))
    eng = site.client("eng")
    answer = eng.get("/v1/slow")
    answered.set()
    assert (answer.status_code, answer.json()["error"]) == (503, "TooSlow")
    assert "retry-after" in answer.headers
    assert [eng.get("/v1/me").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("steps", range(5))
def test_an_answer_at_the_moment_of_its_limit_is_whole(serve, steps):
    async def slow(scope, receive, send):
        time.sleep(0.3)  # nothing else goes on meanwhile, so the limit passes unnoticed
        for _ in range(steps):
            await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    site = serve(extensions=(lambda app: app.mount("/v1/slow", slow),), limits=Limits(seconds=0.2))
    answer = site.client("eng").get("/v1/slow/")
    assert answer.status_code in (200, 503)
    assert answer.text == "late" or answer.json()["error"] == "TooSlow"


@pytest.mark.parametrize("key", ["a" * 201, ""])
def test_a_key_is_of_a_bounded_length(site, key):
    eng = site.client("eng")
    headers = {"idempotency-key": key}
    assert eng.post("/v1/entries", json=DRAFT, headers=headers).status_code == 422


def test_another_request_under_the_same_key_is_refused(serve):
    site = serve()
    eng, qa = site.client("eng"), site.client("qa")
    key = {"Idempotency-Key": "users-v2"}
    first = eng.post("/v1/entries", json=DRAFT, headers=key)
    assert eng.post("/v1/entries", json=DRAFT, headers=key).json() == first.json()
    other = eng.post("/v1/entries", json={**DRAFT, "body": "use /v3"}, headers=key)
    assert (other.status_code, other.json()["error"]) == (422, "InvalidQuery")
    assert "nothing was done" in other.json()["detail"]
    lenient = {**key, "Prefer": "handling=lenient"}
    again = eng.post("/v1/entries", json={**DRAFT, "body": "use /v3"}, headers=lenient)
    assert again.json() == first.json()
    assert [entry["body"] for entry in eng.get("/v1/entries").json()["entries"]] == ["use /v2"]
    answer = qa.post("/v1/entries", json={**DRAFT, "body": "of qa"}, headers=key)
    assert answer.status_code == 403  # keys of others are no matter


def test_a_request_that_was_refused_leaves_its_key(serve):
    eng, key = serve().client("eng"), {"Idempotency-Key": "once"}
    wrong = {**DRAFT, "priority": "urgent"}
    assert eng.post("/v1/entries", json=wrong, headers=key).status_code == 422
    assert eng.post("/v1/entries", json=DRAFT, headers=key).status_code == 201
