"""Many runs, side by side in processes of their own. What comes back is in the order that was asked
for.
"""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from scenarios.data.files import find, load
from scenarios.data.ledger import Run, checked, lines_of
from scenarios.data.schema import Scenario
from scenarios.data.texts import Texts
from scenarios.measure.samples import Sample, sample
from scenarios.play import crashes, nightly_runs
from scenarios.play.harness import Counts, Play

COLLECTED = 8  # runs, after which rubbish is collected
_ENDED = count()
SHARED = "/dev/shm"  # where there is one, its files never reach a disk


class Order(NamedTuple):
    """One run that is asked for: a scenario by its name or file, an arm, a seed, and the parameters
    that are set.
    """

    scenario: str
    arm: str
    seed: int
    cell: tuple[tuple[str, Any], ...] = ()
    prompts: bool = False  # whether the texts of its prompts are kept


class Played(NamedTuple):
    """A run that was played: its figures, its lines in one text, and what was kept of its
    prompts.
    """

    sample: Sample
    text: str
    texts: Mapping[str, str] = {}


def played(orders: Sequence[Order], jobs: int = 1) -> Iterator[Played]:
    """Yield the runs, in the order of the orders."""
    if jobs <= 1 or len(orders) <= 1:
        yield from map(_play, orders)
        return
    with mp.get_context("spawn").Pool(min(jobs, len(orders)), _settle) as pool:
        yield from pool.imap(_play, orders, chunksize=1)


def _settle() -> None:
    """Prepare a process that only plays: what it writes stays in memory, and garbage is collected
    between runs.
    """
    if os.access(SHARED, os.W_OK):
        tempfile.tempdir = SHARED
    gc.disable()


def of_run(run: Run, texts: Texts | None = None) -> Played:
    return Played(sample(checked(run)), "".join(lines_of(run)), texts.by_digest if texts else {})


def _play(order: Order) -> Played:
    try:
        return _played(order, _scenario(order.scenario, order.cell))
    finally:
        if not next(_ENDED) % COLLECTED:
            gc.collect()
            _keep()


@cache
def _keep() -> None:
    """Keep the garbage collector from looking through the modules and tables of the first run."""
    gc.freeze()


def _played(order: Order, scenario: Scenario) -> Played:
    if scenario.kind == "memory":
        return of_run(nightly_runs.play(scenario, order.arm, order.seed, _counts()))
    if scenario.kind == "crash":
        return of_run(crashes.play(scenario, order.scenario, order.arm, order.seed))
    course = Play(scenario, order.arm, order.seed, _counts())
    course.recorder.texts = Texts() if order.prompts else None
    return of_run(course.run(), course.recorder.texts)


@cache
def _scenario(name: str, cell: tuple[tuple[str, Any], ...]) -> Scenario:
    return load(find(name), dict(cell))


@cache
def _counts() -> Counts:
    return Counts()
