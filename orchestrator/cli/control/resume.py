"""`orchestrator resume`: go on with runs that were left, or whose process died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.cli.frame.describe import describe_result, source_of
from orchestrator.cli.frame.engines import open_supervisor, with_servers
from orchestrator.cli.frame.options import engine_options, tool_options
from orchestrator.reports.rows import ENDED_WELL, find_run, find_runs
from orchestrator.runs.files.workspace import lives
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import one_line
from synapse.errors import Conflict

if TYPE_CHECKING:
    from orchestrator.runs.task import Result
    from orchestrator.supervisor import Supervisor

LEFT = (
    "start their own program again, or give what they wait for: --tool, --mcp, --engine, --script, "
    "or the key in the environment; `orchestrator stop RUN` ends one"
)


def resume_options(parser: Options) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="with the tree of this run (default: every run whose process is gone)",
    )
    tool_options(parser)
    engine_options(parser)


def resume(call: Call) -> int:
    from orchestrator.cli.frame.asking import ended
    from orchestrator.cli.frame.live import run_and_show

    args = call.args
    root = None if args.run is None else _root(call, args.run)
    with open_supervisor(call) as supervisor:
        work = with_servers(supervisor, args.mcp, lambda: _resume_all(supervisor, root))
        results, waiting = run_and_show(supervisor, work, quiet=args.quiet or call.json)
    lines = [describe_result(result) for result in results]
    lines += [one_line(f"{run}: {why}") for run, why in waiting.items()]
    call.show(
        lambda: {"resumed": [result.fields() for result in results], "left": waiting},
        lambda: "\n".join(lines) or "nothing to go on with: no run has lost its supervisor",
    )
    if waiting:
        call.note(LEFT)
    ended_well = all(result.status in ENDED_WELL for result in results)
    return ended(call, results, not waiting and ended_well)


def _root(call: Call, name: str) -> str:
    """Return the root of a run's tree; Conflict where there is nothing to go on with in it."""
    source = source_of(call)
    run = find_run(source, name)
    tree = find_runs(source, root=str(run["root"]))
    running = [one for one in tree if one["state"] == "running"]
    if any(one["state"] == "waiting" for one in tree):
        return str(run["root"])
    if not running and not _has_team_left(tree, str(run["root"])):
        raise Conflict(f"{run['run']} has ended: {run.get('status')}", run=run["run"])
    if running and all(lives(source.store, str(one.get("holder"))) for one in running):
        raise Conflict(f"{run['run']} is at work: its process is alive", run=run["run"])
    return str(run["root"])


def _has_team_left(tree: list[dict[str, Any]], root: str) -> bool:
    """Return whether the tree is a team's, whose plan may go on where its runs have ended."""
    asked = next((run.get("asked") or {} for run in tree if run["run"] == root), {})
    return bool(asked.get("team"))


async def _resume_all(
    supervisor: Supervisor, root: str | None
) -> tuple[list[Result], dict[str, str]]:
    """Return what came of the runs that were gone on with, and what the others wait for. Of a tree
    that waits for a person, and that somebody names, there is the run that waits."""
    from orchestrator.team import go_on

    resumed, waiting = await supervisor.recover(root)
    if root is not None and not resumed:
        runs = supervisor.run_store.runs
        resumed = await supervisor.memory_thread(lambda: runs.all(state="waiting", root=root))
        resumed = [run for run in resumed if run.id not in waiting]
    results = [await supervisor.result(run) for run in resumed]
    if root is None or waiting or any(result.waiting for result in results):
        return results, waiting
    begun = await supervisor.memory_thread(supervisor.run_store.known, root)
    report = await go_on(supervisor, begun)
    return (results if report is None else [*report.runs]), waiting
