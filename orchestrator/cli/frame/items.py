"""What waits for a person, as lines. Called by `inbox` and `ps`."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cli.frame.figures import format_duration, format_money
from orchestrator.waiting.inbox import Item
from synapse.cli.frame.show import clean, columns, first, short

INDENT = "    "


def format_items(items: Sequence[Item], now: int, most: int | None = None) -> str:
    """Return two lines for each: what waits, since when and what it cost so far; and what to
    type."""
    lines, width = [], columns() or 0
    for item in items[:most]:
        age = format_duration(max(now - item.at, 0))
        cost = f", {format_money(item.cost)} so far" if item.cost is not None else ""
        about = item.entry or item.run
        name = f" {about}" if about else ""
        head = f"{item.kind}{name}, {age}{cost}: {item.who}: {first(item.text)}"
        lines += [short(head, width), f"{INDENT}{clean(item.line)}"]
    if most is not None and len(items) > most:
        lines.append(f"and {len(items) - most} more: `orchestrator inbox`")
    return "\n".join(lines)
