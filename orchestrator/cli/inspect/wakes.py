"""`orchestrator wakes`: show how far critical entries got on their way into prompts."""

from __future__ import annotations

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.figures import format_duration
from orchestrator.cli.frame.grid import grid
from orchestrator.reports.wakes import Wake, find_wakes
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options

HEADERS = ("entry", "for", "state", "offered", "rendered", "acked", "said")


def wakes_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--since",
        default="7d",
        metavar="WHEN",
        help="24h, yesterday, last tuesday, 2026-02-01 (default: 7d)",
    )
    add("--agent", metavar="AGENT", help="only on the way to this agent")
    add("--pending", action="store_true", help="only what was in no prompt yet")


def wakes(call: Call) -> None:
    args = call.args
    matches = [
        wake
        for wake in find_wakes(source_of(call), args.since)
        if args.agent in (None, wake.agent) and not (args.pending and wake.rendered)
    ]
    call.show(
        lambda: {"wakes": matches},
        lambda: grid(HEADERS, list(map(_row, matches))) if matches else _format_none(args.pending),
    )


def _format_none(pending: bool) -> str:
    return "nothing waits: all that is critical was in a prompt" if pending else "nothing critical"


def _row(wake: Wake) -> list[str]:
    times = (
        "-" if micros is None else format_duration(micros)
        for micros in (wake.offered, wake.rendered, wake.acked)
    )
    return [wake.entry, wake.agent, wake.state, *times, wake.body.split("\n", 1)[0]]
