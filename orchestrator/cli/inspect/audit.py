"""`orchestrator audit`: sum up what recorded sessions cost, and what was done twice in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from orchestrator.cli.frame.figures import format_count, format_duration, format_money
from orchestrator.cli.frame.grid import grid
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number
from synapse.cli.frame.show import WIDTH, clean
from synapse.errors import NotFound, SynapseError

if TYPE_CHECKING:
    from orchestrator.audit.figures import Audit
    from orchestrator.audit.paid import Paid
    from orchestrator.audit.policy import Policy
    from orchestrator.audit.repeats import Group
    from orchestrator.audit.sources import File

RECENT = "30d"  # what is read where no path is named
PAID = ("turns", "fresh", "cached", "written", "output", "cost")
TWICE = ("calls", "tokens", "cost", "then edited")
SHOWN = 3  # projects, agents and repeats that are listed
MEGABYTE = 1_000_000
REPLAYED = 24  # megabytes of the newest sessions, about 1,700 calls


def audit_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="transcripts, or folders of them (default: where clients on this machine keep them)",
    )
    add(
        "--since",
        metavar="WHEN",
        help=f"24h, last tuesday, 2026-02-01 (default: {RECENT}; of paths that you name all)",
    )
    add(
        "--replay",
        default=REPLAYED,
        type=number,
        metavar="MB",
        help="how many megabytes of the newest sessions are given to our plugin's hooks, to see"
        f" what they would have told (default: {REPLAYED})",
    )
    add("--html", metavar="FILE", help="write one page that holds all of it, and can be passed on")


def audit(call: Call) -> None:
    result = _sum_up(call)
    if call.args.html:
        from orchestrator.audit.page import html

        with open(call.args.html, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(html(result))
    call.show(result.json, lambda: clean("\n".join(_lines(result))))


def _sum_up(call: Call) -> Audit:
    """Return the figures; the newest sessions are replayed meanwhile."""
    from orchestrator.audit import policy
    from orchestrator.audit.figures import audit

    files, since = _files(call)
    show = _Bar().show
    if not call.args.replay:
        return audit(files, since, show)
    with policy.playing(policy.choose(files, call.args.replay * MEGABYTE), since) as answer:
        return _with_policy(call, audit(files, since, show), answer)


def _with_policy(call: Call, result: Audit, answer: Callable[[], Policy]) -> Audit:
    """Return the figures with what our plugin would have told; it is no reason to lose the others
    that a session cannot be replayed.
    """
    try:
        return result._replace(policy=answer())
    except SynapseError as problem:
        call.note(str(problem))
        return result


def _files(call: Call) -> tuple[list[File], int]:
    """Return the files to read, and since when."""
    import time

    from orchestrator.audit import sources
    from synapse.model.dates import since as parse_since

    paths = [os.path.expanduser(path) for path in call.args.paths]
    begin = call.args.since or (None if paths else RECENT)
    since = parse_since(begin, time.time_ns() // 1_000) or 0
    paths = paths or sources.default_paths(os.environ, os.path.expanduser("~"))
    if not paths:
        raise NotFound("no client has sessions in your home folder: name where they lie")
    return sources.find(paths, since), since


class _Bar:
    """Shows how much is read, where standard error is a terminal."""

    def __init__(self) -> None:
        self.shown = -1
        self.out = sys.stderr if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else None

    def show(self, read: int, of: int) -> None:
        percent = 100 * read // of if of else 100
        if self.out is None or percent == self.shown:
            return
        self.shown = percent
        text = f"{percent} % of {of / MEGABYTE:,.0f} MB" if percent < 100 else ""
        self.out.write(f"\r\x1b[K{text}")
        self.out.flush()


def _lines(result: Audit) -> Iterator[str]:
    import textwrap

    from orchestrator.audit.figures import KINDS

    yield from textwrap.wrap(result.sentence(), WIDTH)
    if not result.paid.turns:
        return
    if result.policy is not None:
        yield from textwrap.wrap(result.policy.sentence(), WIDTH)
    yield ""
    rows = [_paid_row("all", result.paid)]
    for by in ("project", "agent"):
        groups = [*result.by[by].items()]
        if len(groups) > 1:
            rows += [_paid_row(name, paid) for name, paid in groups[:SHOWN]]
    yield grid(("paid", *PAID), rows, PAID)
    yield ""
    if result.repeats:
        twice = [
            [
                f"{KINDS[row.kind]}, by {row.who}",
                "same" if row.same else "changed",
                *_group_cells(row.all),
                format_count(row.edited.calls),
            ]
            for row in result.repeats[: 2 * SHOWN]
        ]
        yield grid(("made before", "result", *TWICE), twice, TWICE)
        yield ""
    yield from _remarks(result)


def _remarks(result: Audit) -> Iterator[str]:
    """Yield the other figures, a line each."""
    (reads, own, sibling), stale = result.again, result.stale
    unused, waits = result.unused, result.waits
    if reads:
        share = f"{result.share(own):.1%}"
        yield (
            f"{own.calls:,} of {reads:,} reads: of a file that the reader had read"
            f" ({share} of the bill)"
        )
    if sibling.calls:
        share = f"{result.share(sibling):.1%}"
        yield f"{sibling.calls:,} reads: of a file that a sibling had read ({share})"
    if stale.made or stale.refused:
        yield (
            f"{stale.made:,} of {stale.edits:,} edits: of a file that another session had changed;"
            f" {stale.refused:,} refused"
        )
    if unused.judged:
        cost = format_money(unused.paid.usd)
        yield f"{unused.unused:,} of {unused.judged:,} results of sub-agents: used nowhere ({cost})"
    if waits.blockers or waits.questions:
        yield (
            f"{waits.blockers:,} blockers, {waits.questions:,} questions: waited"
            f" {format_duration(waits.middle)} in the middle,"
            f" {format_duration(waits.longest)} at most; {waits.unanswered:,} open"
        )
    if (policy := result.policy) is not None:
        yield (
            f"{policy.right:,} of the plugin's notices right, {policy.wrong:,} wrong,"
            f" {policy.missed:,} missed; {policy.needed:,} needed, {policy.unneeded:,} not"
        )
    yield from _unread(result)
    yield "Tokens of a result: its characters ÷ 4, at each turn that sent it."


def _unread(result: Audit) -> Iterator[str]:
    """Yield what could not be read or has no price."""
    if result.paid.unpriced:
        tokens = format_count(result.paid.unpriced)
        yield f"{tokens} tokens are of models without a known price."
    broken = {name: result.read.get(name, 0) for name in ("lines broken", "files unread")}
    if any(broken.values()):
        yield f"Left out: {', '.join(f'{count:,} {name}' for name, count in broken.items())}."


def _paid_row(name: str, paid: Paid) -> list[str]:
    counts = (paid.turns, paid.fresh, paid.cached, paid.written, paid.output)
    return [name[:20], *map(format_count, counts), format_money(paid.usd)]


def _group_cells(group: Group) -> list[str]:
    return [format_count(group.calls), format_count(group.tokens), format_money(group.usd)]
