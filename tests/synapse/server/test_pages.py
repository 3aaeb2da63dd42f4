"""The pages for people: who gets in, what a page may load, and what others add to them."""

import re
from hashlib import sha256
from html import unescape
from pathlib import Path

from fastapi import Request
from markupsafe import Markup

import synapse
from synapse import Agent
from synapse.server.pages.frame import Card, Link, frame_of
from synapse.server.pages.route import pages
from synapse.trust.bearer import revoke

CSRF = re.compile(r'name="synapse-csrf" content="([^"]+)"')


def log_in(site, agent="operator", **options):
    """Return a client whose browser is logged in, with the token of its pages as a header."""
    client = site.client()
    code = site.app.state.serving.browsers.link(agent, **options)
    answer = client.post("/login", data={"code": code})
    assert answer.status_code == 303, answer.text
    client.headers["x-synapse-csrf"] = CSRF.search(client.get("/").text)[1]
    return client


def test_a_link_is_used_up_by_its_button_alone(site):
    client = site.client()
    code = site.app.state.serving.browsers.link("eng")
    for _ in range(3):
        assert 'action="/login"' in client.get(f"/login?code={code}").text
    answer = client.post("/login", data={"code": code})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert client.get("/").status_code == 200
    again = site.client().post("/login", data={"code": code})
    assert again.status_code == 401
    assert "this link was used" in again.text


def test_who_is_not_logged_in_is_told_how(site):
    answer = site.client().get("/")
    assert answer.status_code == 401
    assert "synapse dashboard" in answer.text


def test_logging_out_needs_the_page_and_ends_the_login(site):
    client = log_in(site)
    assert client.post("/logout", headers={"x-synapse-csrf": "x"}).status_code == 403
    assert client.get("/").status_code == 200
    assert client.post("/logout").status_code == 204
    assert client.get("/").status_code == 401


def test_a_login_ends_when_a_token_of_its_agent_is_revoked(site):
    browsers = site.app.state.serving.browsers
    client, other, unused = log_in(site, "eng"), log_in(site, "qa"), browsers.link("eng")
    site.token("eng")
    assert client.get("/").status_code == 200
    revoke(site.tokens, "eng")
    assert client.get("/").status_code == 401
    assert site.client().post("/login", data={"code": unused}).status_code == 401
    assert other.get("/").status_code == 200
    assert log_in(site, "eng").get("/").status_code == 200


def test_pages_may_load_and_run_nothing_of_others(site):
    client = log_in(site)
    for path in ("/", "/login", "/none"):
        answer = client.get(path)
        if path == "/none":
            continue
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"https?://", answer.text), answer.text


def test_with_trust_local_nobody_logs_in(serve):
    assert serve(trust_local=True).client().get("/").status_code == 200


def test_an_extension_adds_a_page_a_link_a_card_and_its_files(serve, tmp_path: Path):
    (tmp_path / "runs.html").write_text(
        '{% extends "base.html" %}{% block main %}<h1>Runs of {{ who }}</h1>{% endblock %}'
    )
    (tmp_path / "card.html").write_text('<section class="card">{{ n }} runs</section>')
    (tmp_path / "runs.css").write_text("p { color: red }")
    router = pages()

    @router.get("/runs")
    def runs(request: Request):
        return frame_of(request).answer(request, "runs.html", who="<b>\x1beng")

    def extend(app):
        frame = frame_of(app)
        frame.add_templates(tmp_path)
        frame.add_assets(tmp_path)
        frame.add_link(Link("/runs", "Runs", "r", 50, "Work"))
        frame.add_card(Card(10, lambda request: frame.markup("card.html", n=3)))
        frame.add_card(Card(20, lambda request: None))
        frame.add_card(Card(30, lambda request: Markup("<i>last</i>")))
        app.include_router(router)

    client = log_in(serve(extensions=[extend]))
    page = client.get("/runs").text
    assert "<h1>Runs of &lt;b&gt;\\x1beng</h1>" in page
    assert 'href="/runs" aria-current="page"' in page
    home = client.get("/").text
    assert '<section class="card">3 runs</section><i>last</i>' in home
    assert client.get("/static/runs.css").text == "p { color: red }"
    assert client.get("/static/../runs.html").status_code == 404


