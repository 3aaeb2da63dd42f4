"""The picture of the dashboard, made of the demo's team by a real browser: `make pictures`.

Writes docs/images/dashboard.png, while the team waits for an answer.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from orchestrator.cli.work.demo import ANSWER, Paper, perform
from orchestrator.demo import workspace
from orchestrator.server.daemon_server import served
from synapse.server.application import Serving
from synapse.trust.bearer import TokenFile, place

IMAGES = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SETTLE = 1_000  # milliseconds until charts are drawn
LARGEST = 200_000  # bytes


def main() -> int:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"pictures: none of {', '.join(BROWSERS)} is here", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="synapse-pictures-") as home:
        root = os.path.join(home, "webshop")
        with (
            workspace(root) as memory,
            served(
                Serving(memory, TokenFile(place(root)), True), root, 0, lambda text: None
            ) as address,
            sync_playwright() as driver,
        ):
            browser = driver.chromium.launch(executable_path=program, args=FLAGS)

            def ask() -> str:
                """Take the picture of the team at work, while it waits for a person."""
                take(browser, f"{address}/", IMAGES / "dashboard.png", 900)
                return ANSWER

            perform(memory, root, Paper(colour=False), ask)
            browser.close()
    return 0


def take(browser: Browser, address: str, path: Path, height: int) -> None:
    """Write the picture of a page with the parts that follow it; RuntimeError where it is large."""
    page = browser.new_page(viewport={"width": 1280, "height": height}, bypass_csp=True)
    page.goto(address)
    page.wait_for_function("!document.body.innerText.includes('Looking…')")
    page.wait_for_timeout(SETTLE)
    page.screenshot(path=path)
    page.close()
    if path.stat().st_size > LARGEST:
        raise RuntimeError(f"{path.name} is too large")
    print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main())
