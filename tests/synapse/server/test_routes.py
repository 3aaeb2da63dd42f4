"""Each route answers as the library does, in the shape that its document says."""

import json
import os

import pytest

from synapse.acts import act
from synapse.formats.codec import entry_json
from synapse.server import shapes
from synapse.server.routes import acts as routes_of_acts
from synapse.server.routes import history
from synapse.wire import forms

API = {"namespace": "api/users"}


def post(client, place, status=200, key=None, **body):
    headers = {"idempotency-key": key} if key else {}
    answer = client.post(f"/v1{place}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def get(client, place, status=200, **params):
    answer = client.get(f"/v1{place}", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_entries_have_the_form_of_the_library(site):
    eng, mine = site.client("eng"), site.memory.as_agent("eng")
    made = post(eng, "/entries", 201, body="use /v2", **API)
    stored = json.loads(json.dumps(entry_json(mine.get(made["id"]))))
    assert get(eng, f"/entries/{made['id']}") == made == stored
    page = json.loads(json.dumps(forms.page_wire(mine.read())))
    assert get(eng, "/entries") == page
    assert get(eng, f"/entries/{made['id']}/fate") == {"fate": None}
    named = get(eng, "/entries", id=[made["id"]])
    assert named["entries"] == [{**made, "fate": None}]
    assert get(eng, "/entries", 404, id=["syn-2001-01-01-001"])["error"] == "NotFound"


def test_every_shape_is_what_the_library_gives(site):
    eng = site.client("eng")
    made = post(eng, "/entries", 201, body="use /v2", **API)
    forms_of = {shape: set(getattr(shapes, shape).model_fields) for shape in ("Entry",)}
    names = {shapes.Entry.model_fields[name].alias or name for name in forms_of["Entry"]}
    assert names == set(made)


def test_a_page_of_what_is_unread_is_marked_by_a_write(site):
    lead, eng = site.client("lead"), site.client("eng")
    made = post(lead, "/entries", 201, body="use /v3", priority="critical", **API)
    assert get(eng, "/unread") == {"agent": "eng", "unread": 1}
    page = get(eng, "/entries", unread=True)
    assert [entry["id"] for entry in page["entries"]] == [made["id"]]
    assert get(eng, "/unread")["unread"] == 1  # reading wrote nothing
    seen = {"ids": [made["id"]], "visible": 1, "cursor": page["cursor"]}
    assert post(eng, "/shown", key="a", **seen) == {"ids": [made["id"]]}
    assert get(eng, "/unread")["unread"] == 0
    reads = site.client("eng", read_only=True)
    assert reads.post("/v1/shown", json=seen).status_code == 403


def test_nobody_marks_what_it_may_not_see(site):
    kept = site.memory.as_agent("lead").append("salaries", "hr/pay")
    eng = site.client("eng")
    before = site.memory.store.log.mark()
    for id in (kept.id, "syn-2001-01-01-001"):
        refused = post(eng, "/shown", 404, ids=[id], visible=1, cursor=1)
        assert refused["detail"].replace(id, "") == ("there is no entry  that eng may see")
    assert site.memory.store.log.mark() == before


def test_an_answer_that_did_not_change_is_not_sent_again(site):
    eng = site.client("eng")
    made = post(eng, "/entries", 201, body="use /v2", **API)
    for place in ("/v1/entries", f"/v1/entries/{made['id']}", "/v1/briefing"):
        first = eng.get(place)
        tag = first.headers["etag"]
        again = eng.get(place, headers={"if-none-match": f'"x", W/{tag.removeprefix("W/")}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    post(eng, "/entries", 201, body="use /v3", **API)
    assert eng.get("/v1/entries", headers={"if-none-match": tag}).status_code == 200


def test_what_is_decided_about_an_entry(site):
    eng, lead = site.client("eng"), site.client("lead")
    made = post(eng, "/entries", 201, body="the build is red", **API)
    done = post(eng, f"/entries/{made['id']}/resolve", key="r", note="green")
    again = post(eng, f"/entries/{made['id']}/resolve", key="r", note="green")
    assert done["id"] == again["id"] == made["id"]
    assert get(eng, f"/entries/{made['id']}/fate")["fate"]["reason"] == "resolved"
    other = post(eng, "/entries", 201, body="old news", **API)
    filed = post(lead, "/archive", ids=[other["id"]])
    assert filed["entries"][0]["archived"] is True
    assert [e["id"] for e in get(eng, "/entries", archived=True)["entries"]] == [other["id"]]
    back = post(lead, "/restore", ids=[other["id"]])
    assert back["entries"][0]["archived"] is False
    assert post(lead, "/restore", 409, ids=[other["id"]])["error"] == "Conflict"
    assert get(lead, "/staged") == {"entries": []}


def test_work_is_leased_once(site):
    eng, lead = site.client("eng"), site.client("lead")
    lease = post(eng, "/claims", key="c", work="fix the build", minutes=5)
    assert post(eng, "/claims", key="c", work="fix the build", minutes=5) == lease
    refused = post(lead, "/claims", 409, work="Fix the build.")
    assert "eng" in refused["detail"]
    post(eng, "/claims/release", work="fix the build")
    assert post(lead, "/claims", work="fix the build")["agent"] == "lead"


def test_the_briefing_is_the_librarys(site):
    eng, mine = site.client("eng"), site.memory.as_agent("eng")
    post(eng, "/entries", 201, body="use /v2", **API)
    view = get(eng, "/briefing", budget=2_000)
    assert view["markdown"] == mine.briefing(2_000).text
    assert {entry["id"] for entry in view["included"]} == {entry.id for entry in mine.read()}
    text = eng.get("/v1/briefing?budget=2000", headers={"accept": "text/markdown"})
    assert text.text == view["markdown"]
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    since = get(eng, "/as-of", time="2001-01-01")
    assert [entry["body"] for entry in since["later"]] == ["use /v2"]
    assert get(eng, "/later", as_of="1000000000000000")["entries"] == since["later"]


def test_search_by_an_address_and_by_a_body(site):
    eng = site.client("eng")
    post(eng, "/entries", 201, body="the cache key is the user", **API)
    found = get(eng, "/search", q="cache key", namespace=["api/*"], mode="words")
    assert [hit["namespace"] for hit in found["entries"]] == ["api/users"]
    assert found["entries"][0]["score"] > 0
    reads = site.client("eng", read_only=True)
    assert post(reads, "/search", q="cache key", mode="words") == found
    assert get(eng, "/search", 422, q="x", mode="loud")["error"] == "InvalidQuery"


def test_mail_there_and_back(site):
    eng, lead = site.client("eng"), site.client("lead")
    sent = post(eng, "/messages", 201, "m", to="lead", body="ok?", subject="v2")
    assert post(eng, "/messages", 201, "m", to="lead", body="ok?", subject="v2") == sent
    assert get(lead, "/inbox/unread") == {"unread": 1}
    assert get(lead, "/inbox")["messages"][0]["id"] == sent["id"]
    place = f"/messages/{sent['id']}"
    assert post(lead, "/inbox/read", ids=[sent["id"]]) == {"ids": [sent["id"]]}
    answer = post(lead, f"{place}/reply", 201, body="yes")
    assert answer["thread_id"] == sent["thread_id"]
    assert post(lead, f"{place}/ack", body="done")["acks"][0]["body"] == "done"
    assert post(lead, f"{place}/react", reaction="+1")["reactions"]
    assert get(eng, place)["status"] == "acknowledged"
    assert post(eng, f"{place}/edit", 201, body="ok now?")["body"] == "ok now?"
    thread = f"/threads/{sent['thread_id']}"
    assert eng.get("/v1/threads?status=all").json()["threads"] == [get(eng, thread)]
    assert len(get(eng, f"{thread}/messages")["messages"]) == 2
    assert post(eng, f"{thread}/tag", add=["api"])["tags"] == ["api"]
    assert post(eng, f"{thread}/rename", subject="v3")["subject"] == "v3"
    assert post(eng, f"{thread}/close", summary=True)["status"] == "closed"
    assert post(eng, f"{thread}/reopen")["status"] == "active"


def test_no_file_of_the_server_is_attached(site, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("text")
    eng = site.client("eng")
    draft = {"to": "lead", "body": "see"}
    refused = post(eng, "/messages", 422, attachments=[str(secret)], **draft)
    assert "opens no files" in refused["detail"]
    link = post(eng, "/messages", 201, attachments=["https://x.example/"], **draft)
    assert link["attachments"] == [{"url": "https://x.example/"}]


def test_knowledge(site):
    eng = site.client("eng")
    fact = post(eng, "/facts", 201, "f", fact="the cache is warm at nine")
    assert post(eng, "/facts", 201, "f", fact="the cache is warm at nine") == fact
    atoms = [
        post(eng, "/atoms", 201, subject="eng", action=act, outcome="green")
        for act in ("builds", "ships")
    ]
    cause, effect = (atom["id"] for atom in atoms)
    link = post(eng, "/links", cause=cause, effect=effect)
    assert get(eng, f"/atoms/{cause}/links") == {"links": [link]}
    assert get(eng, f"/why/{effect}")["sources"][0]["id"] == cause
    assert "warm at nine" in get(eng, "/recall", q="cache warm")["text"]
    post(eng, f"/knowledge/{fact['id']}/forget", reason="wrong")
    assert get(eng, f"/entries/{fact['id']}/fate")["fate"]["reason"] == "resolved"


def test_blockers(site):
    lead = site.client("lead")
    made = post(lead, "/blockers", 201, "b", text="Blocked: no key", project="pay")
    assert made["priority"] == "critical"
    assert (made["body"], made["namespace"]) == ("Blocked: no key", "blockers/pay")
    assert len(get(lead, "/blockers")["entries"]) == 1
    assert len(get(lead, "/blockers", project="pay")["entries"]) == 1
    assert get(lead, "/blockers", project="ship")["entries"] == []
    assert post(lead, "/blockers", 422, text="x", project="../etc")["error"]
    post(lead, f"/entries/{made['id']}/resolve")
    assert get(lead, "/blockers")["entries"] == []


def test_who_calls_and_who_there_is(site):
    eng = site.client("eng", read_only=True)
    me = get(eng, "/me")
    assert (me["agent"], me["read_only"]) == ("eng", True)
    assert me["declared"]["write"] == ["api/*"]
    agents = {agent["id"]: agent for agent in get(eng, "/agents")["agents"]}
    assert "read" in agents["eng"]
    assert "read" not in agents["lead"]
    assert "agent:lead" in agents["lead"]["names"]
    assert "read" in get(site.client("operator"), "/agents")["agents"][0]


def test_history(site):
    eng, lead = site.client("eng"), site.client("lead")
    made = post(lead, "/entries", 201, body="we ship", namespace="decisions/pay")
    post(eng, "/entries", 201, body="use /v2", **API)
    assert made["id"] in str(get(lead, "/log"))
    assert made["id"] not in str(get(eng, "/log"))
    assert [m["text"] for m in get(eng, "/recent")["moments"]] == ["use /v2"]
    assert get(lead, "/timeline/pay")["moments"][0]["id"] == made["id"]
    assert get(lead, "/agents/eng/acts")["moments"]
    assert get(eng, "/agents/lead/acts")["moments"] == []


PAGED = {
    "/log": ("acts", {}),
    "/agents/lead/acts": ("moments", {}),
    "/timeline/pay": ("moments", {}),
    "/recent": ("moments", {"since": "1d"}),
}


@pytest.mark.parametrize("place", PAGED)
def test_pages_of_what_happened_are_walked(site, place):
    lead, (name, asked) = site.client("lead"), PAGED[place]
    me = site.memory.as_agent("lead")
    for n in range(7):
        me.append(f"step {n}", "decisions/pay")
    whole = get(lead, place, **asked)
    assert whole["next"] is None
    pages = [get(lead, place, limit=2, **asked)]
    while pages[-1]["next"] is not None:
        me.append("meanwhile", "decisions/pay")
        pages.append(get(lead, place, limit=2, before=pages[-1]["next"], **asked))
    assert len(pages) > 3
    rows = [row for page in (pages if place == "/recent" else pages[::-1]) for row in page[name]]
    assert rows == whole[name]
    assert get(lead, place, 422, before="x")["error"] == "InvalidQuery"


def test_a_page_without_a_limit_is_the_newest_of_a_server_s_page(site, monkeypatch):
    monkeypatch.setattr(act, "PAGE", 3)
    monkeypatch.setattr(routes_of_acts, "PAGE", 3)
    monkeypatch.setattr(history, "PAGE", 3)
    lead, me = site.client("lead"), site.memory.as_agent("lead")
    for n in range(5):
        me.append(f"step {n}", "decisions/pay")
    for place, (name, asked) in PAGED.items():
        limits = [{"limit": 9}] if place == "/recent" else [{}, {"limit": 0}, {"limit": 9}]
        for limit in limits if place != "/log" else limits[1:]:
            page = get(lead, place, **asked, **limit)
            assert len(page[name]) == 3, (place, limit)
            assert page["next"], (place, limit)
            newest = page[name][0 if place == "/recent" else -1]
            assert "step 4" in newest.get("what", newest.get("text")), (place, limit)


def test_what_is_the_operators_alone(site):
    operator, eng = site.client("operator"), site.client("eng")
    told = post(operator, "/tell", 201, to="eng", body="ship it")
    assert told["from"] == "operator"
    assert get(operator, "/audit", limit=1)["audit"][0]["id"] == told["id"]
    assert get(operator, "/questions") == {"entries": []}
    assert get(operator, "/nights")["nights"] == []
    assert get(operator, "/verify")["problems"] == []
    undone = post(operator, "/nights/undo", 404, what="2001-01-01", plan=True)
    assert undone["error"] == "NotFound"
    for place in ("/audit", "/questions", "/nights", "/verify"):
        assert get(eng, place, 403)["error"] == "Forbidden"
    for place, body in (("/tell", {"to": "lead", "body": "x"}), ("/nights/undo", {"what": "last"})):
        post(eng, place, 403, **body)
        reads = site.client("operator", read_only=True)
        post(reads, place, 403, **body)


@pytest.mark.parametrize("place", ["/healthz", "/readyz"])
def test_a_server_that_is_up_says_so_to_everybody(site, place):
    assert site.client().get(place).json()["status"] in ("up", "ready")


def test_a_memory_that_cannot_be_used_is_not_ready(site):
    root = site.memory.store.root
    os.rename(f"{root}/journal", f"{root}/elsewhere")
    answer = site.client().get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, 503)
    assert site.client().get("/healthz").status_code == 200


def test_the_figures_are_the_operators_and_hold_no_text(site):
    eng = site.client("eng")
    post(eng, "/entries", 201, body="quartz", **API)
    eng.get("/v1/entries/quartz-id")
    eng.get("/quartz")
    assert site.client().get("/metrics").status_code == 401
    assert eng.get("/metrics").status_code == 403
    text = site.client("operator", read_only=True).get("/metrics").text
    assert "quartz" not in text
    assert "synapse_live_entries 1.0" in text
    assert 'route="/v1/entries/{id}",status="404"' in text
    assert 'route="other",status="404"' in text
