"""The figures of an audit as one page that people can pass on. Figures in, text out. Called by the
shell's `audit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from orchestrator.audit.figures import KINDS, Audit
from orchestrator.audit.paid import Paid
from orchestrator.audit.policy import Policy
from orchestrator.audit.repeats import Group
from orchestrator.reports.page import page

TITLE = "What our recorded sessions cost"
PAID = ("turns", "fresh", "read from the cache", "written to it", "output", "dollars")
ABOUT = {"project": "Projects", "agent": "Agents", "model": "Models", "day": "Days"}
GROUPS = 30  # rows of a table
NOTES = """\
<p class='soft'>Dollars are list prices. The tokens of a result are its characters divided by four,
counted at each turn that sent it. A call was made before if one asked for the same file and lines,
command, address or search: by the same conversation, by another one of its session, or in another
session within a week. Nothing was sent anywhere to make this page.</p>"""


def html(audit: Audit) -> str:
    """Return the page."""
    return page(TITLE, "\n".join((*_top(audit), *_tables(audit), NOTES)))


def _top(audit: Audit) -> Iterator[str]:
    yield f"<header><h1>{TITLE}</h1><p class='lede'>{escape(audit.sentence())}</p>"
    tiles = "".join(
        f"<li><b>{value}</b><span>{label}</span></li>" for value, label in _tiles(audit)
    )
    yield f"<ul class='tiles'>{tiles}</ul></header>"


def _tiles(audit: Audit) -> Iterator[tuple[str, str]]:
    paid, unused = audit.paid, audit.unused
    yield f"${paid.usd:,.2f}", f"{paid.tokens:,} tokens in {paid.turns:,} turns"
    yield f"{audit.share(audit.twice):.1%}", "for results that were there before, unchanged"
    yield f"{audit.share(audit.again.own):.1%}", "for files that their reader had read before"
    if audit.agents:
        yield f"{audit.share(audit.again.sibling):.1%}", "for files that a sibling had read"
        yield f"{unused.unused} of {unused.judged}", "results of sub-agents used nowhere"
    yield f"{audit.stale.made:,}", "edits of a file that another session had changed"
    if (policy := audit.policy) is not None and policy.paid:
        yield f"{policy.net.value:+.1%}", "of the tokens, net, with our plugin"


def _policy(policy: Policy) -> Iterator[str]:
    """Yield what our plugin would have told these sessions."""
    yield f"<h2>What our plugin would have told</h2><p>{escape(policy.sentence())}</p>"
    rows = [
        (name, f"{number:,}")
        for name, number in (
            ("sessions, the newest", policy.sessions),
            ("calls", policy.calls),
            ("notices of files and results that are right", policy.right),
            ("wrong", policy.wrong),
            ("missed", policy.missed),
            ("needed: the file was then read or edited", policy.needed),
            ("not needed", policy.unneeded),
            ("tokens that were paid", policy.paid),
            ("tokens that the plugin would have told, at each turn that sent them", policy.added),
            ("tokens that it would have spared", policy.spared),
        )
    ]
    yield _table(("", "number"), rows, 1)


def _tables(audit: Audit) -> Iterator[str]:
    if audit.policy is not None and audit.policy.paid:
        yield from _policy(audit.policy)
    yield "<h2>What was made before</h2>"
    rows = [
        (f"{KINDS[row.kind]}, by {row.who}", "same" if row.same else "changed", *_sum(row.all),
         f"{row.edited.calls:,}")
        for row in audit.repeats
    ]  # fmt: skip
    yield _table(("call", "result", "calls", "tokens", "dollars", "then edited"), rows, 2)
    yield "<h2>The dearest calls that gave nothing new</h2>"
    top = [(call.label, KINDS[call.kind], *_sum(call.sum)) for call in audit.top]
    yield _table(("call", "kind", "calls", "tokens", "dollars"), top, 2)
    for name, title in ABOUT.items():
        yield f"<h2>{title}</h2>"
        yield _table((name, *PAID), _paid(audit.by[name], name == "day"), 1)


def _paid(groups: Mapping[str, Paid], newest: bool) -> list[tuple[str, ...]]:
    """Return the rows of what was paid; of days the newest."""
    items = [*groups.items()]
    chosen = items[-GROUPS:] if newest else items[:GROUPS]
    return [
        (name, *(f"{count:,}" for count in paid[:5]), f"{paid.usd:,.2f}") for name, paid in chosen
    ]


def _sum(group: Group) -> tuple[str, str, str]:
    return f"{group.calls:,}", f"{group.tokens:,}", f"{group.usd:,.2f}"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table; the first columns are texts, the others numbers."""
    if not rows:
        return "<p>None.</p>"
    right = " style='text-align: right'"
    head = "".join(f"<th{right * (n >= texts)}>{name}</th>" for n, name in enumerate(headers))
    body = "".join(
        f"<tr><th scope='row'>{escape(row[0])}</th>"
        + "".join(f"<td{right * (n >= texts)}>{cell}</td>" for n, cell in enumerate(row[1:], 1))
        + "</tr>\n"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"
