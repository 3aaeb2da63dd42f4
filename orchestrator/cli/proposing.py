"""`orchestrator propose`: have an engine propose merges and summaries now; what passes waits for
approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import clean
from synapse.errors import Conflict
from synapse.model import clock

if TYPE_CHECKING:
    from orchestrator.nightly.semantic import Report, Wanted

NOT_DONE = 9


def propose_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--plan",
        action="store_true",
        help="only say how much would be asked about; call nobody",
    )
    add(
        "--engine",
        metavar="NAME",
        help="which engine; else what synapse.yaml says under consolidation",
    )
    add("--model", metavar="NAME", help="which model; else the engine's own")
    add(
        "--max-tokens",
        type=whole,
        metavar="N",
        help="so many tokens at most, in all calls of the day",
    )
    add(
        "--max-usd",
        type=float,
        metavar="N",
        help="so many dollars at most, in all calls of the day",
    )


def propose(call: Call) -> int:
    from orchestrator.nightly.semantic import consolidate, portions

    store = call.memory.store
    if call.args.plan:
        found, _ = portions(store)
        told = {
            "calls": len(found),
            "entries": [[entry.id for entry in portion] for portion in found],
        }
        call.show(told, f"{sum(map(len, found))} entries in {len(found)} calls")
        return 0
    asked = _wanted(call)
    if asked is None:
        raise Usage(
            "no engine is named to propose: give --engine NAME, such as anthropic, or write"
            " `consolidation: {semantic: {engine: NAME}}` in synapse.yaml"
        )
    report = consolidate(call.memory, clock.day(store.clock()), asked, by_hand=True)
    if not report.ran:
        raise Conflict("somebody is at it just now; look again later")
    call.show(lambda: report, lambda: _text(report))
    return NOT_DONE if report.stopped else 0


def _wanted(call: Call) -> Wanted | None:
    """What the settings say, with what was asked for in its place."""
    from orchestrator.nightly.semantic import Wanted, wanted

    args, declared = call.args, wanted(call.memory.store.settings)
    if not args.engine and declared is None:
        return None
    base = declared if declared and not args.engine else Wanted(args.engine)
    given = {
        "model": args.model,
        "max_tokens": args.max_tokens,
        "max_usd": args.max_usd,
    }
    return base._replace(
        **{name: value for name, value in given.items() if value is not None}
    )


def _text(report: Report) -> str:
    lines = []
    for each in report.outcomes:
        of = ", ".join(each.proposal.sources)
        lines.append(
            f"{each.state} {each.id or each.proposal.kind} of {of}: {each.reason}"
        )
    cost = "" if report.spent.cost is None else f", ${report.spent.cost:.4f}"
    staged = sum(each.state == "staged" for each in report.outcomes)
    lines.append(
        f"{staged} staged, {len(report.outcomes) - staged} not; {report.asked} calls,"
        f" {report.malformed}"
    )
    lines[-1] += f" malformed answers, {report.spent.tokens:,} tokens{cost}"
    lines += [f"stopped: {report.stopped}"] if report.stopped else []
    return "\n".join(clean(line.replace("\n", " ")) for line in lines)
