"""What is done now and then: building the index again, opening, noticing a dropped file, a cold
command, memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from subprocess import DEVNULL, run

import synapse
from bench import child, limits
from bench.figures import Beside, Goal, Row, Timing, once, timed
from bench.ground import Ground
from bench.workload import READER, WRITERS
from synapse.formats import codec
from synapse.store import Store

FAST = Goal("per_s", least=12_000)
LARGE = 100_000
COLD = 15
DROPS = 5
DROP = """\
---
id: {id}
from: {author}
timestamp: 2026-01-01T00:00:00Z
namespace: api/endpoints
priority: important
---

dropped by a program that knows no library
"""


def rebuild(ground: Ground) -> Iterator[Row]:
    """The index from the log, alone and with every file compared with the log; every file read and
    understood as if nothing were known of it; and what `rebuild` and `verify` take.
    """
    store, records = ground.mem.store, sum(1 for _ in ground.mem.store.log.since(0))
    beside = Beside("the log's JSON alone", records / once(lambda: _parsed(ground.root)))
    index = min(once(lambda: store.index.rebuild()) for _ in range(2))
    yield Row(
        "rebuild: index and full text", ground.size, {"per_s": records / index}, beside, (FAST,)
    )
    if ground.files:
        files, count = _validated(ground.root)
        yield Row(
            "rebuild: every file read and parsed", ground.size, {"per_s": count / files}, beside
        )
        both = min(once(_compared(store)) for _ in range(2))
        yield Row(
            "rebuild, every file validated", ground.size, {"per_s": records / both}, beside, (FAST,)
        )
        whole = once(ground.mem.rebuild)
        yield Row(
            "Memory.rebuild(), with its digest", ground.size, {"per_s": records / whole}, beside
        )
        proof = once(ground.mem.verify)
        yield Row(
            "verify: the chain and every file", ground.size, {"per_s": records / proof}, beside
        )


def _compared(store: Store) -> Callable[[], None]:
    def rebuild() -> None:
        if not store.rebuild()[1]:
            raise AssertionError("a file is not what the log says")

    return rebuild


def _parsed(root: str) -> None:
    for name in sorted(os.listdir(os.path.join(root, "journal"))):
        if name.endswith(".jsonl"):
            with open(os.path.join(root, "journal", name), "rb") as file:
                for line in file:
                    json.loads(line)


def _validated(root: str) -> tuple[float, int]:
    """Seconds to read and parse every entry file, and how many there are."""
    start, count = time.perf_counter(), 0
    for folder, _, names in os.walk(os.path.join(root, "entries")):
        place = os.path.relpath(folder, os.path.join(root, "entries"))
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                codec.parse(file.read(), path=name, namespace=place)
            count += 1
    return time.perf_counter() - start, count


def opening(ground: Ground) -> Iterator[Row]:
    """Opening a workspace in which nothing has changed, up to the first page; then noticing a
    dropped file.
    """
    ground.mem.close()
    goals = (Goal("p50", 0.1),) if ground.size == LARGE else ()
    folders = [folder for folder, _, _ in os.walk(os.path.join(ground.root, "entries"))]
    least = timed(lambda: _looked(ground.root, folders))

    def open_and_read() -> None:
        with ground.open() as mem:
            mem.as_agent(READER).read(limit=50)

    timing = timed(open_and_read, calls=30)
    del ground.mem
    beside = Beside(f"{len(folders)} stats, an SQLite opened", least.p50)
    yield Row("open an unchanged workspace", ground.size, timing.values(), beside, goals)


def _looked(root: str, folders: list[str]) -> None:
    for folder in folders:
        os.stat(folder)
    limits.index(root).close()


def noticing(ground: Ground) -> Iterator[Row]:
    """From the moment a file lies there to the page that shows it, asked every five
    milliseconds.
    """
    waits, calls = [], []
    with ground.open(frozen=False) as mem:
        agent_memory = mem.as_agent(READER)
        agent_memory.read(limit=1)
        for place in range(DROPS):
            time.sleep(0.3)
            wait, slowest = _noticed(ground.root, agent_memory, f"dropped-{ground.size}-{place}")
            waits.append(wait)
            calls.append(slowest)
    folder = os.path.join(ground.root, "entries", "api", "endpoints")
    beside = Beside("listing the folder", timed(lambda: os.listdir(folder), calls=20).p50)
    goals = (Goal("max", 0.5),) if ground.size == LARGE else ()
    yield Row("notice a dropped file", ground.size, Timing(waits).values(), beside, goals)
    yield Row("notice a dropped file: slowest read", ground.size, Timing(calls).values(), beside)


def _noticed(root: str, agent_memory: synapse.AgentMemory, name: str) -> tuple[float, float]:
    folder = os.path.join(root, "entries", "api", "endpoints")
    os.makedirs(folder, exist_ok=True)
    text = DROP.format(id=f"syn-{name}", author=WRITERS[0])
    with open(os.path.join(folder, f".{name}"), "w") as file:
        file.write(text)
    os.rename(os.path.join(folder, f".{name}"), os.path.join(folder, f"{name}.md"))
    start, slowest = time.perf_counter(), 0.0
    while time.perf_counter() - start < 10:
        begun = time.perf_counter()
        page = agent_memory.read(limit=5)
        slowest = max(slowest, time.perf_counter() - begun)
        if any(entry.id == f"syn-{name}" for entry in page):
            break
        time.sleep(0.005)
    return time.perf_counter() - start, slowest


def cold(ground: Ground) -> Iterator[Row]:
    """Whole processes, from the shell's side; a bare Python runs between each two."""
    ground.close()
    command = _command()
    cursor = str(ground.reader.read(limit=1).cursor - 200)
    ground.close()
    common = ["--root", ground.root, "--agent", READER]
    verbs = {
        "read": ["read", *common],
        "write": [
            "write",
            "--root",
            ground.root,
            "--from",
            WRITERS[0],
            "--namespace",
            "api/endpoints",
            "a note",
        ],
        "unread": ["unread", *common],
        "watch": ["watch", *common, "--since", cursor, "--count", "1"],
    }
    for verb, words in verbs.items():
        own, bare = alternating(
            lambda: ran(*command, *words),  # noqa: B023
            lambda: ran(sys.executable, "-c", "pass"),
        )
        beside = Beside("python -c pass", bare.p50)
        goals = (Goal("p50", 50e-3), Goal("ratio", 3.5))
        yield Row(f"cold synapse {verb}", ground.size, own.values(), beside, goals)


