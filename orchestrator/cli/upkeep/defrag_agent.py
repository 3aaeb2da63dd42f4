"""`orchestrator defrag-agent`: tidy an agent's own folder, and have its own cycle call `synapse
defrag`.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import decimal
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import clean, one_line

if TYPE_CHECKING:
    from orchestrator.nightly.notebook.defrag_agent import Report

NOT_DONE = 9


def defrag_agent_options(parser: Options) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="the agent's folder, with MEMORY.md and memory/")
    add("--plan", action="store_true", help="show what would be done; change nothing")
    add(
        "--nap",
        action="store_true",
        help="only where a nap is due: --context above 0.75, or not given",
    )
    add("--context", type=decimal, metavar="SHARE", help="how full the agent's context is, 0 to 1")
    add(
        "--lines",
        type=whole,
        default=60,
        metavar="N",
        help="lines that MEMORY.md stays under (default: 60)",
    )
    add(
        "--days",
        type=whole,
        default=7,
        metavar="N",
        help="days after which notes are archived (default: 7)",
    )
    add(
        "--install",
        action="store_true",
        help="have its DEFRAG.md call `synapse defrag` of this workspace",
    )
    add("--uninstall", action="store_true", help="take that out of it again")


def defrag_agent(call: Call) -> int:
    args = call.args
    folder = os.path.abspath(os.path.expanduser(args.directory))
    if args.install + args.uninstall + args.plan > 1:
        raise Usage("give one of --plan, --install, --uninstall")
    if args.context is not None and not 0 <= args.context <= 1:
        raise Usage("--context is a share, from 0 to 1")
    if args.install or args.uninstall:
        return _change_page(call, folder)
    from orchestrator.nightly.notebook.defrag_agent import NAP, nap_due

    if args.nap and not nap_due(args.context):
        call.show(
            {"nap": False},
            f"no nap: the context is {args.context:.0%} full, and one is due above {NAP:.0%}",
        )
        return 0
    return _show_plan(call, folder) if args.plan else _tidy(call, folder)


def _tidy(call: Call, folder: str) -> int:
    from datetime import datetime

    from orchestrator.nightly.notebook.defrag_agent import defrag_agent as cycle

    report = cycle(folder, datetime.now(), call.args.lines, call.args.days)
    call.show(lambda: report, lambda: _format_report(report, call.args.lines))
    return 0 if not report.critical else NOT_DONE


def _format_report(report: Report, lines: int) -> str:
    first = (
        f"{report.verdict}: {report.added} added, {report.removed} removed,"
        f" {report.filed} notes archived"
    )
    second = (
        f"MEMORY.md: {report.lines} lines (target: <{lines}), {report.input_bytes} to"
        f" {report.output_bytes} bytes"
    )
    return "\n".join(map(one_line, (first, second, *report.warnings, *report.critical)))


def _show_plan(call: Call, folder: str) -> int:
    from datetime import datetime

    from orchestrator.nightly.notebook.defrag_agent import read
    from orchestrator.nightly.notebook.notes import tidied

    plan = tidied(read(folder), datetime.now().date(), call.args.lines, call.args.days)
    lines = [f"+ {item.section}: {item.text}" for item in plan.added]
    lines += [f"- {text}  ({reason})" for text, reason in plan.removed]
    lines += [f"> the note of {on} into the archive" for on in plan.filed]
    fields = {
        "added": plan.added,
        "removed": plan.removed,
        "filed": [on.isoformat() for on in plan.filed],
    }
    call.show(
        fields,
        lambda: "\n".join(clean(line.replace("\n", " ")) for line in lines) or "nothing to do",
    )
    return 0


def _change_page(call: Call, folder: str) -> int:
    from orchestrator.nightly.notebook.defrag_agent import PAGE, install, uninstall

    if call.args.install:
        root = os.path.abspath(call.memory.store.root or call.root)
        changed = install(folder, f"synapse --root {shlex.quote(root)} defrag")
        state = "calls `synapse defrag` now" if changed else "calls `synapse defrag` already"
    else:
        changed = uninstall(folder)
        state = "is as it was before" if changed else "has no block of ours"
    call.show({"changed": changed}, clean(f"{os.path.join(folder, PAGE)} {state}"))
    return 0
