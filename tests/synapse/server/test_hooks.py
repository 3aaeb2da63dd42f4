"""Deliveries of other systems over HTTP: proven by their signature, and without a token."""

import json
import threading

import pytest

from synapse import Agent
from tests.synapse.webhooks.test_inbound import FIELDS, ISSUE, SECRETS, VARIABLE, headers_of
from tests.trusted import trust

BODY = json.dumps(ISSUE).encode()


@pytest.fixture
def site(serve, monkeypatch):
    monkeypatch.setenv(VARIABLE, SECRETS["github"])
    site = serve([Agent("bot", read=["team/*"], write=["team/*"])])
    root = site.memory.store.root
    with open(f"{root}/synapse.yaml", "a", encoding="utf-8") as file:
        hook = json.dumps(FIELDS | {"verify": "github"})
        file.write(f"hooks:\n  tracker: {hook}\n")
    site.memory.store.refresh(whole=True)
    trust(root)
    return site


def test_a_delivery_becomes_one_entry(site):
    client = site.client()
    answers = [
        client.post("/v1/hooks/tracker", content=BODY, headers=headers_of("github", BODY))
        for _ in range(3)
    ]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.json()["id"] for answer in answers}) == 1
    (entry,) = site.memory.as_agent("bot").read()
    assert (entry.author, entry.namespace) == ("bot", "team/issues")


@pytest.mark.parametrize(
    ("name", "body", "headers", "status"),
    [
        ("tracker", BODY, {}, 401),
        ("tracker", BODY + b" ", headers_of("github", BODY), 401),
        ("tracker", b"x" * 300_000, headers_of("github", b"x" * 300_000), 413),
        ("tracker", b"{", headers_of("github", b"{"), 400),
        ("nothing", BODY, headers_of("github", BODY), 404),
    ],
)
def test_what_is_not_proven_or_does_not_fit_is_refused(site, name, body, headers, status):
    answer = site.client().post(f"/v1/hooks/{name}", content=body, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(site.memory.as_agent("bot").read()) == 0


def test_alerts_that_come_at_once_are_all_taken_whoever_else_sends_wrong_tokens(site, monkeypatch):
    root = site.memory.store.root
    with open(f"{root}/synapse.yaml", "a", encoding="utf-8") as file:
        hook = json.dumps(FIELDS | {"verify": "token"})
        file.write(f"  alerts: {hook}\n")
    site.memory.store.refresh(whole=True)
    trust(root)
    wrong = site.client(token="syn_wrong")
    while wrong.get("/v1/me").status_code != 429:
        pass
    client, codes = site.client(token=SECRETS["github"]), []

    def deliver(number):
        body = json.dumps(ISSUE | {"number": number}).encode()
        codes.append(client.post("/v1/hooks/alerts", content=body).status_code)

    threads = [threading.Thread(target=deliver, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert codes == [201] * 60
