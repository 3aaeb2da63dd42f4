"""The cards that runs have on the overview: who works, what was spent today, what waits for a
person.
"""

from __future__ import annotations

import os

from fastapi import Request
from markupsafe import Markup

from orchestrator.reports.limits import limited
from orchestrator.reports.rows import Source, find_runs, run_rows
from orchestrator.reports.sums import spared, sums_of
from orchestrator.spend.limits import day_of, policy, span_of
from orchestrator.waiting.inbox import inbox
from synapse.server.callers import gate_of
from synapse.server.pages.frame import frame_of, visitor_of

MOST = 8


def _source(request: Request) -> Source | None:
    """Return the workspace where the operator looks; for nobody else there are cards of runs."""
    visitor = visitor_of(request)
    if visitor is None or not visitor.operator:
        return None
    store = gate_of(request).memory.store
    return Source(store, store.root or os.getcwd())


def working(request: Request) -> Markup | None:
    """Return who works now, and on what."""
    if (source := _source(request)) is None:
        return None
    rows = run_rows(source, find_runs(source, state="running"))
    ran = bool(rows) or bool(find_runs(source, limit=1))
    return frame_of(request).markup(
        "runs/card_working.html", rows=rows[:MOST], more=len(rows) - MOST, ran=ran
    )


def spending(request: Request) -> Markup | None:
    """Return what today cost beside its limits, the share that memory had in it, and what memory
    spared.
    """
    if (source := _source(request)) is None:
        return None
    spend, today = limited(source), _today(source)
    rules = spend.day.limits
    rows = run_rows(source, find_runs(source, since=today))
    most = max((row.fields for row in rows), key=lambda run: spared(source, run), default=None)
    return frame_of(request).markup(
        "runs/card_spending.html",
        day=spend.day,
        live=spend.workspace.live,
        bounds=[
            (name, spent, bound)
            for name, spent, bound in (
                ("usd", spend.day.spent.usd, rules.usd),
                ("tokens", spend.day.spent.tokens, rules.tokens),
                ("turns", spend.day.spent.turns, rules.turns),
            )
            if bound
        ],
        total=sums_of(source, "agent", today, rows).all,
        most=most,
        date=spend.day.scope.partition(":")[2],
    )


def _today(source: Source) -> int:
    """Return when the day of the workspace began."""
    zone = policy(dict(source.store.settings.other)).zone
    return span_of(day_of(source.now(), zone), zone)[0]


def waiting(request: Request) -> Markup | None:
    """Return what waits for a person, the longest first."""
    if (source := _source(request)) is None:
        return None
    items = inbox(source)
    return frame_of(request).markup(
        "runs/card_waiting.html", found=items[:MOST], more=len(items) - MOST
    )
