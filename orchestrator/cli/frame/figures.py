"""Figures as people read them: money, tokens, shares, durations. Pure. Called by the verbs."""

from __future__ import annotations

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files.ledger import Overhead


def format_money(cost: float | None) -> str:
    if cost is None:
        return "-"
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def format_tokens(usage: Usage) -> str:
    """Return the count of all tokens; with `~` where some of it is our own count."""
    return mark_estimate(format_count(usage.input_tokens + usage.output_tokens), usage.estimated)


def mark_estimate(figure: str, estimated: bool) -> str:
    return f"~{figure}" if estimated else figure


def format_memory(overhead: Overhead) -> str:
    """Return what memory took of a run, in tokens and as a share of those of its work."""
    is_estimate = overhead.counting != "exact"
    tokens = mark_estimate(format_count(overhead.coordination), is_estimate)
    work = mark_estimate(format_count(overhead.work), is_estimate)
    share = f"{overhead.billed:.1%} of" if overhead.work else "beside"
    return f"memory took {tokens}, {share} the {work} of its work"


def format_count(count: int) -> str:
    """Return a number with separators; from a million on as 1.2M."""
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def format_duration(micros: int) -> str:
    seconds = max(micros, 0) / 1_000_000
    if seconds < 1:
        return f"{seconds * 1_000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds_left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{seconds_left:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 48 else f"{hours // 24}d"
