"""Pages of runs: all are answered, empty or not, hostile or not, for the operator alone."""

import re

from orchestrator.engines.choice import NotNamed
from orchestrator.prompts.receipt import Receipt
from orchestrator.reports.rows import Source, find_run
from orchestrator.runs.files.folder import RECEIPT
from orchestrator.runs.records import Runs
from orchestrator.server.source import question

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


def test_lanes_results_and_wakes_are_tabs_of_runs(worked, browser):
    """In the navigation Runs stands for them; their own addresses are as they were."""
    for path in ("/runs", "/lanes", "/unread-results", "/wakes", "/runs/eng-1"):
        side, _, main = browser.get(path).text.partition("<main")
        assert re.search(r'href="/runs" aria-current="(page|true)"', side), path
        for tab in ("/lanes", "/unread-results", "/wakes"):
            assert f'href="{tab}"' not in side
            assert f'href="{tab}"' in main, path
        tabs = main.partition("</nav>")[0]
        assert tabs.count('aria-current="page"') == 1, path
    assert 'class="pages"' not in browser.get("/costs").text


def test_rows_that_are_filtered_are_each_alone_and_say_so(worked, browser):
    text = browser.get("/runs?agent=lead").text
    assert "Own cost" in text
    assert "Own cost" not in browser.get("/runs").text


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
        links = re.findall(r'<td class="num"[^>]*><a href="([^"]+)">(\d+)</a>', table)
        assert links
        for link, number in links:
            page = browser.get(link.replace("&amp;", "&")).text
            if "k" not in number and int(number) < 100:
                assert page.count("data-run=") == int(number), link


def test_calls_that_nobody_answered_are_told(worked, site, browser):
    assert "never answered" not in browser.get("/costs").text
    site.office.begin("eng-9")
    site.office.end("eng-9", unanswered=[2, 3000, 0.25])
    told = browser.get("/costs").text.partition(" of a model were sent and never answered: ")
    assert (told[0][-7:], told[2][:6]) == ("2 calls", "~3\u202f000")
    assert "$0.25" in told[2][:40]


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
    card = text.partition('id="h-waiting">Waits for you')[2].partition("</section>")[0]
    assert card.count("Which port?") == 1
    assert "orchestrator answer syn-" in card


def test_a_run_that_waits_is_answered_on_its_page(worked, browser):
    """Or on that of its blocker: the agent is told, and the question is done."""
    entries = {}
    for id, agent in (("eng-8", "eng-a"), ("eng-9", "eng-b")):
        worked.office.begin(id, agent=agent)
        entries[id] = worked.memory.as_agent(agent).append(
            f"Blocked: no key for {id}", "blockers/web", priority="critical"
        )
        waits = {"asks": entries[id].id, "entry": entries[id].id, "state": "waiting"}
        worked.office.end(id, agent=agent, status="blocked", **waits)
    page = browser.get("/runs/eng-8").text
    assert "no key for eng-8" in page
    assert 'hx-post="/runs/eng-8/answer"' in page
    done = browser.post("/runs/eng-8/answer", data={"body": "In the vault"})
    assert done.headers["location"] == "/runs/eng-8?did=answered"
    assert 'hx-post="/runs/eng-8/answer"' not in browser.get("/runs/eng-8").text
    assert browser.post("/runs/eng-8/answer", data={"body": "x"}).status_code == 409
    id = entries["eng-9"].id
    assert f'hx-post="/entries/{id}/answer"' in browser.get(f"/entries/{id}").text
    done = browser.post(f"/entries/{id}/answer", data={"body": "In the vault"})
    assert done.headers["location"] == f"/entries/{id}?did=answered"
    for agent, entry in (("eng-a", entries["eng-8"]), ("eng-b", entries["eng-9"])):
        me = worked.memory.as_agent(agent)
        assert me.fate(entry.id)[:2] == ("resolved", "operator")
        assert [said.body for said in me.read(author="operator")] == ["In the vault"]
    assert browser.post(f"/entries/{id}/answer", data={"body": "x"}).status_code == 409


def test_the_overview_says_what_memory_took_and_spared(worked, browser):
    """Of runs that ended by their records, of those at work by their steps."""
    assert "it spared no call of a tool" in browser.get("/").text
    act = {"key": "act:1", "told": "syn-2026-01-01-001", "counts": ["given"]}
    worked.office.step("eng-2", 7, "result", call="c", text="57", name="find", act=act)
    worked.office.begin("eng-3")
    worked.office.turn("eng-3", 0, "It is there.")
    worked.office.end("eng-3", shares={"given": 2, "made": 1})
    text = browser.get("/").text
    assert "Memory took" in text
    assert 'it spared <a href="/runs/eng-3#h-memory">3 calls</a>' in text


