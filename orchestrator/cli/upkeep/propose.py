"""`orchestrator propose`: have an engine propose merges and summaries now; the valid ones wait for
approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import decimal
from synapse.cli.frame.parse import number as whole
from synapse.cli.frame.show import clean
from synapse.errors import Conflict
from synapse.model import clock

if TYPE_CHECKING:
    from orchestrator.nightly.semantic.consolidation import Report, Wanted

NOT_DONE = 9


def propose_options(parser: Options) -> None:
    add = parser.add_argument
    add("--plan", action="store_true", help="only say how much an engine would be asked; call none")
    add(
        "--engine",
        metavar="NAME",
        help="which engine (default: as synapse.yaml says under consolidation)",
    )
    add("--model", metavar="NAME", help="which model (default: the engine's own)")
    add("--max-tokens", type=whole, metavar="N", help="tokens at most, in all calls of the day")
    add("--max-usd", type=decimal, metavar="N", help="dollars at most, in all calls of the day")


def propose(call: Call) -> int:
    from orchestrator.nightly.semantic.consolidation import consolidate, portions

    store = call.memory.store
    if call.args.plan:
        groups, _ = portions(store)
        fields = {
            "calls": len(groups),
            "entries": [[entry.id for entry in portion] for portion in groups],
        }
        call.show(fields, f"{sum(map(len, groups))} entries in {len(groups)} calls")
        return 0
    options = _options(call)
    if options is None:
        raise Usage(
            "no engine is named to propose: give --engine NAME, such as anthropic, or write"
            " `consolidation: {semantic: {engine: NAME}}` in synapse.yaml"
        )
    report = consolidate(call.memory, clock.day(store.clock()), options, by_hand=True)
    if not report.ran:
        raise Conflict("another process is proposing just now; try again later")
    call.show(lambda: report, lambda: _format_report(report))
    return NOT_DONE if report.stopped else 0


def _options(call: Call) -> Wanted | None:
    """Return what the settings say, with what the command line says in its place."""
    from orchestrator.nightly.semantic.consolidation import Wanted, wanted

    args, declared = call.args, wanted(call.memory.store.settings)
    if not args.engine and declared is None:
        return None
    base = declared if declared and not args.engine else Wanted(args.engine)
    overrides = {"model": args.model, "max_tokens": args.max_tokens, "max_usd": args.max_usd}
    return base._replace(**{name: value for name, value in overrides.items() if value is not None})


def _format_report(report: Report) -> str:
    lines = []
    for outcome in report.outcomes:
        of = ", ".join(outcome.proposal.sources)
        lines.append(
            f"{outcome.state} {outcome.id or outcome.proposal.kind} of {of}: {outcome.reason}"
        )
    cost = "" if report.spent.cost is None else f", ${report.spent.cost:.4f}"
    staged = sum(outcome.state == "staged" for outcome in report.outcomes)
    lines.append(
        f"{staged} staged, {len(report.outcomes) - staged} not; {report.asked} calls,"
        f" {report.malformed}"
    )
    lines[-1] += f" malformed answers, {report.spent.tokens:,} tokens{cost}"
    lines += [f"stopped: {report.stopped}"] if report.stopped else []
    return "\n".join(clean(line.replace("\n", " ")) for line in lines)
