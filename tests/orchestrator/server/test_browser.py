"""The pages of runs in a real browser: how they lie, what a keyboard can do, that they stop a run."""

import pytest

from tests.synapse.server import test_dashboard as dashboard

pytestmark = dashboard.pytestmark
browser = dashboard.browser
PAGES = (
    "/",
    "/runs",
    "/runs?state=failed",
    "/runs?department=backend",
    "/runs/lead-1",
    "/runs/eng-1",
    "/runs/eng-2",
    "/runs/none",
    "/lanes",
    "/lanes?run=eng-1",
    "/costs",
    "/costs?by=model",
    "/unread-results",
    "/wakes",
)


def check(worked, browser, looks):
    """Look at the pages of each width and theme: how they lie, and what axe says of them."""
    from axe_playwright_python.sync_playwright import Axe

    long = "an-agent-with-a-name-that-is-long-" * 3
    worked.office.begin("long-" + "x" * 60, task=long * 4, project=long)
    asks = worked.memory.as_agent("eng-a")
    asks.append(f"May we {long}? " * 3, "status/web", to="agent:operator")
    asks.append("Which port do the pages of users have?", "status/web", to="agent:operator")
    axe, options = Axe(), {"resultTypes": ["violations"]}
    for (width, theme), pages in looks.items():
        wrong, window = {}, dashboard.Window(browser, worked, width=width, theme=theme)
        for path in pages:
            page = window.goto(path)
            found = page.evaluate(dashboard.LAYOUT)
            found += [
                f"{one['id']}: {one['nodes'][0]['html'][:160]}"
                for one in axe.run(page, options=options).response["violations"]
            ]
            if found:
                wrong[path] = found
        assert wrong == {}
        assert window.errors() == []
        assert window.strangers() == set()
        window.context.close()


def test_every_page_of_runs_lies_well(worked, browser):
    """Each page once, at the widths and in the themes by turns; all of them in the soak."""
    looks = dashboard.LOOKS
    check(worked, browser, {look: PAGES[n::4] for n, look in enumerate(looks)})


@pytest.mark.soak
@pytest.mark.parametrize("look", dashboard.LOOKS, ids=str)
def test_every_page_of_runs_lies_well_at_each_width_in_each_theme(worked, browser, look):
    check(worked, browser, {look: PAGES})


@pytest.mark.parametrize("path", ["/runs", "/costs", "/agents", "/runs?state=done"])
def test_on_a_phone_all_of_a_row_is_on_the_screen(worked, browser, path):
    """Also what it cost and what it came to, without scrolling sideways."""
    window = dashboard.Window(browser, worked, width=390)
    page = window.goto(path)
    cells = [cell for cell in page.locator("tbody td").all() if cell.is_visible()]
    assert len(cells) > 4
    for cell in cells:
        box = cell.bounding_box()
        assert box["x"] >= 0, cell.inner_text()
        assert box["x"] + box["width"] <= 390, cell.inner_text()
    if path == "/runs":
        row = page.locator('tr[data-run="lead-1"]')
        assert "$0.0300" in row.inner_text()
        cost = row.locator('td[data-label="Cost"]')
        shown = cost.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert "Cost" in shown
    window.context.close()


def test_trees_fold_by_the_keyboard(worked, browser):
    page = dashboard.Window(browser, worked).goto("/runs")
    shown = page.locator("tr[data-run]:visible")
    assert shown.count() == 3
    page.locator('tr[data-run="eng-1"] a.title').focus()
    page.keyboard.press("ArrowLeft")  # to its parent
    page.keyboard.press("ArrowLeft")  # which folds
    assert shown.count() == 1
    top = page.locator('tr[data-run="lead-1"]')
    assert top.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    assert shown.count() == 3
    page.locator(".fold-run").focus()
    page.keyboard.press("Enter")
    assert shown.count() == 1


def test_a_person_is_asked_before_a_run_is_stopped(worked, browser):
    window = dashboard.Window(browser, worked)
    page, asked = window.goto("/runs/eng-2"), []

    def answer(yes):
        def handle(dialog):
            asked.append(dialog.message)
            if yes:
                dialog.accept()
            else:
                dialog.dismiss()

        return handle

    dashboard.tab_to(page, "Stop it and all below it")
    page.once("dialog", answer(False))
    page.keyboard.press("Enter")
    assert not stops(worked)
    page.once("dialog", answer(True))
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Asked to stop")
    assert stops(worked) == ["eng-2"]
    assert asked == ["Stop eng-2 and all that it spawned?"] * 2
    assert window.errors() == []


def stops(site):
    acts = site.memory.store.acts(None, None, 0, None)
    return [record.fields["run"] for record in acts if record.kind == "stop"]
