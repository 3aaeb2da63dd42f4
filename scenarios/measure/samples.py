"""What one run comes to: its figures and the few series that curves are drawn from. Made of the
run's lines alone, so that a ledger of any size is read run after run, in several processes. It
compares nothing and judges nothing.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from scenarios.data import ledger
from scenarios.data.ledger import Run
from scenarios.measure import metrics
from scenarios.measure.figures import Figures
from scenarios.measure.wakes import wakes

FEW = 24  # runs that are looked through faster than processes are started


class Sample(NamedTuple):
    """A run in figures. `team` is how many agents it has, `done` how many tasks were done right,
    `waits` the seconds until each of those woken had read the news, `days` the tokens of all live
    entries after each day, `engine` the real model that played, if one did.
    """

    scenario: str
    digest: str
    arm: str
    cell: tuple[tuple[str, object], ...]
    seed: int
    gated: bool
    encoding: str
    counting: str
    team: int
    done: int
    figures: Figures
    tally: Figures
    waits: tuple[float, ...] = ()
    days: tuple[tuple[float, float], ...] = ()
    engine: str = ""

    @property
    def name(self) -> str:
        """Return the cell in one word; empty for the scenario's own parameters."""
        return ledger.cell_name(dict(self.cell))


def sample(run: Run) -> Sample:
    begin, end, own = run.begin, run.events[-1], metrics.tally(run)
    waits = tuple(sorted(wake.seconds for wake in wakes(run) if wake.seconds is not None))
    days = [event["value"] for event in run.of("probe") if event["name"] == "day"]
    return Sample(
        begin["scenario"],
        begin["digest"],
        begin["arm"],
        tuple(sorted(begin["cell"].items())),
        begin["seed"],
        begin["gated"],
        begin["encoding"],
        begin["counting"],
        len(begin["roster"]),
        end["ok"],
        metrics.measured(run, own),
        own,
        waits,
        tuple((day["day"], day["tokens"]) for day in days),
        begin.get("engine", ""),
    )


def of_lines(lines: Iterable[str]) -> list[Sample]:
    return [sample(run) for run in ledger.runs(lines)]


def of_file(path: str, jobs: int = 1) -> Iterator[Sample]:
    """Yield the runs of a ledger's file, in their order."""
    chunks = _parts(ledger.lines(path))
    first = list(islice(chunks, FEW))
    if jobs <= 1 or len(first) < FEW:
        for chunk in chain(first, chunks):
            yield from of_lines(chunk)
        return
    with mp.get_context("spawn").Pool(jobs) as pool:
        for batch in pool.imap(of_lines, chain(first, chunks), chunksize=4):
            yield from batch


def _parts(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines, a run at a time; where they are no runs, reading them says so."""
    chunk: list[str] = []
    for line in lines:
        if line.startswith('{"kind":"begin"') and chunk:
            yield chunk
            chunk = []
        chunk.append(line)
    if chunk:
        yield chunk
