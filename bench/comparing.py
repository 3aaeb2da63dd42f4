"""The page and the append of what people have instead, beside ours. Each peer is optional."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from subprocess import DEVNULL, run

from bench import child, peers
from bench.figures import Beside, Row, timed
from bench.ground import Ground
from bench.reading import forget
from bench.workload import DAY
from bench.writing import writer
from synapse.model.clock import seconds


def naive(ground: Ground) -> Iterator[Row]:
    """One file per entry, scanned with python-frontmatter: our own tree, as any other program would
    read it.
    """
    if not ground.files or importlib.util.find_spec("frontmatter") is None:
        return
    since = seconds(ground.now - 7 * DAY)
    found = timed(lambda: peers.scanned(ground.root, since), least=1, calls=5, budget=3.0)
    yield Row(
        "page, files scanned with python-frontmatter", ground.size, found.values(), _page(ground)
    )


def langgraph(ground: Ground, python: str | None) -> Iterator[Row]:
    """LangGraph's SqliteStore, in the interpreter that has it."""
    interpreter = python or sys.executable
    if ground.size > 100_000 or not installed(interpreter):
        yield Row(
            "LangGraph SqliteStore",
            ground.size,
            {},
            note="not installed" if ground.files else "not run",
        )
        return
    directory = os.path.join(os.path.dirname(ground.root), f"langgraph-{ground.size}")
    os.makedirs(directory)
    role = ("langgraph", str(ground.size), directory, str(ground.now))
    found = child.told(*role, python=interpreter, module="bench.peers")
    yield Row("page, LangGraph SqliteStore", ground.size, found["page"], _page(ground))
    with ground.open(frozen=False) as mem:
        own = timed(writer(mem), calls=200)
    yield Row(
        "append, LangGraph SqliteStore", ground.size, found["append"], Beside("ours", own.p50)
    )


def installed(python: str) -> bool:
    done = run([python, "-c", "import langgraph.store.sqlite"], stdout=DEVNULL, stderr=DEVNULL)
    return done.returncode == 0


def _page(ground: Ground) -> Beside:
    agent_memory = ground.reader
    asked = timed(
        lambda: agent_memory.read(limit=50, since="7d", priority=("critical", "important")),
        before=lambda: forget(agent_memory),
    )
    return Beside("ours", asked.p50)
