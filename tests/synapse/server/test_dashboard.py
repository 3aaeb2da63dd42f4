"""The pages in a real browser: how they lie, what they load, what a keyboard and a screen reader
can do with them, and that they are live.
"""

import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.synapse.server.team import fill

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="NOT RUN: no playwright")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="NOT RUN: the dashboard in a browser (there is no chromium on this machine)",
)
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
LOOKS = ((390, "light"), (1280, "dark"), (1280, "light"), (390, "dark"))
LAYOUT = (Path(__file__).parent / "layout.js").read_text()
PAGES = (
    "/", "/timeline", "/entries", "/entries?q=checkout", "/entries?priority=nothing", "/entries?author=nobody",
    "/review", "/threads", "/threads?status=closed", "/agents", "/agents/eng-web", "/departments", "/departments/web",
    "/nights", "/undo/last", "/as-of", "/as-of?at=2026-02-01", "/login", "/login?code=x", "/entries/none",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def team(serve):
    """A server with a team's memory, and a way to open its pages as one of them."""
    site = serve(agents=("",))
    fill(site.memory)
    return site


class Window:
    """A page of a browser that is logged in, with all that it said and asked for."""

    def __init__(self, browser, site, agent="operator", width=1280, theme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": 860}, color_scheme=theme
        )
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda said: self.said.append((said.type, said.text)))
        self.page.on("pageerror", lambda error: self.said.append(("error", str(error))))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.site = site
        code = site.app.state.serving.browsers.link(agent)
        self.page.goto(f"{site.address}/login?code={code}")
        self.page.locator("main form button").first.press("Enter")
        self.page.wait_for_url(f"{site.address}/")

    def goto(self, path):
        self.page.goto(self.site.address + path)
        for _ in range(500):  # until the parts that come later are there
            if not self.page.locator("text=Looking…").count():
                break
            self.page.wait_for_timeout(20)
        return self.page

    def errors(self):
        """Return what the console said that is wrong; a page that says 4xx is one."""
        return [
            text
            for kind, text in self.said
            if kind in ("error", "warning") and "Failed to load resource" not in text
        ]

    def strangers(self):
        hosts = {urlsplit(url).netloc for url in self.asked if "data:" not in url[:5]}
        return hosts - {urlsplit(self.site.address).netloc}


def every_page(site):
    """Return all pages, with those of single entries and threads."""
    reader = site.memory.as_agent("operator")
    from synapse.mail.mailbox import Mail

    hostile = [entry.id for entry in reader.read(namespace="web/hostile")]
    told = [entry.id for entry in reader.read(namespace="blockers/*")]
    waits = [entry.id for entry in reader.staged()][:1]
    threads = [thread.id for thread in Mail(reader).threads()]
    night = max(record.at for record in site.memory.audit() if record.kind == "night")
    return (
        *PAGES,
        *(f"/entries/{id}" for id in (*hostile, *told, *waits)),
        *(f"/threads/{id}" for id in threads),
        f"/nights/{night}",
    )


