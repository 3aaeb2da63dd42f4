"""`python -m bench size`: what large workspaces cost a command, in time and memory.

Run by hand, for it takes many minutes: half a million entries with their files for `verify`,
`doctor`, `stats` and a read; a hundred thousand namespaces for a read; ten thousand files of agents
and thousands of dropped files for the first reader. Each command is a process of its own. Its
memory is the most that it had resident, as the kernel says when it ends. Commands are run twice:
the first one of a workspace builds the index, which is a figure of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import synapse
from bench.child import environment
from bench.figures import duration, line
from bench.ground import load, team
from bench.workload import DAY, DAYS, READER, WRITERS, Item, items
from synapse.formats import declared
from synapse.model import clock
from synapse.model.agents import Agent, settled

DROP = """\
---
from: {author}
timestamp: {at}
namespace: api/endpoints
priority: info
ttl: 7d
---

dropped by a program that knows no library, as number {place}
"""
SETTLED = 2.5  # seconds until a file counts as finished, and a bit
COLUMNS = ("what", "command", "took", "per second", "processor", "resident")


class Cost(NamedTuple):
    """What a command took, how much of that a processor was at it, and the most that it had
    resident.
    """

    seconds: float
    worked: float
    bytes: int


def cost(root: str, *words: str) -> Cost:
    """Run a command on the workspace and return its cost; one that fails is an error."""
    command = [sys.executable, "-m", "synapse", *words]
    env = environment() | {"SYNAPSE_ROOT": root}
    sink = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    pid = os.posix_spawn(sys.executable, command, env, file_actions=sink)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise RuntimeError(f"`synapse {' '.join(words)}` failed")
    resident = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, resident)


def entries(root: str, count: int) -> Iterator[tuple[str, ...]]:
    """Measure the commands that go through everything, where there are many entries."""
    if not os.path.isdir(root):
        now = clock.now()
        synapse.init(root).close()
        load(root, team(), items(count, now), now - DAYS * DAY, files=True)
    what = f"{count:,} entries"
    read = ("read", "--agent", READER, "--limit", "1")
    yield row(what, "read, the first: builds the index", cost(root, *read), count)
    yield row(what, "read", cost(root, *read))
    for verb in ("verify", "doctor", "stats"):
        for _ in range(2):
            yield row(what, verb, cost(root, verb), count)


def namespaces(root: str, count: int) -> Iterator[tuple[str, ...]]:
    """Measure reads where every entry stands in a namespace of its own."""
    if not os.path.isdir(root):
        now = clock.now()
        synapse.init(root).close()
        entries = (_spread(item, n) for n, item in enumerate(items(count, now)))
        load(root, team(), entries, now - DAYS * DAY, files=True)
    what = f"{count:,} namespaces"
    cost(root, "read", "--agent", READER, "--limit", "1")
    for agent in (READER, "cto"):
        for words in (("read", "--limit", "1"), ("view",), ("search", "zephyrine")):
            took = cost(root, words[0], "--agent", agent, *words[1:])
            yield row(what, f"{words[0]} as {agent}", took)


def _spread(item: Item, place: int) -> Item:
    return item._replace(namespace=f"{item.namespace}/area-{place}", replaces=None)


def agents(root: str, count: int) -> Iterator[tuple[str, ...]]:
    """Measure the first command after somebody put the files of many agents there."""
    synapse.init(root).close()
    for place in range(count):
        agent = settled(Agent(f"agent-{place}", role="engineer", write=("*",)))
        with open(os.path.join(root, "agents", f"{agent.id}.yaml"), "w") as file:
            file.write(declared.render_agent(agent))
    what, words = f"{count:,} files of agents", ("read", "--agent", "agent-0")
    yield row(what, "read, the first", cost(root, *words), count)
    yield row(what, "read", cost(root, *words))


def drops(root: str, count: int) -> Iterator[tuple[str, ...]]:
    """Measure the first command after somebody dropped many files into one folder."""
    with synapse.init(root) as mem:
        for agent in team():
            mem.register(agent)
    folder = os.path.join(root, "entries", "api", "endpoints")
    os.makedirs(folder)
    for place in range(count):
        text = DROP.format(author=WRITERS[0], at=clock.iso(clock.now()), place=place)
        with open(os.path.join(folder, f"note-{place}.md"), "w") as file:
            file.write(text)
    time.sleep(SETTLED)
    what = f"{count:,} dropped files"
    words = ("read", "--agent", READER, "--limit", "1")
    yield row(what, "read, the first", cost(root, *words), count)
    with synapse.open(root) as mem:
        found = len(mem.as_agent(READER).read(namespace="api/endpoints"))
    if found != count:
        raise AssertionError(f"{count} files were dropped, and {found} are there")


def row(what: str, name: str, cost: Cost, records: int = 0) -> tuple[str, ...]:
    rate = f"{records / cost.seconds:,.0f}" if records else ""
    worked, resident = duration(cost.worked), f"{cost.bytes / 1e6:.0f} MB"
    return what, name, duration(cost.seconds), rate, worked, resident


PARTS: dict[str, tuple[Callable[[str, int], Iterator[tuple[str, ...]]], str]] = {
    "drops": (drops, "1000,10000"),
    "agents": (agents, "10000"),
    "namespaces": (namespaces, "100000"),
    "entries": (entries, "500000"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench size", description=__doc__)
    add = parser.add_argument
    for part, (_, counts) in PARTS.items():
        add(f"--{part}", default=counts, help=f"how many, with commas; default {counts}")
    add("--only", action="append", choices=[*PARTS], help="one part")
    add("--dir", help="where the workspaces are made; those that are there are used again")
    args = parser.parse_args(argv)
    parent = args.dir or tempfile.mkdtemp(prefix="synapse-size-", dir="/var/tmp")
    try:
        print(f"{line(COLUMNS)}\n{'|---' * len(COLUMNS)}|", flush=True)
        for part in args.only or PARTS:
            for count in map(int, getattr(args, part).split(",")):
                root = os.path.join(parent, f"{part}-{count}")
                for cells in PARTS[part][0](root, count):
                    print(line(cells), flush=True)
    finally:
        if not args.dir:
            shutil.rmtree(parent, ignore_errors=True)
    return 0