def test_a_change_needs_the_token_of_its_page(site):
    eng, lead = site.memory.as_agent("eng"), log_in(site, "lead")
    entry = eng.append("the cache is off", "api/cache")
    token = lead.headers.pop("x-synapse-csrf")
    for headers in ({}, {"x-synapse-csrf": "x"}):
        answer = lead.post(f"/entries/{entry.id}/archive", headers=headers)
        assert answer.status_code == 403
    assert not eng.get(entry.id).archived
    lead.headers["x-synapse-csrf"] = token
    answer = lead.post(f"/entries/{entry.id}/archive", data={"back": "//evil.example"})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/entries/{entry.id}?did=archived"
    assert eng.get(entry.id).archived


def test_a_login_that_reads_only_changes_nothing(site):
    entry = site.memory.as_agent("eng").append("the cache is off", "api/cache")
    client = log_in(site, "lead", read_only=True)
    for path in (f"/entries/{entry.id}/archive", "/undo/last"):
        assert client.post(path).status_code == 403
    assert not site.memory.as_agent("eng").get(entry.id).archived


def test_the_operator_rules_in_its_own_name(site):
    site.memory.register(Agent("intern", write=["api/*"], review_required=True))
    intern, client = site.memory.as_agent("intern"), log_in(site)
    one, two = (intern.append(text, "api/ideas").id for text in ("one", "two"))
    page = client.get("/review").text
    assert page.count("/approve") == page.count("/reject") == 2
    done = client.post(f"/entries/{one}/approve", data={})
    assert done.headers["location"] == f"/entries/{one}?did=approved"
    fields = {"text": "not now", "back": "/review"}
    done = client.post(f"/entries/{two}/reject", data=fields)
    assert done.headers["location"] == "/review?did=rejected"
    assert not intern.get(one).staged
    assert site.memory.as_agent("lead").fate(two).reason == "rejected"
    assert "/resolve" in client.get(f"/entries/{one}").text
    done = client.post(f"/entries/{one}/resolve", data={"text": "it is done"})
    assert done.headers["location"] == f"/entries/{one}?did=resolved"
    acts = {record.kind: record for record in site.memory.audit()}
    assert {acts[kind].by for kind in ("approve", "reject", "resolve")} == {"operator"}
    three = intern.append("three", "api/ideas").id
    assert log_in(site, "qa").post(f"/entries/{three}/approve").status_code >= 400
    reads = log_in(site, read_only=True)
    assert "/approve" not in reads.get("/review").text
    assert reads.post(f"/entries/{three}/approve").status_code == 403


def test_where_nobody_else_may_rule_the_operator_may(serve):
    site = serve(agents=(Agent("intern", write=["api/*"], review_required=True),))
    entry = site.memory.as_agent("intern").append("an idea", "api/ideas")
    client = log_in(site)
    client.post(f"/entries/{entry.id}/approve", data={})
    assert not site.memory.as_agent("intern").get(entry.id).staged


def test_what_the_operator_said_is_not_critical_and_unresolved(site):
    """Neither in the figure nor in the list; an answer ends the blocker that it is about."""
    eng, client = site.memory.as_agent("eng"), log_in(site)
    asked = site.memory.as_agent("lead").append(
        "Blocked: no disk", "blockers/web", priority="critical"
    )
    other = eng.append("the cache lies", "api/cache", priority="critical")

    def critical(page):
        listed = page.partition("nobody has resolved it")[2].partition("</section>")[0]
        return re.search(r"<b>(\d+)</b>critical", page)[1], listed

    assert critical(client.get("/").text)[0] == "2"
    answer = site.memory.tell("lead", "It has disk now", re=asked.id)
    figure, listed = critical(client.get("/").text)
    assert figure == "1"
    assert other.id in listed
    assert answer.id not in listed
    assert asked.id not in listed
    assert site.memory.audit(entry=asked.id)[0].fields["note"] == (f"answered in {answer.id}")