def check(site, browser, pages, width, theme):
    """Look at these pages: how they lie, what axe says of them, what they load and complain of."""
    from axe_playwright_python.sync_playwright import Axe

    axe, wrong = Axe(), {}
    window = Window(browser, site, width=width, theme=theme)
    for path in pages:
        page = window.goto(path)
        found = page.evaluate(LAYOUT)
        results = axe.run(page, options={"resultTypes": ["violations"]}).response
        found += [
            f"{each['id']}: {each['nodes'][0]['html'][:160]}"
            for each in results["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        if found:
            wrong[path] = found
    assert not wrong, wrong
    assert not window.errors()
    assert not window.strangers()
    window.context.close()


def test_every_page_lies_well_and_loads_nothing_of_others(team, browser):
    """Each page once, at the widths and in the themes by turns; all of them in the soak."""
    pages = every_page(team)
    for turn, (width, theme) in enumerate(LOOKS):
        check(team, browser, pages[turn :: len(LOOKS)], width, theme)


@pytest.mark.soak
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_lies_well_at_each_width_in_each_theme(team, browser, width, theme):
    check(team, browser, every_page(team), width, theme)


def test_the_checks_find_what_is_wrong(team, browser):
    window = Window(browser, team)
    page = window.goto("/")
    assert page.evaluate(LAYOUT) == []
    page.evaluate(
        """() => {
        const put = (html) => document.querySelector("main").insertAdjacentHTML("beforeend", html);
        put('<p id="wide">wide</p><p id="cut">This text is cut off in the middle of it all</p>');
        put('<button id="one">one</button><button id="two">two</button>');
        document.getElementById("wide").style.width = "3000px";
        Object.assign(document.getElementById("cut").style, {width: "40px", height: "20px", overflow: "hidden"});
        document.getElementById("two").style.marginLeft = "-30px";
        }"""
    )
    found = page.evaluate(LAYOUT)
    assert any("px wide in" in text for text in found), found
    assert any(text.startswith("cut off: p#cut") for text in found), found
    assert any("lies over" in text for text in found), found
    page.evaluate("fetch('https://example.invalid/').catch(() => 0)")
    page.wait_for_timeout(300)
    assert window.errors()  # the policy of the page refuses it, and says so
    window.context.close()


def test_nothing_in_an_entry_runs(team, browser):
    window = Window(browser, team)
    for entry in team.memory.as_agent("operator").read(namespace="web/hostile"):
        page = window.goto(f"/entries/{entry.id}")
        assert page.locator("main h1").count() == 1
        assert page.locator("main script, main img, main style").count() == 0
        assert "\u202e" not in page.content()
        assert "\x1b" not in page.content()
    assert not window.errors()
    window.context.close()


def test_what_is_critical_appears_on_an_open_page(team, browser):
    window = Window(browser, team)
    page = window.goto("/timeline")
    page.wait_for_selector("#dot.on")
    began = time.monotonic()
    team.memory.as_agent("eng-web").append("The shop is down.", "web/shop", priority="critical")
    page.wait_for_selector("#toast .critical", timeout=15_000)
    page.wait_for_selector("#live >> text=The shop is down.", timeout=15_000)
    print(f"a critical entry was seen after {time.monotonic() - began:.2f} s")
    assert page.locator("#live >> text=The shop is down.").count() == 1
    window.context.close()


def tab_to(page, label):
    """Press Tab until what has this label is focused."""
    for _ in range(150):
        page.keyboard.press("Tab")
        now = page.evaluate(
            "() => { const e = document.activeElement; return e.getAttribute('aria-label')"
            " || e.placeholder || e.textContent.trim() }"
        )
        if now == label:
            return
    raise AssertionError(f"Tab never comes to {label!r}")


def test_review_answer_and_undo_by_keyboard_alone(team, browser):
    window = Window(browser, team, "lead")
    page = window.page
    page.keyboard.press("g")
    page.keyboard.press("v")
    page.wait_for_url("**/review")
    one, two, three = [entry.id for entry in team.memory.as_agent("lead").staged()]
    tab_to(page, f"Approve {one}")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note >> text=Approved")
    tab_to(page, f"Why {two} is rejected")
    page.keyboard.type("not now")
    tab_to(page, f"Reject {two}")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note >> text=Rejected")
    lead = team.memory.as_agent("lead")
    assert not lead.get(one).staged
    assert len(lead.staged()) == 1
    assert lead.fate(two).reason == "rejected"
    assert not window.errors()
    window.context.close()

    window = Window(browser, team)
    page = window.goto("/review")
    tab_to(page, f"Approve {three}")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note >> text=Approved")
    assert not lead.get(three).staged
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url(team.address + "/")
    asked = team.memory.questions()[0]
    tab_to(page, f"Your answer to {asked.author}")
    page.keyboard.type("Yes, on Sunday at six.")
    tab_to(page, "Answer")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note >> text=answer was sent")
    assert asked.id not in [each.id for each in team.memory.questions()]

    filed = team.memory.as_agent("eng-web").append("Old news.", "web/news")
    team.memory.as_agent("eng-web").archive([filed.id])
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/timeline")
    act = team.memory.audit(entry=filed.id)[0].seq
    tab_to(page, f"Undo act {act}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/undo/{act}")
    page.wait_for_selector("text=Comes back from the archive")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note >> text=Taken back")
    assert not team.memory.as_agent("operator").get(filed.id).archived
    assert not window.errors()
    window.context.close()


def test_keys_search_help_and_the_theme(team, browser):
    window = Window(browser, team)
    page = window.page
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("sandbox")
    page.keyboard.press("Enter")
    page.wait_for_url("**/entries?q=sandbox")
    page.locator("body").click(position={"x": 5, "y": 850})
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/entries/syn-*")
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert not window.errors()
    window.context.close()
