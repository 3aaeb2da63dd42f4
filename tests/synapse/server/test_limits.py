"""Requests are bounded: their size, their number, and how long an answer may take."""

import socket
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
    def slow(app):
        @app.get("/v1/slow")
        def wait() -> str:
            time.sleep(1)
            return "late"

    site = serve(extensions=(slow,), limits=Limits(seconds=0.2))
    eng = site.client("eng")
    answer = eng.get("/v1/slow")
    assert (answer.status_code, answer.json()["error"]) == (503, "TooSlow")
    assert "retry-after" in answer.headers
    assert [eng.get("/v1/me").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("key", ["a" * 201, ""])
def test_a_key_is_of_a_bounded_length(site, key):
    eng = site.client("eng")
    headers = {"idempotency-key": key}
    assert eng.post("/v1/entries", json=DRAFT, headers=headers).status_code == 422
