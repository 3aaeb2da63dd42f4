"""Notices to the sessions of coding clients, kind by kind: how many there were, what they took, and
what they may have spared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from orchestrator.reports.rows import Fields


class Notices(NamedTuple):
    """Those of one kind. `tokens` is what they took, about; of files that a conversation was told
    it need not read again, `named` has their tokens, and `again` those that it read all the same.
    """

    kind: str
    times: int
    tokens: int
    named: int
    again: int


def notices(runs: Iterable[Fields]) -> list[Notices]:
    """Return what these sessions were told, those of them that have ended."""
    sums = dict[str, Notices]()
    for run in runs:
        for kind, counts in (run.get("notices") or {}).items():
            _, *before = sums.get(kind, Notices(kind, 0, 0, 0, 0))
            sums[kind] = Notices(kind, *(a + int(b) for a, b in zip(before, counts, strict=True)))
    return [sums[kind] for kind in sorted(sums)]
