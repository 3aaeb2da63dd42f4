"""Notices to the sessions of coding clients, kind by kind: how many there were, what they took, and
what they may have spared.
"""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.reports.rows import Source, find_runs


class Notices(NamedTuple):
    """Those of one kind. `tokens` is what they took, about; of files that a conversation was told
    it need not read again, `named` has their tokens, and `again` those that it read all the same.
    """

    kind: str
    times: int
    tokens: int
    named: int
    again: int


def notices(source: Source, since: int = 0) -> list[Notices]:
    """Return what the sessions were told that began since then and have ended."""
    sums = dict[str, Notices]()
    for run in find_runs(source):
        counts_by_kind = run.get("notices") if run["at"] >= since else None
        for kind, counts in (counts_by_kind or {}).items():
            _, *before = sums.get(kind, Notices(kind, 0, 0, 0, 0))
            sums[kind] = Notices(kind, *(a + int(b) for a, b in zip(before, counts, strict=True)))
    return [sums[kind] for kind in sorted(sums)]
