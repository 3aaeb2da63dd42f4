"""The answer of a tool: as many blocks of text as fit into a capsule, and what was left out.

Pure: counts bytes and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

CAPSULE = 2_048  # bytes


def fit(blocks: Sequence[str], total: int, advice: str) -> str:
    """Return as many blocks as there is room for, in their order; the last line says what is
    missing.
    """
    return fill(blocks, total, advice)[0]


def fill(blocks: Sequence[str], total: int, advice: str) -> tuple[str, int]:
    """Return the same, and how many blocks are there."""

    def foot(count: int) -> str:
        return f"({count} of {total} shown; {advice})\n" if count < total else ""

    count, size = 0, 0
    for text in blocks:
        if size + len(text.encode()) + len(foot(count + 1).encode()) > CAPSULE:
            break
        size, count = size + len(text.encode()), count + 1
    return "".join(blocks[:count]) + foot(count), count


def cut(text: str) -> str:
    """Return a text shortened to what one answer may hold."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= CAPSULE else raw[: CAPSULE - 4].decode("utf-8", "ignore") + "…"
