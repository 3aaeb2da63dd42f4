"""A command's worth of runs: played, written down as they end, looked through, and reported in a
folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from random import Random
from time import monotonic
from typing import Any, NamedTuple, TextIO

from scenarios.data import ledger, texts
from scenarios.data.files import BrokenScenario, find, load
from scenarios.data.parameters import MEASURED, Parameters
from scenarios.data.schema import Scenario
from scenarios.data.texts import Texts
from scenarios.measure.findings import Table
from scenarios.measure.samples import Sample
from scenarios.play import harness
from scenarios.play.agents.live import MODELS, Broken, Live, TooDear, missing
from scenarios.play.batch import Order, Played, of_run, played
from scenarios.play.harness import Counts
from scenarios.progress import Progress
from scenarios.report import markdown, page, report, terminal
from scenarios.report.plan import available, planned
from scenarios.report.recorded import measured
from scenarios.report.report import Report
from synapse.system.quoting import one_line

GOOD, MISSED, BROKEN, SKIPPED = 0, 1, 2, 77
# Parameters by which scripted agents read, note and search; a model has its own way.
CAST = frozenset((*MEASURED, "agents", "claims", "window", "slip"))
LIVE_RUNS = 10  # of an arm, where nobody says how many
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
    conversations: str | None = None  # a file of them, for retrieval (L1)
    prompts: bool = False  # whether the texts of all prompts are kept
    measured: Parameters | None = None  # of agents, instead of those that are assumed

    @property
    def whole_cell(self) -> Mapping[str, Any]:
        """Return the parameters that are set: those that were measured, and over them those that
        were asked for.
        """
        return {**(self.measured.values if self.measured else {}), **self.cell}


def play(wanted: Wanted, folder: str, jobs: int, out: TextIO) -> Report:
    """Play it, and leave a report in the folder."""
    files = {name: find(name) for name in wanted.names}
    cell = wanted.whole_cell
    scenarios = {name: load(text, cell) for name, text in files.items()}
    orders = [
        order._replace(prompts=wanted.prompts)
        for name, text in files.items()
        for order in planned(
            text,
            name,
            wanted.arms,
            wanted.runs,
            wanted.seed,
            cell,
            grid=wanted.grid,
            full=wanted.full,
        )
    ]
    recorded = _recorded(wanted, out)
    samples_of, digest = _written(orders, played(orders, jobs), folder, out)
    run = about() | {"live": not_live(os.environ)} | _measured(wanted)
    return _reported(list(scenarios.values()), wanted, samples_of, digest, run, folder, recorded)


def play_live(wanted: Wanted, live: Live, folder: str, out: TextIO) -> Report:
    """Play with a real model: one run after another, the arms of a seed in an order that is drawn.
    Broken where nothing could be played.
    """
    scenarios = {name: load(find(name), wanted.cell) for name in wanted.names}
    for item in scenarios.values():
        if item.kind != "team":
            raise BrokenScenario(
                f"{item.id}: no agent takes part in it (kind: {item.kind}), so no"
                f" model can play it: leave out --live"
            )
    if scripted := sorted(CAST & wanted.whole_cell.keys()):
        raise BrokenScenario(
            f"{', '.join(scripted)}: says how scripted agents behave, and a model does as it does: "
            "leave out --set and --params of it, or --live"
        )
    orders = [order for name, item in scenarios.items() for order in _in_blocks(item, name, wanted)]
    recorded = _recorded(wanted, out)
    samples_of, digest = _written(orders, _asked(orders, scenarios, live), folder, out)
    stopped = (
        f"stopped after {len(samples_of)} of {len(orders)} runs: {live.broken}"
        if live.broken
        else ""
    )
    if not samples_of:
        raise Broken(stopped)
    cassette = {"played": live.cassette.hits, "asked": live.cassette.asked}
    run = about() | {"cassette": cassette} | ({"stopped": stopped} if stopped else {})
    return _reported(list(scenarios.values()), wanted, samples_of, digest, run, folder, recorded)


def _recorded(wanted: Wanted, out: TextIO) -> Table:
    """Return what recorded conversations come to, before anything is played: a broken file is
    reported at once.
    """
    if wanted.conversations is not None:
        print(f"retrieval of {wanted.conversations}", file=out, flush=True)
    return measured(wanted.conversations)


def _measured(wanted: Wanted) -> dict[str, Any]:
    """Return what a report says of parameters that were measured: which were played with, and where
    they are from.
    """
    if wanted.measured is None:
        return {}
    values = {
        name: one._asdict()
        for name, one in wanted.measured.estimates.items()
        if one.value is not None and name not in wanted.cell
    }
    return {"parameters": {"source": dict(wanted.measured.source), "values": values}}


def not_live(env: Mapping[str, str]) -> str:
    """Return why no real model played where none was asked; such a check never counts as passed."""
    return (
        "not asked for"
        if any(missing(engine, env) is None for engine in MODELS)
        else "skipped: no key"
    )


def _in_blocks(scenario: Scenario, name: str, wanted: Wanted) -> Iterator[Order]:
    first = scenario.seed if wanted.seed is None else wanted.seed
    for seed in range(first, first + (wanted.runs or LIVE_RUNS)):
        arms = available(scenario, wanted.arms)
        Random(f"{scenario.id} {seed}").shuffle(arms)
        yield from (
            Order(name, arm, seed, tuple(wanted.cell.items()), wanted.prompts) for arm in arms
        )


def _asked(orders: Sequence[Order], known: Mapping[str, Scenario], live: Live) -> Iterator[Played]:
    """Run after run, until the money is spent."""
    count = Counts()
    for order in orders:
        course = harness.Play(known[order.scenario], order.arm, order.seed, count, live)
        course.recorder.texts = Texts() if order.prompts else None
        run = course.run()
        if isinstance(live.broken, TooDear):
            return
        if live.broken is not None:
            raise Broken(str(live.broken)) from live.broken
        yield of_run(run, course.recorder.texts)


def _reported(
    known: Sequence[Scenario],
    wanted: Wanted,
    found: Sequence[Sample],
    digest: str,
    run: Mapping[str, Any],
    folder: str,
    recorded: Table,
) -> Report:
    scenarios = {
        scenario.id: report.described(scenario, wanted.arms or scenario.arms) for scenario in known
    }
    thresholds = list(chain.from_iterable(report.thresholds_of(scenario) for scenario in known))
    report_made = report.made(found, scenarios, thresholds, digest, run, recorded)
    leave(report_made, folder)
    return report_made


def _written(
    orders: Sequence[Order], runs: Iterable[Played], folder: str, out: TextIO
) -> tuple[list[Sample], str]:
    """Play, with the ledger on the disk as it goes; it gets its name when it is whole."""
    result: list[Sample] = []
    digest, progress = sha256(), Progress(out, len(orders), monotonic)

    def lines(keep: Callable[[Mapping[str, str]], None]) -> Iterator[str]:
        # money may end before the orders do
        for order, run in zip(orders, runs, strict=False):
            result.append(run.sample)
            keep(run.texts)
            digest.update(run.text.encode())
            yield run.text
            progress.step(f"{order.scenario} {order.arm} {ledger.cell_name(dict(order.cell))}")

    os.makedirs(folder, exist_ok=True)
    unfinished = os.path.join(folder, UNFINISHED)
    prompts = any(order.prompts for order in orders)
    try:
        with texts.keeping(folder) if prompts else nullcontext(lambda _: None) as keep:
            ledger.write(unfinished, lines(keep))
        if not prompts:
            texts.forget(folder)
    finally:
        progress.end()
    os.replace(unfinished, os.path.join(folder, report.LEDGER))
    return result, digest.hexdigest()


def leave(made: Report, folder: str) -> None:
    """Write every form of the report into its folder."""
    report.write(folder, report.REPORT, report.dump(made.table))
    report.write(folder, report.TEXT, "\n".join(markdown.lines(made)) + "\n")
    report.write(folder, report.PAGE, page.html(made))


def about() -> dict[str, Any]:
    """Return what does not follow from a ledger: the version of the product."""
    return {"version": version("synapse-orchestrator"), "git": commit(os.path.dirname(__file__))}


def commit(folder: str) -> str | None:
    """Return the commit that is checked out there, with + behind it where files differ; None where
    there is none.
    """
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head + (
            "+" if _git(folder, "status", "--porcelain", "--untracked-files=no", ".") else ""
        )
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
    """Return the exit code: a gate that was missed, all that were judged met, or none judged."""
    judged = [verdict["met"] for verdict in made["verdicts"] if verdict["met"] is not None]
    return MISSED if not all(judged) else GOOD if judged else SKIPPED


def shown(made: Report, folder: str) -> Iterator[str]:
    """Yield the lines that the terminal shows at the end."""
    yield from map(one_line, terminal.lines(markdown.lines(made)))
    yield ""
    yield f"{made.table['run']['runs']} runs, ledger {made.table['run']['ledger'][:16]}"
    files = (*report.FILES, texts.FILE)
    yield from (
        f"  {os.path.join(folder, name)}" for name in sorted(os.listdir(folder)) if name in files
    )
