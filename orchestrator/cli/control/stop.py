"""`orchestrator stop`: end runs. The stop is a record that the process of the run reads."""

from __future__ import annotations

from orchestrator.cli.frame.describe import source_of
from orchestrator.reports.rows import Fields, find_run, find_runs
from orchestrator.runs.files.lease import lives
from orchestrator.runs.records import Runs
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.errors import Conflict
from synapse.model.agents import OPERATOR

LEFT = "; its process is gone: `orchestrator resume` writes its end"


def stop_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "runs",
        nargs="*",
        metavar="RUN",
        help="which; all that they spawned end with them",
    )
    add("--all", action="store_true", help="everything that runs")
    add(
        "--reason",
        default="stopped by the operator",
        metavar="TEXT",
        help="why, for the record",
    )


def stop(call: Call) -> None:
    args = call.args
    if bool(args.runs) == args.all:
        raise Usage("name the runs to stop, or give --all")
    targets: list[Fields]
    if args.all:
        targets = [*find_runs(source_of(call), state="running")]
    else:
        targets = [find_run(source_of(call), name) for name in args.runs]
        ended = [str(run["run"]) for run in targets if run["state"] != "running"]
        if ended:
            raise Conflict(f"{', '.join(ended)} ended before", runs=ended)
    ids = [str(run["run"]) for run in targets]
    for id in ids:
        Runs(call.memory.store).stop(id, OPERATOR, args.reason)
    root = call.memory.store.root or call.root
    orphans = {
        str(run["run"]) for run in targets if not lives(root, str(run.get("holder")))
    }
    text = "\n".join(
        f"asked to stop: {id}{LEFT if id in orphans else ''}" for id in ids
    )
    call.show(
        {"stopped": ids, "orphaned": [id for id in ids if id in orphans]},
        text or "nothing runs",
    )
