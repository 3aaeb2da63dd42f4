"""Proposals of merges and summaries, judged by the same rules as the nightly run's own merges.
Pure.

Who proposes does not matter: the text is proven from the entries that the proposal names, or it is
rejected, with the reason. What passes is staged, and takes effect only when it is approved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from synapse.consolidate.acts import NewEntry
from synapse.consolidate.fidelity import unfaithful
from synapse.consolidate.plan import MERGE_KEY, may_merge, merge_key, merged
from synapse.model.entry import Entry
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

KINDS = ("merge", "summary")
SUMMARY, PROPOSED = "summary", "proposed"
MOST = 12  # entries that one proposal may stand for
LONGEST = 4_000  # characters of an entry that is to go into another


class Proposal(NamedTuple):
    """One text in the place of several entries. `merge`: they say the same; `summary`: they belong
    together."""

    kind: str
    sources: tuple[str, ...]
    text: str

    @property
    def key(self) -> str:
        """Return a key that is the same for every proposal about the same entries."""
        return sha256(" ".join(sorted(self.sources)).encode())[:32]


class Verdict(NamedTuple):
    """The verdict on a proposal: the entry that may be staged, or why not."""

    proposal: Proposal
    new_entry: NewEntry | None
    reason: str


def judge(
    proposal: Proposal,
    entries: Mapping[str, Entry],
    now: int,
    spared: Collection[tuple[str, str]] = (),
) -> Verdict:
    """Return whether the text may stand for its sources. `entries` are those that were offered, by
    id; `spared` those brought back from a merge before."""
    reason = _unfit(proposal, entries, now, spared)
    sources = sorted(
        (entries[id] for id in proposal.sources if id in entries), key=lambda entry: entry.seq
    )
    reason = reason or _difference(sources) or _unproven(proposal, sources)
    if reason:
        return Verdict(proposal, None, reason)
    return Verdict(
        proposal, _new_entry(proposal, sources, now), f"a {proposal.kind} of {len(sources)}"
    )


def candidates(
    entries: Iterable[Entry], now: int, spared: Collection[tuple[str, str]] = ()
) -> list[list[Entry]]:
    """Return the entries that may be merged, oldest first, in groups that may be merged with each
    other."""
    groups: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        if _why_not_merged(entry, now, spared) is None:
            groups.setdefault(merge_key(entry), []).append(entry)
    sorted_groups = (
        sorted(group, key=lambda entry: entry.seq) for group in groups.values() if len(group) > 1
    )
    return sorted(sorted_groups, key=lambda group: group[0].seq)


def _unfit(
    proposal: Proposal, entries: Mapping[str, Entry], now: int, spared: Collection[tuple[str, str]]
) -> str | None:
    """Return what is wrong with the entries that the proposal names; None where nothing is."""
    ids = proposal.sources
    if proposal.kind not in KINDS:
        return f"{proposal.kind!r} is neither {' nor '.join(KINDS)}"
    if not 2 <= len(ids) <= MOST or len(set(ids)) < len(ids):
        return f"it has to name 2 to {MOST} entries, each once"
    if strange := [id for id in ids if id not in entries]:
        return f"{strange[0][:80]} was not offered"
    return next(
        (reason for id in ids if (reason := _why_not_merged(entries[id], now, spared))), None
    )


def _why_not_merged(entry: Entry, now: int, spared: Collection[tuple[str, str]]) -> str | None:
    """Return why an entry may not be merged, whatever it says; None where it may."""
    if entry.staged or entry.archived or entry.expires <= now:
        return f"{entry.id} is not live"
    if not may_merge(entry):
        return (
            f"{entry.id} is critical, under a topic, in dispute, sealed, not vouched for,"
            f" or replaces another"
        )
    if len(entry.body) > LONGEST:
        return f"{entry.id} is longer than {LONGEST:,} characters"
    return f"{entry.id} was brought back from a merge" if (entry.id, "merge") in spared else None


def _difference(sources: Sequence[Entry]) -> str | None:
    """Return where two of the sources differ in place, audience or weight; None where they do
    not."""
    first, *later = map(merge_key, sources)
    differ = (
        name
        for compared in later
        for name, one, two in zip(MERGE_KEY, first, compared, strict=True)
        if one != two
    )
    return next((f"its sources differ in {name}" for name in differ), None)


def _unproven(proposal: Proposal, sources: Sequence[Entry]) -> str | None:
    texts = [entry.body for entry in sources]
    if len(proposal.text) >= sum(map(len, texts)):
        return "it is no shorter than its sources together"
    wrong = unfaithful(proposal.text, texts)
    return f"it {wrong}" if wrong else None


def _new_entry(proposal: Proposal, sources: Sequence[Entry], now: int) -> NewEntry:
    """Return the entry to stage. It counts for no more than the least of its sources."""
    combined = merged(sources, now)
    tags = (SUMMARY,) if proposal.kind == "summary" else ()
    draft = combined.draft._replace(
        body=proposal.text, tags=(*combined.draft.tags, PROPOSED, *tags), timestamp=None
    )
    return combined._replace(draft=draft._replace(tags=tuple(dict.fromkeys(draft.tags))))
