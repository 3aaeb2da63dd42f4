"""The oracle of who wins among entries: `judge` folded over all of them, with plain sets.

The index keeps the same answer in tables, step by step. Tests compare the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from synapse.authority import Effect, covers, judge
from synapse.model.entry import NEVER, Entry


class Outcome(NamedTuple):
    """Until when each entry is hidden from the operator, who sees all that may take its place, and
    which entries are in open dispute with which others.
    """

    hidden: dict[int, int]
    disputed: dict[int, frozenset[int]]


def resolve(entries: Collection[Entry]) -> Outcome:
    """Return who wins among these entries.

    The answer depends on the set alone, not on the order it is given in. Only an earlier entry can
    be superseded, so there are no cycles. Equals of different authors stay visible, in dispute.
    """
    ended: set[int] = set()  # for all who may see them
    gone: set[int] = set()
    by_seq = {entry.seq: entry for entry in entries}
    effects: dict[int, list[Effect]] = defaultdict(list)
    disputes: dict[int, set[int]] = defaultdict(set)
    by_id: dict[str, Entry] = {}
    successors: dict[int, set[Entry]] = defaultdict(set)
    topics: dict[tuple[str, str], set[Entry]] = defaultdict(set)
    for new in sorted(entries, key=lambda entry: entry.seq):
        olds = [by_id[id] for id in new.replaces if id in by_id]
        groups = [successors[old.seq] for old in olds]
        if new.topic:
            groups.append(topics[new.namespace, new.topic])
        rivals = sorted({rival for group in groups for rival in group if rival.seq not in ended})
        live_olds = [old for old in olds if old.seq not in ended]
        in_dispute = _known_disputes(disputes, by_seq)
        for effect in judge(new, live_olds, rivals, in_dispute):
            if effect.until:
                effects[effect.seq].append(effect)
            else:
                disputes[effect.seq].add(effect.by)
            if effect.until == NEVER:
                gone.add(effect.seq)
                whole = covers(by_seq[effect.by], by_seq[effect.seq])
                ended |= {effect.seq} if whole else set()
        for seq in [seq for seq in disputes if seq in ended]:
            for peer in disputes.pop(seq):
                disputes[peer].discard(seq)
        for group in groups:
            group.add(new)
        by_id.update({id: new for id in (new.id, new.alias) if id})
    live = {entry.seq for entry in entries if not entry.archived} - gone
    hidden: dict[int, int] = {}
    for seq, own in effects.items():
        hidden[seq] = max((e.until for e in own if e.until == NEVER or e.by in live), default=0)
    open_disputes = {seq: frozenset(peers - gone) for seq, peers in disputes.items()}
    return Outcome(
        {seq: until for seq, until in hidden.items() if until},
        {seq: peers for seq, peers in open_disputes.items() if peers and seq not in gone},
    )


def _known_disputes(disputes: dict[int, set[int]], by_seq: dict[int, Entry]) -> set[int]:
    """Return which entries are in a dispute that all of their readers see."""
    return {
        seq
        for seq, peers in disputes.items()
        if any(covers(by_seq[peer], by_seq[seq]) for peer in peers)
    }
