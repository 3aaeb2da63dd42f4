"""`python -m bench`: every operation at every size, beside what the machine can do at best. Prints
the table. `python -m bench trace` counts functions, `python -m bench size` measures workspaces that
are many times as large, `python -m bench stream` measures the live events of a server, `python -m
bench plain FILE` compares the search by words with a plain FTS5 table, `python -m bench replay
FOLDER` gives recorded sessions to the hooks of coding clients, `python -m bench audit` sums up a
gigabyte of them, `python -m bench postgres ADDRESS` measures a log in a database.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from bench import (
    acting,
    auditing,
    comparing,
    containing,
    dashboard,
    databases,
    hooks,
    large,
    mailing,
    nights,
    plain,
    prompting,
    questions,
    reading,
    replaying,
    sealing,
    serving,
    spawning,
    streams,
    trace,
    upkeep,
    writing,
)
from bench.figures import COLUMNS, Row, as_json, cells, duration, line
from bench.ground import Ground
from synapse.model import clock

Operation = Callable[[Ground], Iterator[Row]]

# In this order: what only reads comes before what writes.
OPERATIONS: dict[str, Operation] = {
    "page": reading.pages,
    "search": reading.search,
    "question": questions.asking,
    "view": reading.view,
    "open": upkeep.opening,
    "rss": upkeep.memory,
    "naive": comparing.naive,
    "unread": reading.unread,
    "mail": mailing.mailing,
    "prompt": prompting.prompting,
    "change": reading.after_a_write,
    "append": writing.append,
    "writers": writing.crew,
    "bell": writing.pipe,
    "spawn": spawning.spawning,
    "act": acting.acting,
    "hook": hooks.hooks,
    "wake": spawning.waking,
    "start": spawning.starting,
    "cold": upkeep.cold,
    "notice": upkeep.noticing,
    "adopt": upkeep.adoption,
    "rebuild": upkeep.rebuild,
    "night": nights.nights,
    "seal": sealing.sealing,
    "serve": serving.serving,
    "dashboard": dashboard.pages,
    "taint": containing.containing,
}
LANGGRAPH = "langgraph"
MILLION = 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["trace"]:
        return trace.main(words[1:])
    if words[:1] == ["size"]:
        return large.main(words[1:])
    if words[:1] == ["stream"]:
        return streams.main(words[1:])
    if words[:1] == ["plain"]:
        return plain.main(words[1:])
    if words[:1] == ["replay"]:
        return replaying.main(words[1:])
    if words[:1] == ["postgres"]:
        return databases.main(words[1:])
    if words[:1] == ["audit"]:
        return auditing.main(words[1:])
    args = _arguments(words)
    parent = tempfile.mkdtemp(prefix="synapse-bench-", dir=args.dir)
    rows: list[Row] = []
    try:
        _heading(parent)
        for row in _measured(parent, args, rows):
            rows.append(row)
            print(line(cells(row)), flush=True)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump([as_json(row) for row in rows], file, indent=1, ensure_ascii=False)
    missed = [row for row in rows if row.missed]
    print(
        f"\n{len(rows)} rows, {sum(bool(row.goals) for row in rows)} with a target,"
        f" {len(missed)} missed"
    )
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--sizes", default="1000,10000,100000", help="numbers of entries, with commas")
    add("--million", action="store_true", help="and once a million entries, without their files")
    add(
        "--only",
        action="append",
        metavar="NAME",
        choices=[*OPERATIONS, LANGGRAPH],
        help="one operation",
    )
    add("--json", metavar="FILE", help="write the rows there too")
    add(
        "--dir",
        default=_disk(),
        help="where the workspaces are made; a real disk, or the syncs are free",
    )
    add("--langgraph", metavar="PYTHON", help="an interpreter that has langgraph-checkpoint-sqlite")
    args = parser.parse_args(argv)
    args.counts = [int(size) for size in args.sizes.split(",")] + [MILLION] * args.million
    return args


def _measured(parent: str, args: argparse.Namespace, rows: list[Row]) -> Iterator[Row]:
    """Row after row. What was made stays until the end: a file system that has just lost a hundred
    thousand files makes new ones many times slower, and would be what is measured next.
    """
    wanted = args.only or [*OPERATIONS, LANGGRAPH]
    for size in args.counts:
        ground = Ground(os.path.join(parent, f"workspace-{size}"), size, clock.now())
        print(f"\n{size:,} entries, loaded in {duration(ground.loaded)}\n{_header()}", flush=True)
        for name, operation in OPERATIONS.items():
            if name in wanted:
                # what was made before is not on its way to the disk beside what is measured
                os.sync()
                yield from operation(ground)
        if LANGGRAPH in wanted:
            yield from comparing.langgraph(ground, args.langgraph)
        ground.close()
    yield from reading.flatness(rows)


def _header() -> str:
    return f"{line(COLUMNS)}\n{'|---' * len(COLUMNS)}|"


def _heading(parent: str) -> None:
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"
        f" {platform.machine()}, {os.cpu_count()} processors, load"
        f" {os.getloadavg()[0]:.1f}, in {parent}"
    )


def _disk() -> str:
    """A directory that is not kept in memory, where the system has one."""
    return "/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()


if __name__ == "__main__":
    sys.exit(main())
