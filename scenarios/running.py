"""A command's worth of runs: played, written down as they end, looked through, and reported in a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from time import monotonic
from typing import Any, NamedTuple, TextIO

from scenarios import ledger, markdown, page, report, samples, table
from scenarios.batch import Order, played
from scenarios.course import planned
from scenarios.progress import Progress
from scenarios.reading import find, load
from scenarios.report import Report
from scenarios.samples import Sample

GOOD, MISSED, BROKEN, SKIPPED = 0, 1, 2, 77
UNFINISHED = "unfinished.jsonl.gz"


class Wanted(NamedTuple):
    """What somebody wants to have played."""

    names: Sequence[str]
    arms: Sequence[str] | None = None
    runs: int | None = None
    seed: int | None = None
    cell: Mapping[str, Any] = {}
    grid: bool = True
    full: bool = False


def play(wanted: Wanted, folder: str, jobs: int, out: TextIO) -> Report:
    """Play it, and leave a report in the folder."""
    texts = {name: find(name) for name in wanted.names}
    known = {name: load(text, wanted.cell) for name, text in texts.items()}
    orders = [
        order
        for name, text in texts.items()
        for order in planned(
            text, name, wanted.arms, wanted.runs, wanted.seed, wanted.cell, grid=wanted.grid, full=wanted.full
        )
    ]
    os.makedirs(folder, exist_ok=True)
    found, digest = _written(orders, folder, jobs, out)
    scenarios = {each.id: report.told_of(each, wanted.arms or each.arms) for each in known.values()}
    thresholds = list(chain.from_iterable(report.thresholds_of(each) for each in known.values()))
    made = report.made(found, scenarios, thresholds, digest, about())
    leave(made, folder)
    return made


def _written(orders: Sequence[Order], folder: str, jobs: int, out: TextIO) -> tuple[list[Sample], str]:
    """Play, with the ledger on the disk as it goes; it gets its name when it is whole."""
    found: list[Sample] = []
    digest, progress = sha256(), Progress(out, len(orders), monotonic)

    def lines() -> Iterator[str]:
        for order, made in zip(orders, played(orders, jobs), strict=True):
            found.extend(samples.of_lines(made))
            for line in made:
                digest.update(line.encode())
            yield from made
            progress.step(f"{order.scenario} {order.arm} {ledger.cell_name(dict(order.cell))}")

    unfinished = os.path.join(folder, UNFINISHED)
    try:
        ledger.write(unfinished, lines())
    finally:
        progress.end()
    os.replace(unfinished, os.path.join(folder, report.LEDGER))
    return found, digest.hexdigest()


def leave(made: Report, folder: str) -> None:
    """Every form of the report into its folder."""
    report.write(folder, report.REPORT, report.dump(made.table))
    report.write(folder, report.TEXT, "\n".join(markdown.lines(made)) + "\n")
    report.write(folder, report.PAGE, page.html(made))


def about() -> dict[str, Any]:
    """What does not follow from a ledger: which version of the product it was."""
    return {"level": "L0", "version": version("synapse-orchestrator"), "git": commit(os.path.dirname(__file__))}


def commit(folder: str) -> str | None:
    """The commit that is checked out there, with + behind it where files differ; None where there is none."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: str, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.strip()


def code_of(made: Mapping[str, Any]) -> int:
    """The exit code: a gate that was missed, all that were judged met, or none judged."""
    judged = [verdict["met"] for verdict in made["verdicts"] if verdict["met"] is not None]
    return MISSED if not all(judged) else GOOD if judged else SKIPPED


def shown(made: Report, folder: str) -> Iterator[str]:
    """What the terminal is told at the end."""
    yield from table.lines(made)
    yield ""
    yield f"{made.table['run']['runs']} runs, ledger {made.table['run']['ledger'][:16]}"
    yield from (f"  {os.path.join(folder, name)}" for name in sorted(os.listdir(folder)) if name in report.FILES)
