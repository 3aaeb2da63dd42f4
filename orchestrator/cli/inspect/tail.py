"""`orchestrator tail`: print the steps of a run as they come, each on one line."""

from __future__ import annotations

import time
from collections.abc import Iterator

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.steps import format_end, format_step
from orchestrator.reports.rows import find_run
from orchestrator.runs.files import steps, workspace
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.files.steps import Step
from orchestrator.runs.files.trim import why_gone
from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import columns, short, to_json

LOOK = 0.1


def tail_options(parser: Options) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="which run")
    add("--follow", action="store_true", help="go on until it ends")


def tail(call: Call) -> None:
    """Print until the run ends, or until nobody reads the output any more."""
    run = find_run(source_of(call), call.args.run)
    if reason := why_gone(source_of(call).folder(str(run["run"]))):
        call.note(f"its steps are gone{reason}")
    with Interruptible():
        for step in _steps(call, str(run["run"])):
            if call.json:
                call.say(
                    to_json({"n": step.n, "epoch": step.epoch, "kind": step.kind, **step.fields})
                )
            else:
                for line in format_step(step):
                    call.say(short(line, columns() or 0))
            call.flush()
        if not call.json:
            call.say(short(format_end(find_run(source_of(call), str(run["run"]))), columns() or 0))


def _steps(call: Call, id: str) -> Iterator[Step]:
    """Yield the steps so far, and with --follow those to come, until the run has ended."""
    store = call.memory.store
    grown = workspace.tail(store, store.root or call.root, id, STEPS)
    while True:
        # before the look: nothing comes after
        is_last = not call.args.follow or find_run(source_of(call), id)["state"] != "running"
        yield from steps.read(grown.lines())
        if is_last:
            return
        time.sleep(LOOK)
