"""The pages of the documents for the tests: their blocks, and how a block is run. Holds no test."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("bash", "--noprofile", "--norc", "-euo", "pipefail", "-c")

# Python reads this as it starts, in every process that the blocks start: what reaches for the
# network fails.
WATCH = """
import os, sys
REACHING = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
LOOPBACK = os.environ.get("DOCS_MAY_USE_LOOPBACK")
def watch(event, args):
    if event in REACHING:
        places = [arg[0] if isinstance(arg, tuple) else arg for arg in args]
        if not LOOPBACK or "127.0.0.1" not in places:
            raise PermissionError(f"reaches for the network: {event}{args}")
sys.addaudithook(watch)
"""

# What differs from run to run, and what stands for it.
MASKS = (
    (r"\bsyn-\d{4}-\d\d-\d\d-", "syn-DATE-"),
    (r"\bsyn_[0-9a-f]{12}\b", "MESSAGE"),
    (r"\bthr_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "THREAD"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b\d\d:\d\dZ", "TIME"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"-[0-9a-f]{10}\b", "-RUN"),
    (r"[\d,]+ tokens, -, [\d.]+m?s", "N tokens, -, TIME"),
    (r"its own [\d,]+ tokens", "its own N tokens"),
    (r"passed in [\d.]+s", "passed in TIME"),
)


class Block(NamedTuple):
    line: int
    language: str
    title: str
    code: str
    shown: str | None = None


class Run(NamedTuple):
    block: Block
    code: int
    printed: str
    complaint: str


def read(path):
    return path.read_text(encoding="utf-8")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def fences(text):
    """Return all fenced blocks of a page."""
    return [
        Block(text.count("\n", 0, match.start()) + 1, match[1], match[2] or "", match[3])
        for match in BLOCK.finditer(text)
    ]


def blocks(text):
    """Return the blocks that are run, each with the output that the page shows behind it."""
    all_blocks = fences(text)
    following = [*all_blocks[1:], Block(0, "", "", "")]
    return [
        block._replace(shown=after.code if after.language == "text" else None)
        for block, after in zip(all_blocks, following, strict=False)
        if block.language in ("bash", "python")
    ]


def masked(text, home=""):
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return "\n".join(
        line.rstrip() for line in (text.replace(home, "DIR") if home else text).strip().split("\n")
    )


def environment(home):
    for folder in ("watch", "tmp"):
        home.joinpath(folder).mkdir()
    home.joinpath("watch/sitecustomize.py").write_text(WATCH)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SYNAPSE_", "PYTHON", "COV_"))
    }
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    places = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PYTHONPATH": str(home / "watch"),
        # which takes half a second, and which no reader has
        "PYTEST_ADDOPTS": "-p no:langsmith_plugin",
    }
    return kept | places | {"PATH": path, "LC_ALL": "C.UTF-8"}


def run(block, place, env):
    """Run a block; one that has a title is a file, and is written."""
    if block.title:
        (place / block.title).write_text(block.code)
        return Run(block, 0, "", "")
    words = {"bash": (*SHELL, block.code), "python": (sys.executable, "-c", block.code)}[
        block.language
    ]
    done = subprocess.run(
        words, cwd=place, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return Run(block, done.returncode, done.stdout, done.stderr)
