"""Requests of no sense: none fails the server, none makes it grow, and no wrong token is let in."""

import gc
import json
import logging
import os
import random
import string

import pytest
from fastapi.responses import PlainTextResponse

from synapse.model import clock
from synapse.server.limits import Limits
from synapse.trust.bearer import new_token, revoke

ODD = (
    None,
    True,
    0,
    -1,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "\0",
    "\ud800",
    "\u202e\U0001f600",
    "x" * 70_000,
    "../../etc/passwd",
    [],
    [[]],
    {},
    {"a": {"b": None}},
    "syn-2001-01-01-001",
    "api/users",
    "yesterday",
    "24h",
)
RAW = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'"\xff\xfe"',
    b"\x00",
    b"null",
    b'{"body": "\xc3\x28", "namespace": "api"}',
    b"1e999999",
)
ENDLESS = {"/v1/events"}  # whose answer ends with the caller: its own tests fuzz it
TYPES = ("application/json", "text/plain", "application/xml", "", "\xff/;charset=x")


def requests(document, seed):
    """Yield requests: each route in turn, with what it asks for turned into something odd."""
    draw = random.Random(seed)
    routes = [
        (method.upper(), path, said)
        for path, operations in sorted(document["paths"].items())
        if path not in ENDLESS
        for method, said in sorted(operations.items())
    ]
    while True:
        method, path, said = draw.choice(routes)
        for name in [part for part in path.split("/") if part.startswith("{")]:
            odd = "".join(draw.choices(string.printable, k=draw.randrange(1, 9)))
            path = path.replace(
                name, draw.choice(("%00", "%ff", "%F0%9F", ".", f"{ord(odd[0]):x}"))
            )
        names = [each["name"] for each in said.get("parameters", ()) if "in" in each]
        params = {
            name: str(draw.choice(ODD)).encode("utf-8", "replace")[:2_000]
            for name in names
            if draw.random() < 0.4
        }
        headers = {"content-type": draw.choice(TYPES).encode("latin-1")}
        if draw.random() < 0.1:
            headers["idempotency-key"] = b"\xe9" * draw.choice((1, 199, 2_000))
        body = draw.choice(RAW)
        if draw.random() < 0.7:
            fields = _fields(document, said)
            body = json.dumps(
                {name: draw.choice(ODD) for name in fields if draw.random() < 0.7}
            ).encode()
            headers["content-type"] = b"application/json"
        if draw.random() < 0.05:
            method = draw.choice(("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "BREW"))
        yield method, path, params, headers, body


def _fields(document, said):
    shape = json.dumps(said.get("requestBody", {})).partition("schemas/")[2]
    name = shape.partition('"')[0]
    return list(document["components"]["schemas"].get(name, {}).get("properties", ()))


def play(site, count, seed):
    """Send so many requests and return those that the server failed at."""
    document = site.client().get("/openapi.json").json()
    clients = [site.client("lead"), site.client("operator"), site.client()]
    made = requests(document, seed)
    for number in range(count):
        method, path, params, headers, body = next(made)
        client = clients[number % len(clients)]
        answer = client.request(method, path, params=params, headers=headers, content=body)
        if answer.status_code >= 500:
            yield method, path, params, body[:200], answer.text


@pytest.fixture
def open_site(serve):
    def start(*extensions):
        return serve(extensions=extensions, limits=Limits(rate=0, wrong=0))

    return start


def test_no_request_fails_the_server(open_site):
    assert [*play(open_site(), 300, 1)] == []


@pytest.mark.parametrize("odd", ["\\ud800", "\\u0000", "\\u202e"])
def test_what_a_problem_quotes_does_not_fail_it(open_site, odd):
    client = open_site().client("lead")
    for text in (
        f'{{"text": "{odd}", "project": "{odd}"}}',
        f'{{"text": "x", "project": "y", "{odd}": NaN}}',
    ):
        answer = client.post("/v1/blockers", content=text.encode())
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == 422


@pytest.mark.soak
def test_no_request_of_many_fails_the_server_or_makes_it_grow(open_site):
    site = open_site()
    assert [*play(site, 2_000, 2)] == []
    gc.collect()
    before = _resident()
    assert [*play(site, 10_000, 3)] == []
    gc.collect()
    grown = _resident() - before
    print(f"grown by {grown >> 20} MiB")
    assert grown < 64 << 20


def test_the_check_finds_a_route_that_fails(open_site):
    def plant(app):
        @app.get("/v1/planted")
        def planted(number: str = "1") -> PlainTextResponse:
            return PlainTextResponse(str(int(number)))

    site = open_site(plant)
    logging.getLogger("synapse.server.problems").addFilter(_quiet)
    try:
        assert next(play(site, 600, 1), None)
    finally:
        logging.getLogger("synapse.server.problems").removeFilter(_quiet)


def _resident():
    """Return the bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _quiet(record):
    return False


def wrong_tokens(site, tmp_path, count):
    """Yield texts that are no good token here."""
    draw, good = random.Random(4), site.token("eng")
    elsewhere = str(tmp_path / "elsewhere")
    yield from (site.token("eng", expires=clock.now() - 1), new_token(elsewhere, "eng"))
    gone = site.token("qa")
    revoke(site.tokens, "qa")
    yield gone
    letters = string.ascii_letters + string.digits + "-_"
    for _ in range(count - 3):
        how, place = draw.randrange(5), draw.randrange(len(good))
        other = draw.choice(letters.replace(good[place], ""))
        yield (
            good[: max(1, place)],
            good[:place] + other + good[place + 1 :],
            good + draw.choice(letters),
            "".join(draw.choices(letters, k=draw.randrange(1, 90))),
            good.swapcase(),
        )[how]


def try_tokens(site, tmp_path, count):
    client, accepted, texts = site.client(), [], []
    for token in wrong_tokens(site, tmp_path, count):
        answer = client.get("/v1/me", headers={"authorization": f"Bearer {token}"})
        texts.append(token)
        if answer.status_code != 401:
            accepted.append((token, answer.status_code))
        assert len(token) < 12 or token not in answer.text + str(answer.headers)
    return accepted, texts


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_wrong_token_is_let_in_or_told_on(open_site, tmp_path, caplog, count):
    for name in ("synapse", "uvicorn"):
        caplog.set_level(logging.DEBUG, logger=name)
    site = open_site()
    accepted, texts = try_tokens(site, tmp_path, count)
    assert accepted == []
    assert not [text for text in texts if len(text) > 12 and text in caplog.text]
    assert site.token("eng") not in caplog.text
