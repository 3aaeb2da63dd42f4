"""Pages of runs: all are answered, empty or not, hostile or not, for the operator alone."""

import re

PAGES = ("/runs", "/lanes", "/costs", "/unread-results", "/wakes")


def test_an_empty_page_says_what_to_do_first(site, browser):
    for path in PAGES:
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert 'class="empty"' in answer.text, path


def test_nothing_in_a_page_runs_or_styles_itself(worked, browser):
    for path in (*PAGES, "/runs/lead-1", "/runs/eng-2", "/"):
        answer = browser.get(path)
        assert answer.status_code == 200, (path, answer.text)
        own = r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+="
        assert not re.search(own, answer.text), path
        assert "default-src 'none'" in answer.headers["content-security-policy"], path


def test_pages_of_runs_are_the_operators(worked, serve):
    client = worked.client()
    code = worked.app.state.serving.browsers.link("lead")
    client.post("/login", data={"code": code})
    page = client.get("/")
    assert 'href="/runs"' not in page.text
    assert "At work now" not in page.text
    for path in (*PAGES, "/runs/eng-1"):
        assert client.get(path).status_code == 403


def test_rows_sum_up_the_tree(worked, browser):
    text = browser.get("/runs").text
    row = text.partition('data-run="lead-1"')[2].partition("</tr>")[0]
    assert ">360<" in row
    assert "$0.0300" in row
    assert text.index('data-run="lead-1"') < text.index('data-run="eng-1"')


def test_every_number_leads_to_its_runs(worked, browser):
    for by in ("day", "department", "agent", "project", "role", "model"):
        text = browser.get(f"/costs?by={by}").text
        table = text.partition("<tbody>")[2]
        links = re.findall(r'<td class="num"><a href="([^"]+)">(\d+)</a>', table)
        assert links
        for link, number in links:
            page = browser.get(link.replace("&amp;", "&")).text
            if "k" not in number and int(number) < 100:
                assert page.count("data-run=") == int(number), link


def test_hostile_names_and_tasks_stay_text(site, browser):
    hostile = "<img src=x onerror=alert(1)>\u202e"
    site.office.begin("eng-x", task=hostile, project=hostile)
    site.office.turn("eng-x", 0, hostile)
    for path in ("/runs", "/runs/eng-x", "/lanes", "/costs?by=project", "/"):
        text = browser.get(path).text
        assert "<img src=x" not in text
        assert "\u202e" not in text


def test_a_person_stops_a_run(worked, browser):
    page = browser.get("/runs/eng-2").text
    assert 'hx-post="/runs/eng-2/stop"' in page
    assert "hx-confirm" in page
    assert 'hx-post="/runs/eng-1/stop"' not in browser.get("/runs/eng-1").text
    answer = browser.post("/runs/eng-2/stop", data={"reason": "no more"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/runs/eng-2"
    assert "Asked to stop: no more" in browser.get("/runs/eng-2").text
    acts = worked.memory.store.acts(None, None, 0, None)
    (stop,) = [record for record in acts if record.kind == "stop"]
    assert stop.fields["reason"] == "no more"
    del browser.headers["x-synapse-csrf"]
    assert browser.post("/runs/eng-2/stop").status_code == 403


def test_the_overview_says_who_works_and_what_waits(worked, browser):
    worked.memory.as_agent("eng-a").append(
        "Which port?", "blockers/web", priority="critical", to=["operator"]
    )
    text = browser.get("/").text
    assert "At work now" in text
    assert 'href="/runs/eng-2"' in text
    assert "Waits for a person" in text