def _command() -> list[str]:
    """The console script beside this interpreter, as it is installed; else the module."""
    script = os.path.join(os.path.dirname(sys.executable), "synapse")
    return [script] if os.path.exists(script) else [sys.executable, "-m", "synapse"]


def ran(*command: str) -> None:
    """A process from its beginning to its end."""
    run(command, check=True, stdout=DEVNULL, stdin=DEVNULL, cwd=child.ROOT, env=child.environment())


def alternating(one: Callable[[], object], other: Callable[[], object]) -> tuple[Timing, Timing]:
    """Two acts by turns, so that both have the same machine."""
    one()
    pairs = [(once(one), once(other)) for _ in range(COLD)]
    return Timing(pair[0] for pair in pairs), Timing(pair[1] for pair in pairs)


def memory(ground: Ground) -> Iterator[Row]:
    """What an open workspace adds to a process, and what the process holds in all."""
    ground.close()
    held, bare = child.told("hold", ground.root, READER), child.told("bare")
    goals = (Goal("bytes", 80 << 20),) if ground.size == LARGE else ()
    beside = Beside("python, sqlite3, json", float(bare["bytes"]))
    yield Row("open handle", ground.size, {"bytes": float(held["bytes"])}, beside, goals)


def adoption(ground: Ground) -> Iterator[Row]:
    """A tree of files that other programs wrote, taken in at once: each is validated, attributed
    and synced.
    """
    count = min(ground.size, 2_000)
    root = os.path.join(os.path.dirname(ground.root), f"dropped-{ground.size}")
    shutil.copytree(os.path.join(ground.root, "agents"), os.path.join(root, "agents"))
    with synapse.init(root) as mem:
        folder = os.path.join(root, "entries", "api", "endpoints")
        os.makedirs(folder)
        for place in range(count):
            with open(os.path.join(folder, f"note-{place}.md"), "w") as file:
                file.write(DROP.format(id=f"syn-note-{place}", author=WRITERS[0]))
        time.sleep(0.5)
        taken = once(lambda: mem.as_agent(READER).read(limit=1))
        found = len(mem.as_agent(READER).read())
    if found != count:
        raise AssertionError(f"{count} files were dropped, and {found} are there")
    yield Row("adopt dropped files", count, {"per_s": count / taken})