def test_a_finished_run_is_asked_on(worked, browser):
    assert 'hx-post="/runs/eng-1/ask"' in browser.get("/runs/eng-1").text
    assert 'hx-post="/runs/eng-2/ask"' not in browser.get("/runs/eng-2").text
    answer = browser.post("/runs/eng-1/ask", data={"body": "Which port is it on?"})
    assert answer.headers["location"] == "/runs/eng-1?did=asked"
    assert "next prompt" in browser.get(answer.headers["location"]).text
    agent = worked.memory.as_agent("eng-a")
    assert "Which port is it on?" in agent.briefing(4_000).text
    (entry,) = agent.read(author="operator")
    assert entry.addressees == ("agent:eng-a",)
    assert browser.post("/runs/eng-1/ask", data={"body": ""}).status_code >= 400


def test_a_question_without_an_engine_is_refused_and_says_what_to_do(site, browser):
    def begin(task):
        raise NotNamed(task.agent)

    asked = {"agent": "eng-a", "project": "web"}
    site.office.begin("eng-1", asked=asked)
    site.office.end("eng-1")
    site.app.state.begin = begin
    answer = browser.post("/runs/eng-1/ask", data={"body": "Which port?"})
    assert answer.status_code == 409
    assert "no engine is named for eng-a" in answer.text
    assert "--engine NAME" in answer.text


def test_a_question_is_asked_again_unless_it_is_to_be_once(site, browser):
    begun = []

    def begin(task):
        begun.append(task)
        return Runs(site.memory.store).get("eng-1")

    site.office.begin("eng-1", asked={"agent": "eng-a", "project": "web", "force": True})
    site.office.end("eng-1")
    site.app.state.begin = begin
    for more in ({}, {"once": "1"}):
        browser.post("/runs/eng-1/ask", data={"body": "Which port?", **more})
    assert [task.once for task in begun] == [False, True]


def test_a_run_says_what_would_be_different_now(site, browser):
    eng, other = (site.memory.as_agent(id) for id in ("eng-a", "eng-b"))
    holds, ends = (
        eng.append(text, "status/web", priority="important").id
        for text in ("The port is 8080.", "Use /v1.")
    )
    site.office.begin("eng-1")
    site.office.prompt("eng-1", [holds, ends])
    receipt = Receipt(
        *("eng-1", 1, "eng-a", site.memory.store.clock(), 2),
        *("engineer", "t", "tiktoken", "o200k_base", "exact", 1.0, 4_000, "", ()),
        *(False, ((holds, 20, "whole", "important"), (ends, 18, "whole", "important"))),
        *((), {"view": 38}, "digest", "fence"),
    )
    site.office.folder("eng-1").write(RECEIPT, receipt.dump())
    assert "Nothing: all that it was shown holds" in since(browser, "eng-1")
    new = eng.append("Use /v2.", "status/web", supersedes=ends).id
    other.append("The page is there.", "status/web")
    text = since(browser, "eng-1")
    gone = text.partition("holds no longer")[2].partition("</ul>")[0]
    assert ends in gone
    assert new in gone
    assert holds not in gone
    assert "The page is there." in text
    assert "2 entries" in text
    story = browser.get(f"/entries/{holds}/reach").text
    assert "In the prompts of 1 run<" in story
    assert 'href="/runs/eng-1"' in story


def since(browser, run):
    assert f'hx-get="/runs/{run}/since"' in browser.get(f"/runs/{run}").text
    answer = browser.get(f"/runs/{run}/since")
    assert answer.status_code == 200
    return answer.text


def test_what_asks_a_run_on_is_bound_as_it_was(site):
    """By the least that limited it and those above it; a client's own run is begun by nobody."""
    about = {"agent": "eng-a", "project": "web", "intent": "api", "once": True}
    site.office.begin("lead-1", agent="lead", asked={"agent": "lead", "max_usd": 0.5})
    for run, limits in (
        ("eng-1", {"max_usd": 2.0, "max_turns": 3}),
        ("eng-2", {"tools": {"bash": {"share": False}}}),
    ):
        asked = about | limits
        site.office.begin(run, parent="lead-1", root="lead-1", asked=asked)
        site.office.end(run)
    source = Source(site.memory.store, site.memory.store.root)
    task = question(source, find_run(source, "eng-1"), "Which port?")
    assert (task.max_usd, task.max_turns, task.max_tokens) == (0.5, 3, None)
    assert (task.agent, task.project, task.intent, task.once) == (*("eng-a", "web", None, False),)
    assert task.text.startswith("Which port?\n")
    assert "eng-1" in task.text
    other = question(source, find_run(source, "eng-2"), "Which port?")
    assert (other.max_usd, other.tools) == (0.5, {"bash": {"share": False}})
    site.office.begin("eng-3")
    assert question(source, find_run(source, "eng-3"), "Which port?") is None
