"""`brain-suite clients`: plays real clients with the plugin and without, keeps the records, prints
the table.

Called by the shell of the suite. `--again DIR` plays nothing: it makes every figure again from the
records.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any

from scenarios.clients import figures, session
from scenarios.clients.agents import Chances
from scenarios.clients.places import Broken
from scenarios.clients.repository import CELLS
from scenarios.clients.session import ARMS, Wanted
from scenarios.progress import Progress

PROGRAMS = {"claude-code": ("claude", "npm install -g @anthropic-ai/claude-code")}
RECORDS, FIGURES = "clients.jsonl", "clients.json"
RUNS = 5
GOOD, MISSED, SKIPPED = 0, 1, 77
VERSION_WITHIN = 60


def options(verb: argparse.ArgumentParser) -> None:
    """Add what `brain-suite clients` takes."""
    add = verb.add_argument
    add(
        "--client",
        choices=tuple(PROGRAMS),
        default="claude-code",
        help="which client; default: %(default)s",
    )
    add("--command", metavar="PATH", help="its program; else the one on the PATH")
    add("--cells", metavar="A,B", help=f"these kinds of sessions; else all: {', '.join(CELLS)}")
    add("--runs", type=int, default=RUNS, metavar="N", help="so many seeds; default: %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="the first seed; default: %(default)s")
    add(
        "--p-read",
        type=float,
        default=Chances().p_read,
        metavar="X",
        help="chance that agents take in what they are given; default: %(default)s",
    )
    add(
        "--wrong-notes",
        type=float,
        default=Chances().wrong_notes,
        metavar="X",
        help="chance that a finding is said with a wrong value; default: %(default)s",
    )
    add("--out", default="brain-suite", metavar="DIR", help="where to; default: %(default)s")
    add(
        "--again",
        metavar="DIR",
        help="play nothing: make the figures again from the records there, and compare",
    )
    add("--quiet", action="store_true", help="do not tell how far it has got")


def run(args: argparse.Namespace, count: Callable[[str], int]) -> int:
    """Do what the options say; the exit code."""
    if args.again:
        return _again(args.again)
    program = shutil.which(args.command or PROGRAMS[args.client][0])
    if why := _missing(args.client, program):
        print(f"brain-suite: skipped: {why}", file=sys.stderr)
        return SKIPPED
    assert program is not None
    planned = list(_wanted(args, os.path.realpath(program)))
    os.makedirs(args.out, exist_ok=True)
    records: list[session.Record] = []
    with (
        open(os.devnull, "w") as nowhere,
        open(os.path.join(args.out, RECORDS), "w", encoding="utf-8") as file,
    ):
        progress = Progress(nowhere if args.quiet else sys.stderr, len(planned), time.monotonic)
        for session_plan in planned:
            records_of = session.play(session_plan, count)
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records_of)
            file.flush()
            records += records_of
            progress.step(f"{session_plan.cell.name} {session_plan.arm} {session_plan.seed}")
        progress.end()
    with open(os.path.join(args.out, FIGURES), "w", encoding="utf-8") as file:
        file.write(_text(records))
    return _show(records)


def _wanted(args: argparse.Namespace, program: str) -> Iterator[Wanted]:
    """Yield the sessions: the arms of a seed one after the other, which begins changing with the
    seed.
    """
    names = args.cells.split(",") if args.cells else list(CELLS)
    if unknown := [name for name in names if name not in CELLS]:
        raise Broken(f"there is no cell {unknown[0]}; there are {', '.join(CELLS)}")
    version, chances = _version(program), Chances(args.p_read, args.wrong_notes)
    for seed, name in product(range(args.seed, args.seed + args.runs), names):
        for arm in ARMS if seed % 2 else ARMS[::-1]:
            yield Wanted(args.client, program, version, CELLS[name], arm, seed, chances)


def _missing(client: str, program: str | None) -> str | None:
    """Return why nothing can be played here; None where it can."""
    name, how = PROGRAMS[client]
    if program is None:
        return f"{name} is not there to be run; {how}, or say where it is with --command PATH"
    if shutil.which("git") is None:
        return "git is not there to be run, and the sessions work on a repository"
    if find_spec("cryptography") is None:
        return "there is no certificate for the pages: in the clone, pip install '.[crypto]'"
    return None


def _version(program: str) -> str:
    """Return the number that the client says it is."""
    done = subprocess.run(
        [program, "--version"],
        capture_output=True,
        text=True,
        timeout=VERSION_WITHIN,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return (done.stdout.split() or ["unknown"])[0]


def _show(records: Sequence[session.Record]) -> int:
    """Print the table; the exit code says whether the witnesses agree."""
    for line in figures.lines(records, {cell.name: cell.about for cell in CELLS.values()}):
        print(line)
    sessions = figures.sessions(records).values()
    return MISSED if any(True for each in sessions for _ in figures.wrong(each)) else GOOD


def _again(folder: str) -> int:
    """Make the figures again from the records of a folder, and compare them with those beside."""
    with open(os.path.join(folder, RECORDS), encoding="utf-8") as file:
        records: list[dict[str, Any]] = [json.loads(line) for line in file]
    with open(os.path.join(folder, FIGURES), encoding="utf-8") as file:
        same = file.read() == _text(records)
    code = _show(records)
    if not same:
        print(f"brain-suite: {FIGURES} is not what the records say", file=sys.stderr)
        return MISSED
    return code


def _text(records: Sequence[session.Record]) -> str:
    return json.dumps(figures.values(records), indent=1) + "\n"
