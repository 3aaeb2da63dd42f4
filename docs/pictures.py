"""The pictures of the dashboard, made of the demo's team by a real browser: `make pictures`.

Writes docs/images/dashboard.png while the team works, and dashboard-lanes.png when it is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2

from orchestrator.server.daemon_server import served
from scenarios.play.live_demo import serving, work, workspace

IMAGES = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--virtual-time-budget=3000",
)
PACE = 1.0
BUSY = (34.0, 60.0)  # seconds: a picture is taken then, once three are at work
LARGEST = 200_000  # bytes


def main() -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"pictures: none of {', '.join(BROWSERS)} is here", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="synapse-pictures-") as home:
        root = os.path.join(home, "webshop")
        with (
            workspace(root) as memory,
            served(serving(memory, root, True), root, 0, lambda text: None) as address,
        ):
            team = threading.Thread(target=work, args=(memory, PACE))
            team.start()
            _await_busy(address)
            take(browser, f"{address}/", IMAGES / "dashboard.png", 900)
            team.join()
            take(browser, f"{address}/lanes", IMAGES / "dashboard-lanes.png", 620)
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


def take(browser: str, address: str, path: Path, height: int) -> None:
    """Write the picture of a page; RuntimeError where the browser made none, or a large one."""
    with tempfile.TemporaryDirectory(prefix="synapse-browser-") as profile:
        words = [*FLAGS, f"--user-data-dir={profile}", f"--window-size=1280,{height}"]
        line = [browser, *words, f"--screenshot={path}", address]
        done = subprocess.run(line, capture_output=True, timeout=120, check=False)
    if done.returncode or not path.is_file() or path.stat().st_size > LARGEST:
        raise RuntimeError(f"{path.name} was not made, or is too large")
    print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main())
