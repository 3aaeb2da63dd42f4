"""`orchestrator resume`: go on with the runs whose process died."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.frame.describe import describe_result
from orchestrator.cli.frame.engines import open_supervisor, with_servers
from orchestrator.cli.frame.options import engine_options, tool_options
from orchestrator.reports.rows import ENDED_WELL
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import one_line

if TYPE_CHECKING:
    from orchestrator.runs.task import Result
    from orchestrator.supervisor import Supervisor

LEFT = (
    "start their own program again, or give what they wait for: --tool, --mcp, --engine, --script, "
    "or the key in the environment; `orchestrator stop RUN` ends one"
)


def resume_options(parser: Options) -> None:
    tool_options(parser)
    engine_options(parser)


def resume(call: Call) -> int:
    from orchestrator.cli.frame.live import run_and_show

    args = call.args
    with open_supervisor(call) as supervisor:
        work = with_servers(supervisor, args.mcp, lambda: _resume_all(supervisor))
        ending = run_and_show(supervisor, work, quiet=args.quiet or call.json)
    results, waiting = ending.value
    lines = [describe_result(result) for result in results]
    lines += [one_line(f"{run}: {why}") for run, why in waiting.items()]
    call.show(
        lambda: {"resumed": [result.fields() for result in results], "left": waiting},
        lambda: (
            "\n".join(lines) or "nothing to go on with: no run has lost its supervisor"
        ),
    )
    if waiting:
        call.note(LEFT)
    return ending.code(
        not waiting and all(result.status in ENDED_WELL for result in results)
    )


async def _resume_all(supervisor: Supervisor) -> tuple[list[Result], dict[str, str]]:
    """Return what came of the runs that were gone on with, and what the others wait for."""
    resumed, waiting = await supervisor.recover()
    return [await supervisor.result(run) for run in resumed], waiting
