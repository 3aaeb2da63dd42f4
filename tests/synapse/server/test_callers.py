import pytest

from synapse.model import clock

DRAFT = {"body": "use /v2", "namespace": "api/users"}


def test_a_token_is_the_identity(site):
    eng = site.client("eng")
    made = eng.post("/v1/entries", json=DRAFT)
    assert made.status_code == 201
    assert made.json()["from"] == "eng"
    assert made.headers["location"] == f"/v1/entries/{made.json()['id']}"
    other = eng.post("/v1/entries", json={**DRAFT, "from": "lead"})
    assert (other.status_code, other.json()["error"]) == (403, "Forbidden")
    assert eng.post("/v1/entries", json={**DRAFT, "from": "eng"}).status_code == 201


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic eHg6eHg=", "Token {token}"])
def test_who_has_no_good_token_is_turned_away(site, header):
    client = site.client()
    answer = client.get(
        "/v1/entries", headers={"authorization": header.format(token=site.token("eng"))}
    )
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_that_reads_alone_writes_nothing(site):
    client = site.client("eng", read_only=True)
    assert client.get("/v1/entries").status_code == 200
    assert client.post("/v1/entries", json=DRAFT).status_code == 403
    assert len(site.memory.as_agent("operator").read()) == 0


def test_an_expired_token_is_not_good(site):
    client = site.client("eng", expires=clock.now() - 1)
    assert client.get("/v1/entries").status_code == 401


def test_what_an_agent_may_not_see_is_not_there(site):
    kept = site.memory.as_agent("lead").append("salaries", "hr/pay")
    assert site.client("eng").get(f"/v1/entries/{kept.id}").status_code == 404
    assert site.client("lead").get(f"/v1/entries/{kept.id}").json()["body"] == "salaries"


def test_a_second_request_with_the_same_key_writes_nothing(site):
    eng = site.client("eng")
    key = {"idempotency-key": "deploy-7"}
    ids = {eng.post("/v1/entries", json=DRAFT, headers=key).json()["id"] for _ in "123"}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:80"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1.evil.example"}, 403),
        ({"host": "localhost"}, 200),
    ],
)
def test_a_page_of_another_site_reaches_nothing(serve, headers, status):
    site = serve(trust_local=True)
    assert site.client().get("/v1/entries", headers=headers).status_code == status


def test_without_tokens_only_where_that_is_said(serve):
    assert serve().client().get("/v1/entries").status_code == 401
    local = serve(trust_local=True).client()
    assert local.get("/v1/entries").status_code == 200
    named = local.post("/v1/entries", json=DRAFT, headers={"synapse-agent": "eng"})
    assert named.json()["from"] == "eng"
    assert local.post("/v1/entries", json=DRAFT).status_code == 403  # the operator's
