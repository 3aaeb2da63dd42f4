"""Proposals of merges and summaries, judged by the rules that the nights' own merges keep. Pure.

Who proposes is not asked and not believed: what a proposal says is proven from the entries that it
names, or it is rejected, with the reason. What passes is an entry to be staged, never one that
takes effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from synapse.consolidate.acts import Made
from synapse.consolidate.fidelity import unfaithful
from synapse.consolidate.plan import may_merge, merged, place
from synapse.model.entry import Entry
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

KINDS = ("merge", "summary")
SUMMARY, PROPOSED = "summary", "proposed"
MOST = 12  # entries that one proposal may stand for
LONGEST = 4_000  # characters of an entry that is to go into another


class Proposal(NamedTuple):
    """What somebody proposes: one text in the place of these entries. `merge`: they say the same;
    `summary`: they belong together.
    """

    kind: str
    sources: tuple[str, ...]
    text: str

    @property
    def key(self) -> str:
        """The same for every proposal about the same entries."""
        return sha256(" ".join(sorted(self.sources)).encode())[:32]


class Verdict(NamedTuple):
    """What came of a proposal: the entry that may be staged, or why not."""

    proposal: Proposal
    made: Made | None
    reason: str


def judge(
    proposal: Proposal,
    entries: Mapping[str, Entry],
    now: int,
    spared: Collection[tuple[str, str]] = (),
) -> Verdict:
    """Whether the text may stand for its sources. `entries` are those that were offered, by id;
    `spared` what was brought back from a merge before.
    """
    reason = _unfit(proposal, entries, now, spared)
    sources = sorted(
        (entries[id] for id in proposal.sources if id in entries),
        key=lambda entry: entry.seq,
    )
    reason = reason or _unlike(sources) or _unsaid(proposal, sources)
    if reason:
        return Verdict(proposal, None, reason)
    return Verdict(
        proposal, _made(proposal, sources, now), f"a {proposal.kind} of {len(sources)}"
    )


def candidates(
    entries: Iterable[Entry], now: int, spared: Collection[tuple[str, str]] = ()
) -> list[list[Entry]]:
    """The entries that may go into one another, oldest first, in groups of those that may."""
    groups: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        if _alone(entry, now, spared) is None:
            groups.setdefault(place(entry), []).append(entry)
    sorted_groups = (
        sorted(group, key=lambda entry: entry.seq)
        for group in groups.values()
        if len(group) > 1
    )
    return sorted(sorted_groups, key=lambda group: group[0].seq)


def _unfit(
    proposal: Proposal,
    entries: Mapping[str, Entry],
    now: int,
    spared: Collection[tuple[str, str]],
) -> str | None:
    """What is wrong with what it names."""
    ids = proposal.sources
    if proposal.kind not in KINDS:
        return f"{proposal.kind!r} is neither {' nor '.join(KINDS)}"
    if not 2 <= len(ids) <= MOST or len(set(ids)) < len(ids):
        return f"it has to name 2 to {MOST} entries, each once"
    if strange := [id for id in ids if id not in entries]:
        return f"{strange[0][:80]} was not offered"
    return next(
        (reason for id in ids if (reason := _alone(entries[id], now, spared))), None
    )


def _alone(entry: Entry, now: int, spared: Collection[tuple[str, str]]) -> str | None:
    """Why an entry stays itself, whatever it says."""
    if entry.staged or entry.archived or entry.expires <= now:
        return f"{entry.id} is not live"
    if not may_merge(entry):
        return (
            f"{entry.id} is critical, under a topic, in dispute, sealed, not vouched for,"
            f" or replaces another"
        )
    if len(entry.body) > LONGEST:
        return f"{entry.id} is longer than {LONGEST:,} characters"
    return (
        f"{entry.id} was brought back from a merge"
        if (entry.id, "merge") in spared
        else None
    )


def _unlike(sources: Sequence[Entry]) -> str | None:
    """Where two of them are said in different places, to different people, or with different
    weight.
    """
    first, *later = map(place, sources)
    names = ("namespace", "scope", "addressees", "priority", "evidence", "when")
    differ = (
        name
        for compared in later
        for name, one, two in zip(names, first, compared, strict=True)
        if one != two
    )
    return next((f"its sources differ in {name}" for name in differ), None)


def _unsaid(proposal: Proposal, sources: Sequence[Entry]) -> str | None:
    texts = [entry.body for entry in sources]
    if len(proposal.text) >= sum(map(len, texts)):
        return "it is no shorter than its sources together"
    wrong = unfaithful(proposal.text, texts)
    return f"it {wrong}" if wrong else None


def _made(proposal: Proposal, sources: Sequence[Entry], now: int) -> Made:
    """The entry: it counts for no more than the least of its sources, and waits for somebody above
    them.
    """
    combined = merged(sources, now)
    tags = (SUMMARY,) if proposal.kind == "summary" else ()
    draft = combined.draft._replace(
        body=proposal.text, tags=(*combined.draft.tags, PROPOSED, *tags), timestamp=None
    )
    return combined._replace(
        draft=draft._replace(tags=tuple(dict.fromkeys(draft.tags)))
    )
