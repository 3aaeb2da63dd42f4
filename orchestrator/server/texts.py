"""Figures of runs as pages show them: money, tokens, times, shares. Called by the templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.reports.rows import ENDED_WELL, RunRow

SECOND = 1_000_000
SPACE = "\N{NARROW NO-BREAK SPACE}"  # as in the numbers of other pages


def money(cost: float | None) -> str:
    """Return dollars; a dash where the price is not known."""
    if cost is None:
        return "–"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def count(tokens: float, estimated: bool = False) -> str:
    """Return a number of tokens in few characters; with `~` where some of it is an estimate."""
    sign = "~" if estimated else ""
    if tokens < 10_000:
        return f"{sign}{tokens:,.0f}".replace(",", SPACE)
    if tokens < 1_000_000:
        return f"{sign}{tokens / 1_000:,.0f}k"
    return f"{sign}{tokens / 1_000_000:,.1f}M"


def took(micros: float) -> str:
    """Return a length of time in at most two units."""
    seconds = max(micros, 0) / SECOND
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remaining:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d"


def called(row: RunRow) -> str:
    """Return what a run is called where it stands alone: who works, at what."""
    return f"{row.fields['agent']}: {row.fields.get('task') or row.id}"


def outcome(row: RunRow) -> str:
    """Return what a run came to, or else what it is to do."""
    names = ["why", "summary", "task"]
    if row.state in ENDED_WELL:
        names = ["summary", "why", "task"]
    return next((str(row.fields[name]) for name in names if row.fields.get(name)), "")


def share(part: float | None) -> str:
    return "–" if part is None else f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"


WAITS = ("blocked", "waiting", "orphaned", "closed")


def state_class(state: str) -> str:
    """Return the class of the pill of a state."""
    if state == "running":
        return "going"
    if state == "done":
        return "well"
    if state in ENDED_WELL:
        return ""
    return "wait" if state in WAITS else "critical"


FILTERS: dict[str, Callable[..., Any]] = {
    "called": called,
    "outcome": outcome,
    "money": money,
    "count": count,
    "took": took,
    "share": share,
    "state_class": state_class,
}
