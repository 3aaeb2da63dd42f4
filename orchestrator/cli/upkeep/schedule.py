"""`orchestrator schedule`: show when the nightly job runs and ran, run it where it is due, print
units that run it.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from textwrap import wrap
from typing import Any

from orchestrator.cli.frame.figures import format_duration
from orchestrator.cli.frame.grid import grid
from orchestrator.nightly.job import Past, past, spend
from orchestrator.nightly.schedule import EPOCH, Plan, due, following, instant, plan_of, zone_of
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import columns, short
from synapse.errors import NotFound
from synapse.model import clock

HEADERS = ("date", "job", "state", "began", "took", "by", "what came of it")
HELD = 5
LONGEST_HOST = 12
NO_JOB = "there is no nightly job: synapse.yaml says `schedule: {defrag: off}`"


def schedule_options(parser: Options) -> None:
    add = parser.add_argument
    add("--days", type=whole, default=14, metavar="N", help="how many dates back (default: 14)")
    add("--run", action="store_true", help="do now what is due and not done")
    add("--quiet", action="store_true", help="with --run: say nothing where nothing was due")
    add("--systemd", action="store_true", help="print a systemd service and timer that run it")
    add("--cron", action="store_true", help="print a line for cron that runs it")


def schedule(call: Call) -> int:
    args = call.args
    if args.run + args.systemd + args.cron > 1:
        raise Usage("give one of --run, --systemd, --cron")
    plan = plan_of(call.memory.store.settings)
    if args.systemd or args.cron:
        call.say(_unit(call, plan).rstrip("\n"))
    elif args.run:
        return _run_due(call, plan)
    else:
        call.show(lambda: _as_json(call, plan), lambda: _format_schedule(call, plan))
    return 0


def _run_due(call: Call, plan: Plan) -> int:
    """Run what is due, in this process; 5 where another process runs it."""
    store = call.memory.store
    if plan.defrag is None:
        raise NotFound(NO_JOB)
    on = due(plan.defrag, zone_of(plan.zone), store.clock())
    before = {job.state for job in past(store, plan, 1)}
    done = spend(call.memory, on)
    was_done = before == {"done"}
    text = f"the nightly run of {on} is done"
    if not done:
        text = f"another process is at the nightly run of {on}"
    elif was_done:
        text = f"the nightly run of {on} was done before"
    if not (call.args.quiet and was_done):
        call.show({"date": on.isoformat(), "done": done}, text)
    return 0 if done else HELD


def _unit(call: Call, plan: Plan) -> str:
    from orchestrator.cli.upkeep.units import cron, systemd

    root = os.path.abspath(call.memory.store.root or call.root)
    if call.args.cron:
        return cron(root, sys.executable)
    if plan.defrag is None:
        raise NotFound(NO_JOB)
    name = "synapse-night-" + "".join(
        c if c.isalnum() or c in "-_" else "-" for c in os.path.basename(root)
    )
    return systemd(root, sys.executable, name, plan.defrag, plan.zone)


def _as_json(call: Call, plan: Plan) -> dict[str, Any]:
    fields: dict[str, Any] = {"zone": plan.zone, "at": None, "next": None, "runs": []}
    if plan.defrag is not None:
        on, at = _next(call, plan)
        fields["at"] = plan.defrag.isoformat("minutes")
        fields["next"] = {
            "date": on,
            "at": clock.seconds(at),
            "local": _local(at, plan).isoformat(),
        }
    fields["daemon"] = _daemon(call)
    fields["runs"] = [_run_json(job) for job in past(call.memory.store, plan, call.args.days)]
    return fields


def _run_json(job: Past) -> dict[str, Any]:
    times = {
        name: at and clock.seconds(at) for name, at in (("began", job.began), ("ended", job.ended))
    }
    return {**job._asdict(), **times, "seconds": _seconds(job)}


def _format_schedule(call: Call, plan: Plan) -> str:
    if plan.defrag is None:
        return NO_JOB
    on, at = _next(call, plan)
    wait = format_duration(at - call.memory.store.clock())
    pid = _daemon(call)
    who = "no process yet: start `orchestrator up`, or see --systemd and --cron"
    if pid:
        who = f"the daemon, process {pid}"
    local = f"{_local(at, plan):%Y-%m-%d %H:%M} {plan.zone}"
    next_run = f"next: the nightly run of {on}, at {local}, in {wait}, by {who}"
    lines, width = [next_run], columns()
    if width:
        lines = wrap(next_run, width, break_long_words=False, break_on_hyphens=False)
    rows = [_row(job, plan) for job in past(call.memory.store, plan, call.args.days)]
    if rows:
        lines.append(grid(HEADERS, rows, ("took",)))
    return "\n".join(lines)


def _row(job: Past, plan: Plan) -> list[str]:
    began = f"{_local(job.began, plan):%m-%d %H:%M}" if job.began else "-"
    took = _seconds(job)
    counts = [
        f"{name} {_format_figure(value)}"
        for name, value in job.told.items()
        if name not in ("cursor", "after") and value is not None
    ]
    result = f"in phase {job.phase}" if job.phase else "-"
    if counts:
        result = ", ".join(counts)
    figures = [began, "-" if took is None else format_duration(int(took * 1_000_000))]
    return [
        job.date,
        job.job,
        job.state,
        *figures,
        ", ".join(map(_format_holder, job.holders)) or "-",
        result,
    ]


def _format_figure(value: object) -> str:
    """Return a value of a job's record as people read it; of a list of rows their count."""
    if not isinstance(value, list | tuple):
        return str(value)
    rows = any(isinstance(item, list | tuple | dict) for item in value)
    return str(len(value)) if rows or not value else " ".join(map(str, value))


def _format_holder(holder: str) -> str:
    """Return the pid of a process of this machine, else the first label of the host's name."""
    host, _, pid = holder.rpartition(":")
    if host == os.uname().nodename:
        return pid
    return short(host.partition(".")[0], LONGEST_HOST)


def _seconds(job: Past) -> float | None:
    if job.began is None or job.ended is None:
        return None
    return (job.ended - job.began) / 1_000_000


def _next(call: Call, plan: Plan) -> tuple[str, int]:
    assert plan.defrag is not None
    zone = zone_of(plan.zone)
    on = following(plan.defrag, zone, call.memory.store.clock())
    return on.isoformat(), instant(plan.defrag, on, zone)


def _local(at: int, plan: Plan) -> datetime:
    return (EPOCH + timedelta(microseconds=at)).astimezone(zone_of(plan.zone))


def _daemon(call: Call) -> int | None:
    """Return the process of the daemon that will run the job; None where none is up."""
    from orchestrator.plugin.daemon import WORKSPACE, ask

    try:
        root = os.path.abspath(call.memory.store.root or call.root)
        answer = ask(root, "status")
    except NotFound:
        return None
    return int(answer["pid"]) if answer["scope"] == WORKSPACE else None
