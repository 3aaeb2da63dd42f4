"""`orchestrator stats`: sum up what the runs of a department, an agent, a project took."""

from __future__ import annotations

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.figures import format_count, format_money, mark_estimate
from orchestrator.cli.frame.grid import grid
from orchestrator.reports.notices import Notices
from orchestrator.reports.sums import BY, Sum, Sums, sums
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options

HEADERS = ("runs", "done", "blocked", "failed", "running", "blockers", "tokens", "cost", "overhead")
NOTICES = ("times", "tokens", "named", "read again")
TOLD = """\
what sessions of coding clients were told, in tokens, about; of files that they
need not read again: those that were named, and those read all the same.
"""
UNANSWERED = """\
Their process was killed, or the answer broke off. The estimate is what was
asked; a provider may have billed what it was writing, too.
"""
OVERHEAD = """\
overhead: tokens that memory took (views, tool schemas, recalls, wakes, entries
written back, what the system text says of it) as a share of the tokens of the
work. Short runs pass 100 %: what is critical is shown whatever the task takes.
Views that are sized by themselves (auto) hold what is expected to save more
than it takes, whatever its share.
"""


def stats_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--by",
        default="department",
        choices=BY,
        metavar="WHAT",
        help=f"{', '.join(BY)} (default: department)",
    )
    add("--since", metavar="WHEN", help="24h, yesterday, last tuesday, 2026-02-01 (default: all)")


def stats(call: Call) -> None:
    from synapse.model.dates import since as parse_since

    since = parse_since(call.args.since, call.memory.store.clock()) or 0
    result = sums(source_of(call), call.args.by, since)
    call.show(result._asdict, lambda: _format_stats(result) + _format_notices(result.notices))


def _format_stats(result: Sums) -> str:
    by, sums, total, _ = result
    if not sums:
        return "no runs"
    rows = [_row(group) for group in (*sums, *([total] if len(sums) > 1 else []))]
    about_overhead = f"\n{OVERHEAD}" if any(group.overhead is not None for group in sums) else ""
    note = "\n~: some of it was not reported, or could not be counted" if total.estimated else ""
    return grid((by, *HEADERS), rows, HEADERS) + about_overhead + note + _format_unanswered(total)


def _format_unanswered(total: Sum) -> str:
    calls, tokens, cost = total.unanswered
    if not calls:
        return ""
    count = "1 call was" if calls == 1 else f"{calls} calls were"
    what = f"~{format_count(tokens)} tokens" + (f", {format_money(cost)}" if cost else "")
    return f"\n\n{count} sent and never answered: {what} of the above, by estimate\n{UNANSWERED}"


def _format_notices(notices: list[Notices]) -> str:
    if not notices:
        return ""
    rows = [[kind, *map(format_count, counts)] for kind, *counts in notices]
    return f"\n\n{grid(('told', *NOTICES), rows, NOTICES)}\n{TOLD}"


def _row(group: Sum) -> list[str]:
    counts = (group.runs, group.done, group.blocked, group.failed, group.running)
    blockers = "-" if group.blockers is None else str(group.blockers)
    tokens = mark_estimate(format_count(group.tokens), group.estimated)
    overhead = (
        "-" if group.overhead is None else mark_estimate(f"{group.overhead:.1%}", group.estimated)
    )
    return [group.name, *map(str, counts), blockers, tokens, format_money(group.cost), overhead]