def test_a_page_shows_what_its_agent_may_see_alone(site):
    hidden = site.memory.as_agent("lead").append("the secret plan", "plans/x")
    site.memory.as_agent("eng").append("the open plan", "api/plan")
    client = log_in(site, "qa")
    for path in ("/", "/timeline", "/entries", "/entries?q=plan", "/as-of/view?at=1s"):
        page = client.get(path).text
        assert "secret plan" not in page
        assert hidden.id not in page
    assert "the open plan" in client.get("/entries").text
    for path in ("", "/acts", "/reach"):
        assert client.get(f"/entries/{hidden.id}{path}").status_code == 404
    assert client.get("/nights").status_code == 403
    assert client.get("/agents/eng/reputation").status_code == 403
    assert client.post("/questions/x/answer", data={"body": "y"}).status_code == 403


def test_the_timeline_turns_to_older_acts(site):
    me, client = site.memory.as_agent("eng"), log_in(site)
    written = [me.append(f"step {n}", "api/x").id for n in range(120)][::-1]
    older, place, shown = re.compile(r'href="([^"]+)">Older'), "/timeline?agent=eng", []
    while place:
        text = client.get(place).text
        shown += re.findall(r"/entries/(syn-[\d-]+)\"", text)
        link = older.search(text)
        place = link and f"/timeline{unescape(link[1])}"
        me.append("meanwhile", "api/x")
    assert shown == written
    assert 'role="alert"' in client.get("/timeline?before=x").text
    link = unescape(older.search(client.get("/agents/eng").text)[1])
    assert re.findall(r"/entries/(syn-[\d-]+)\"", client.get(link).text)[0] == written[17]


def test_vendored_files_are_those_that_are_named():
    vendor = Path(synapse.__file__).parent / "server/pages/static/vendor"
    names, _, digests = (vendor / "VERSIONS.txt").read_text().partition("\n\n")
    assert [line.split()[0] for line in names.splitlines()] == ["htmx.org", "uplot"]
    listed = dict(reversed(line.split()) for line in digests.splitlines())
    files = {path.name for path in vendor.iterdir()} - {"VERSIONS.txt"}
    assert listed.keys() == files
    for name, digest in listed.items():
        assert sha256((vendor / name).read_bytes()).hexdigest() == digest, name


def test_what_there_is_not_is_a_page_to_a_browser_and_a_document_to_programs(site):
    client = log_in(site)
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nowhere", "/entries/none", "/agents/nobody"):
        answer = client.get(path, headers=browser)
        assert answer.status_code == 404, path
        assert answer.headers["content-type"].startswith("text/html"), path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert 'role="alert"' in answer.text
    page = client.get("/<script>alert(1)</script>", headers=browser)
    assert "<script>alert" not in page.text
    for path, accept in (
        ("/nowhere", "application/json"),
        ("/nowhere", "*/*"),
        ("/v1/nowhere", browser["accept"]),
    ):
        answer = client.get(path, headers={"accept": accept})
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json", path
    assert site.client().get("/nowhere", headers=browser).status_code == 404


def test_a_blocker_stands_once_on_the_overview(site):
    me = site.memory.as_agent("lead")
    blocked = me.append("Blocked: no port", "blockers/web", priority="critical")
    beside = me.append("Blocked: no name", "blockers/web")
    note = me.append("The page is served.", "status/web")
    text = log_in(site).get("/").text
    for entry in (blocked, beside, note):
        assert text.count(f'class="title" href="/entries/{entry.id}"') == 1, entry.body
    assert "Other open blockers" in text


def test_a_question_stands_once_on_the_overview(site):
    me = site.memory.as_agent("lead")
    asked = me.append("Which port?", "blockers/web", priority="critical", to="operator")
    text = log_in(site).get("/").text
    assert f'hx-post="/questions/{asked.id}/answer"' in text
    assert f'class="title" href="/entries/{asked.id}"' not in text


def test_departments_are_a_tab_of_agents(site):
    client = log_in(site)
    for path in ("/agents", "/departments", "/agents/eng"):
        side, _, main = client.get(path).text.partition("<main")
        assert 'href="/departments"' not in side
        assert '<a href="/departments"' in main
