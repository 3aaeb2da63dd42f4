"""What the words of a task find: for each of its clauses, the entries that hold most of it.

Each clause is looked up alone, among all live entries that the reader may see: first all of its
words together, then fewer of them. Of entries that state the same, one is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations

from synapse.authority import visible
from synapse.index.full_text import terms
from synapse.index.full_text.ranking import rarity
from synapse.index.full_text.search import counted, together
from synapse.index.snapshot import Snapshot
from synapse.model.agents import Agent
from synapse.model.condense import specifics
from synapse.model.entry import Entry
from synapse.system.typed import NamedTuple
from synapse.view.relevance import SPECIFIC, clauses, forms, is_specific

_ID = re.compile(r"\bsyn-[0-9a-z][0-9a-z-]*[0-9a-z]\b")
IDS = 24  # entries that a text names, that are looked up
KEPT = 3  # entries of a clause
FEW = 12  # entries with the same words: where there are more, the words do not say which is meant
LEAST = 0.5  # of a clause's weight, that an entry has to hold
# of an entry's words, that the task must not have, where it has no name or figure of its own
NEW = 0.5
WORDS = 12  # of a clause
RARE = 4  # of its words, the pairs of which are looked up
LOOKUPS = 160  # of one text, after which only whole clauses are looked up
UNKNOWN = 2.0  # what a word weighs that no entry holds


Row = tuple[int, int, int]


class Match(NamedTuple):
    """An entry that a clause found, the share of the clause's weight that it holds, and whether it
    is the best of a clause."""

    entry: Entry
    share: float
    best: bool


def matches(snap: Snapshot, agent: Agent | None, text: str, now: int) -> list[Match]:
    """Return the entries that the clauses of a text find, each once. It takes a snapshot with
    words.
    """
    lookups = _Asked(snap, agent, now)
    chosen: dict[int, Match] = {}
    own_forms = forms(text)
    for entry in _named(snap, agent, text, now):
        chosen[entry.seq] = Match(entry, 1.0, True)
    for clause in clauses(text):
        for match in lookups.clause(clause):
            if not _tells_more(match.entry, text, own_forms):
                continue
            current = chosen.get(match.entry.seq)
            if current is None or (match.best, match.share) > (
                current.best,
                current.share,
            ):
                chosen[match.entry.seq] = match
    return [chosen[seq] for seq in sorted(chosen)]


def _named(snap: Snapshot, agent: Agent | None, text: str, now: int) -> Iterator[Entry]:
    """Yield the live entries whose ids stand in a text, as far as its reader may see them."""
    for id in list(dict.fromkeys(_ID.findall(text)))[:IDS]:
        entry = snap.entry(id, now, agent)
        if entry is None or entry.seq > snap.cursor or not visible(entry, agent):
            continue
        if snap.fate(entry, now) is None:
            yield entry


class _Asked:
    """One text's lookups for one reader."""

    def __init__(self, snap: Snapshot, agent: Agent | None, now: int) -> None:
        self.snap, self.reach = snap, snap.names.reach(agent)
        self.now, self.cursor, self.left = now, snap.cursor, LOOKUPS
        self.counts: dict[str, int] = {}

    def clause(self, clause: str) -> list[Match]:
        """Return the best entries for one clause; none where too many hold as much of it."""
        terms_of_clause = terms.sought(clause)[:WORDS]
        rows = self._rows(terms_of_clause)
        share = 1.0
        if not rows and len(terms_of_clause) > 1 and self.left > 0:
            share, rows = self._parts(terms_of_clause)
        if not 0 < len(rows) <= FEW:
            return []
        entries = self.snap.load(rows, self.now, self.reach)
        entries.sort(key=lambda entry: (-entry.authority, -entry.seq))
        best = _on_topic(_distinct(entries, clause), forms(clause))[:KEPT]
        return [Match(entry, share, rank == 0) for rank, entry in enumerate(best)]

    def _parts(self, words: list[str]) -> tuple[float, list[Row]]:
        """Return what holds the most of these words, and the share of their weight that it is."""
        weights = {term: self._weight(term) for term in words}
        total = sum(weights.values())
        held_terms = sorted(
            (term for term in words if self.counts[term]),
            key=lambda term: -weights[term],
        )
        subsets = {tuple(held_terms)} if len(held_terms) < len(words) else set()
        subsets |= {
            tuple(term for term in held_terms if term != dropped)
            for dropped in held_terms[-RARE:]
        }
        subsets |= set(combinations(held_terms[:RARE], 2))
        shares = {
            subset: sum(weights[term] for term in subset) / total
            for subset in subsets
            if _tells(subset)
        }
        empty = [
            set(pair)
            for pair in combinations(held_terms[:2], 2)
            if not self._rows(pair)
        ]
        for subset in sorted(shares, key=lambda subset: (-shares[subset], subset)):
            if shares[subset] < LEAST:
                break
            if any(pair.issubset(subset) for pair in empty):
                continue  # nobody says these two together
            rows = self._rows(subset)
            if rows:
                return shares[subset], rows
        return 0.0, []

    def _rows(self, words: tuple[str, ...] | list[str]) -> list[Row]:
        self.left -= 1
        return together(self.snap, self.reach, words, self.now, self.cursor, FEW + 1)

    def _weight(self, word: str) -> float:
        if word not in self.counts:
            self.left -= 1
            self.counts[word] = counted(self.snap, word, self.cursor)
        telling = SPECIFIC if is_specific(word) else 1.0
        count = self.counts[word]
        return telling * rarity(count, self.cursor) if count or telling > 1 else UNKNOWN


def _on_topic(entries: list[Entry], asked: frozenset[str]) -> list[Entry]:
    """Return the entries without those that mention, and say otherwise, what the topic of another
    one is, from an authority no higher: what a tool gave is its topic, what agents make of it is
    not.
    """
    ranks = [
        entry.authority
        for entry in entries
        if entry.topic and asked <= forms(entry.topic)
    ]
    if not ranks:
        return entries
    return [
        entry
        for entry in entries
        if entry.authority > max(ranks) or (entry.topic and asked <= forms(entry.topic))
    ]


def _tells_more(entry: Entry, text: str, given: frozenset[str]) -> bool:
    """Return whether an entry says what the task does not say itself."""
    if any(name not in text for name in specifics(entry.body)):
        return True
    own = forms(entry.body)
    new = own - given
    return any(map(is_specific, new)) or len(new) >= NEW * len(own)


def _distinct(entries: Iterable[Entry], clause: str) -> list[Entry]:
    """Return the entries without those that state what another does: of these the shortest by far,
    else the first."""
    result: list[Entry] = []
    for entry in entries:
        own = _stated(entry, clause)
        index = next(
            (n for n, earlier in enumerate(result) if own & _stated(earlier, clause)),
            None,
        )
        if index is None:
            result.append(entry)
        elif 2 * len(entry.body) < len(result[index].body):
            result[index] = entry
    return result


def _stated(entry: Entry, clause: str) -> frozenset[str]:
    """Return the names and figures that an entry has and the clause has not; without any, its
    author and its words.
    """
    own = frozenset(name for name in specifics(entry.body) if name not in clause)
    return own or frozenset((" ".join((entry.author, *sorted(forms(entry.body)))),))


def _tells(part: tuple[str, ...]) -> bool:
    """Return whether these words say something together: two do, or one that is an identifier."""
    return len(part) > 1 or (
        len(part) == 1 and is_specific(part[0]) and len(part[0]) > 3
    )
