"""The pictures of the dashboard, made of the demo's team by a real browser: `make pictures`.

Writes docs/images/dashboard.png while the team works, and dashboard-lanes.png when it is done.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2
from playwright.sync_api import Browser, sync_playwright

from orchestrator.server.daemon_server import served
from scenarios.play.live_demo import serving, work, workspace

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
PACE = 1.0
BUSY = (38.5, 60.0)  # seconds: a picture is taken then, once three are at work
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
            served(serving(memory, root, True), root, 0, lambda text: None) as address,
            sync_playwright() as driver,
        ):
            browser = driver.chromium.launch(executable_path=program, args=FLAGS)
            team = threading.Thread(target=work, args=(memory, PACE))
            team.start()
            _await_busy(address)
            take(browser, f"{address}/", IMAGES / "dashboard.png", 900)
            team.join()
            take(browser, f"{address}/lanes", IMAGES / "dashboard-lanes.png", 620)
            browser.close()
    return 0


def _await_busy(address: str) -> None:
    """Wait until the team has written something and three of it are at work."""
    began = time.monotonic()
    while time.monotonic() < began + BUSY[1]:
        time.sleep(0.2)
        answer = httpx2.get(f"{address}/v1/runs?state=running", timeout=60)
        running = answer.json()["matched"]
        if running >= 3 and time.monotonic() > began + BUSY[0]:
            return


def take(browser: Browser, address: str, path: Path, height: int) -> None:
    """Write the picture of a page with the parts that follow it; RuntimeError where it is large."""
    page = browser.new_page(viewport={"width": 1280, "height": height})
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
