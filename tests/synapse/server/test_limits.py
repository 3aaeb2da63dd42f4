"""Requests are bounded: their size, their number, and how long an answer may take."""

import asyncio
import socket
import threading
import time

import pytest

from synapse.server.limits import MOST, Buckets, Limits

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
    site = serve(limits=Limits(rate=0.001, burst=3_000))
    eng, qa = site.client("eng"), site.client("qa")
    assert [eng.get("/v1/me").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    refused = eng.get("/v1/me")
    assert refused.json()["error"] == "TooMany"
    assert int(refused.headers["retry-after"]) > 1
    assert qa.get("/v1/me").status_code == 200  # each has its own
    assert site.client().get("/healthz").status_code == 200


def test_wrong_tokens_are_counted_by_their_address(serve):
    site = serve(limits=Limits(wrong=0.001, burst=3_000))
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
