"""A ledger's runs, played once more and held against it: the same scenario, arm, cell and seed give
the same bytes, or something has changed. Judges no figure; `verify` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from scenarios.data import ledger
from scenarios.data.files import BrokenScenario, find, library, load
from scenarios.data.ledger import Run
from scenarios.data.schema import Scenario
from scenarios.play import batch
from scenarios.play.batch import Order

CRASHES = "its processes are killed at real times, which no two runs have in common"
LIVE = "a model played it; with its cassette, `run --cassette-mode replay` plays it again"


class Rerun(NamedTuple):
    """What came of it: how many runs were played again, where they differ, and what could not be
    played again, with the reason."""

    runs: int
    differences: Sequence[str]
    skipped: Sequence[str]


def rerun(path: str, files: Sequence[str] = (), jobs: int = 1) -> Rerun:
    """Play every run of a ledger again. `files` are scenarios that are not in the library."""
    names = {load(text).id: name for name, text in library().items()}
    names |= {load(find(file)).id: file for file in files}
    differences = dict[str, None]()
    skipped = dict[str, None]()
    places: list[int] = []  # of the runs that are played again
    orders: list[Order] = []
    for number, run in enumerate(ledger.runs(ledger.lines(path))):
        scenario = run.begin["scenario"]
        if why := _unplayable(run, names):
            skipped[f"{scenario}: {why}"] = None
        elif changed := _changed(run, names[scenario]):
            differences[changed] = None
        else:
            places.append(number)
            orders.append(_order(run, names[scenario]))
    runs = batch.played(orders, jobs)
    chosen = set(places)
    for number, run in enumerate(ledger.runs(ledger.lines(path))):
        if number in chosen:
            differences |= dict.fromkeys(_different(run, next(runs).text))
    return Rerun(len(orders), list(differences), list(skipped))


def _unplayable(run: Run, named: Mapping[str, str]) -> str:
    """Return why a run cannot be played again; empty where it can."""
    if run.begin.get("engine"):
        return LIVE
    name = named.get(run.begin["scenario"])
    if name is None:
        return "not in the library; name its file: --scenario FILE"
    return CRASHES if _scenario(run, name).kind == "crash" else ""


def _changed(run: Run, name: str) -> str:
    """Return that a scenario is not the one that was played; empty where it is."""
    was, now = run.begin["digest"], _scenario(run, name).digest
    if was == now:
        return ""
    return (
        f"{run.begin['scenario']}: its file has changed since: sha256 {was[:16]} then,"
        f" {now[:16]} now"
    )


def _scenario(run: Run, name: str) -> Scenario:
    try:
        return load(find(name), run.begin["cell"])
    except BrokenScenario as error:
        raise BrokenScenario(f"{name}: cannot be played again: {error}") from error


def _order(run: Run, name: str) -> Order:
    begin = run.begin
    prompts = any("texts" in event for event in run.of("prompt"))
    return Order(name, begin["arm"], begin["seed"], tuple(begin["cell"].items()), prompts)


def _different(run: Run, text: str) -> Iterator[str]:
    """Return the first line in which a run and the same run played again differ."""
    before, after = ledger.lines_of(run), iter(text.splitlines(keepends=True))
    for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=""), 1):
        if old != new:
            yield (
                f"{' '.join(str(item) for item in run.key if item != '')}: line {number}"
                f" differs: {_apart(old, new)}"
            )
            return


def _apart(old: str, new: str) -> str:
    """Return the places at which two lines part, a few signs of each."""
    at = next(
        (at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two),
        min(len(old), len(new)),
    )
    start = max(at - 30, 0)
    return f"{old[start : at + 30].strip()!r} in the ledger, {new[start : at + 30].strip()!r} now"
