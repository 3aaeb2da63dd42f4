"""`orchestrator stop`: end runs. The stop is a record that the process of the run reads; where that
is gone, the end is written here.
"""

from __future__ import annotations

from orchestrator.cli.frame.describe import source_of
from orchestrator.reports.rows import Fields, find_run, find_runs
from orchestrator.runs.files.workspace import lives
from orchestrator.runs.records import Runs
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.errors import Conflict
from synapse.model.agents import OPERATOR


def stop_options(parser: Options) -> None:
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="which; all that they spawned end with them")
    add("--all", action="store_true", help="everything that runs")
    add("--reason", default="stopped by the operator", metavar="TEXT", help="why, for the record")


def stop(call: Call) -> None:
    args = call.args
    if bool(args.runs) == args.all:
        raise Usage("name the runs to stop, or give --all")
    targets: list[Fields]
    if args.all:
        states = ("running", "waiting")
        targets = [run for state in states for run in find_runs(source_of(call), state=state)]
    else:
        targets = [find_run(source_of(call), name) for name in args.runs]
        ended = [str(run["run"]) for run in targets if run["state"] == "ended"]
        if ended:
            raise Conflict(f"{', '.join(ended)} ended before", runs=ended)
    ids = [str(run["run"]) for run in targets]
    for id in ids:
        Runs(call.memory.store).stop(id, OPERATOR, args.reason)
    store = call.memory.store
    orphans = [run for run in targets if not lives(store, str(run.get("holder")))]
    over = _end(call, {str(run["root"]) for run in orphans}) if orphans else set()
    text = "\n".join(f"stopped: {id}" if id in over else f"asked to stop: {id}" for id in ids)
    left = [str(run["run"]) for run in orphans if run["run"] not in over]
    call.show({"stopped": ids, "orphaned": left}, text or "nothing runs")


def _end(call: Call, roots: set[str]) -> set[str]:
    """Write the ends of the runs of these trees that were stopped and that nobody holds; return
    which ended. An end needs nothing of what the run was begun with."""
    from orchestrator.run_store.recovery import end_stopped
    from orchestrator.supervisor import Supervisor

    with Supervisor(call.memory, engine="scripted") as supervisor:
        return {id for root in roots for id in end_stopped(supervisor.run_store, root)}
