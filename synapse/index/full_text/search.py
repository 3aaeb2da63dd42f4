"""Full text: SQLite's FTS5, filled in batches outside the append, ranked over what the reader may
see.

The index holds which entries say a word; `postings` finds those of all that say most of a question,
`ranking` scores these and what stands beside them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from synapse.index.database import Database
from synapse.index.full_text import terms
from synapse.index.full_text.mentions import Days, by_piece, named
from synapse.index.full_text.ranking import LONG, REACH, Scores, Threads, rarity, says
from synapse.index.names import Numbers, Reach
from synapse.index.pages import Filter, priority_numbers
from synapse.index.postings import best, bits, newest, run, scaled, total
from synapse.index.snapshot import Snapshot
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.entry import SEALED, Entry
from synapse.model.results import Hit, Hits
from synapse.system.typed import Any, NamedTuple

SETTLED = 40  # of those of one rank, so many are put in order by authority
SEEDS = 32  # of the entries found, those that are scored
BESIDE = 2  # of these one in so many, the best, with their neighbours in the thread
FINE = 511  # what the words of a question weigh together, as a whole number
SHARES = 15  # what a short text says, as a whole number
BATCH = 5_000
EXCERPT = 160  # characters
MESSAGE = kinds.NUMBER[kinds.MESSAGE]


# An entry that may be an answer: seq, rec, rev, the author's number, when it came, priority, kind,
# and whether the filter lets it through.
Row = tuple[int, int, int, int, int, int, int, int]
# Score, negated, priority, seq, negated, and row: sorted, the best come first.
Ranked = tuple[float, int, int, Row]


class Term(NamedTuple):
    """A word of a question, how much it tells, and which entries hold it, as bits of a number."""

    text: str
    rarity: float
    entries: int


def fill(db: Database, floor: int, end: int) -> int:
    """Index the next entries after a place, and return the place reached, at most the end."""
    rows = db.run("unworded", {"floor": floor, "limit": BATCH}).fetchall()
    batch: list[tuple[object, ...]] = []
    long: list[tuple[object, ...]] = []
    for seq, body, head in rows:
        fields = json.loads(head)
        text = _label(fields)
        if fields.get("scope") not in SEALED:
            text = f"{body} {text}"
        batch.append((seq, terms.folded(text)))
        length = len(text.split())
        if length > LONG:
            long.append((seq, length))
    db.many("word", batch)
    db.many("put_long", long)
    return rows[-1][0] if len(rows) == BATCH else end


def _label(fields: dict[str, Any]) -> str:
    """Return what is looked for in an entry beside its text. All messages stand in one namespace,
    which tells nothing.
    """
    namespace = fields["namespace"] if fields["namespace"] != kinds.MAIL else ""
    own = kinds.texts(fields.get("more", {}))
    return " ".join((*fields.get("tags", ()), fields.get("topic") or "", namespace, *own))


class Search:
    """One question of one reader, with what every statement of it is filled with."""

    def __init__(self, snap: Snapshot, agent: Agent | None, wanted: Filter, now: int) -> None:
        self.snap, self.db, self.now = snap, snap.db, now
        self.reach = snap.names.reach(agent)
        within, author = wanted.namespaces, wanted.author
        self.values: dict[str, Any] = {
            "now": now,
            "me": self.reach.me,
            "archived": int(wanted.archived),
            "author": None if author is None else snap.names.author(author),
            "tag": wanted.tag,
            "anywhere": int(not within),
            "floor": snap.floor(wanted.since),
            "ceiling": snap.ceiling(wanted.until),
        }
        asked_kinds = wanted.kinds or kinds.KINDS
        self.lists: dict[str, Numbers] = {
            "nids": self.reach.nids,
            "audiences": self.reach.audiences,
            "prios": priority_numbers(wanted.priorities),
            "within": snap.names.covered(within) if within else (),
            "kinds": tuple(kinds.NUMBER[kind] for kind in asked_kinds),
        }

    def words(self, text: str) -> list[Term]:
        """Return the words of a question, the rarest first."""
        postings, texts = self.snap.postings, terms.sought(text)
        pairs = [(text, postings.holding(self.db, text, self.end)) for text in texts]
        size = self.db.run("last_entry").fetchone()[0] or 0
        if len(pairs) == 1:  # there is nothing to compare it with
            return [Term(texts[0], rarity(1, 1), pairs[0][1])]
        result = [Term(text, rarity(entries.bit_count(), size), entries) for text, entries in pairs]
        return sorted(result, key=lambda term: -term.rarity)

    @cached_property
    def end(self) -> int:
        """Return the last record that the index of words goes up to."""
        return int(self.db.meta("words") or 0)

    def sums(self, query_terms: Sequence[Term]) -> list[int]:
        """Return what each entry says of these words, by its length, and its priority after that:
        so much in whole numbers as tells which entries to score.
        """
        whole = FINE / sum(term.rarity for term in query_terms)
        planes = total((round(term.rarity * whole), term.entries) for term in query_terms)
        short, long = self.snap.postings.lengths(self.db, self.end)
        if long:
            shares = [(round(SHARES * says(length)), entries) for length, entries in long]
            planes = scaled(planes, [(SHARES, short), *shares])
        return [*self.snap.postings.priorities(self.db, self.end), *planes]

    def gather(self, query_terms: Sequence[Term], most: int) -> list[Row]:
        """Return the entries that say most of these words, that the reader may see, until so many
        of them are let through by the filter. Those that are among the first in any case come
        first.
        """
        query_terms = [term for term in query_terms if term.entries]
        planes, among = self.sums(query_terms) if query_terms else [], 0
        for term in query_terms:
            among |= term.entries
        rows: list[Row] = []
        count, missing = most, most
        while among and missing > 0:
            chosen, equals = best(planes, among, count)
            seqs = newest(chosen, count)
            seqs += newest(equals, count - len(seqs))
            further = self.rows(seqs)
            missing -= sum(row[-1] for row in further)
            rows += further
            among ^= bits(seqs)
            count *= 2
        return rows

    def by(self, aids: Iterable[int], limit: int) -> list[int]:
        """Return the newest entries of these authors."""
        lists = {**self.lists, "aids": tuple(aids)}
        return [
            seq for (seq,) in self.db.run("search_author", {**self.values, "limit": limit}, **lists)
        ]

    def rows(self, seqs: Iterable[int]) -> list[Row]:
        """Return those of these entries that the reader may see."""
        values = {**self.values, "seqs": _listed(seqs)}
        return self.db.run("search_rows", values, **self.lists).fetchall()

    def lengths(self, seqs: Iterable[int]) -> dict[int, int]:
        """Return the lengths of those of these that are long, in words."""
        return dict(self.db.run("lengths", {"seqs": _listed(seqs)}).fetchall())

    def around(self, threads: Threads, rows: Sequence[Row], reach: int) -> None:
        """Tell who stands beside these in their threads, so many before and after each."""
        seqs = [row[0] for row in rows if row[6] == MESSAGE]
        if not seqs:
            return
        values = {"reach": reach, "seqs": _listed(seqs)}
        for before, after in self.db.run("around", values):
            stretch = f"{before},{after}" if after else before
            threads.tell(sorted(map(int, stretch.split(","))))


def search(
    snap: Snapshot, agent: Agent | None, text: str, wanted: Filter, now: int, limit: int
) -> Hits:
    """Return the entries that answer best, of equals the weightiest, then the newest."""
    query = Search(snap, agent, wanted, now)
    query_terms = query.words(text)
    if not query_terms or not limit:
        return Hits(())
    most = max(SEEDS, 2 * limit)
    rows = query.gather(query_terms, most)
    answers = terms.asks_for_answers(text)
    ranked = _ranked(query, query_terms, rows, most, answers)
    best = _settled(query, _contenders(ranked, limit))[:limit]
    plain = frozenset(term.text for term in query_terms)
    hits = (Hit(entry, score, *excerpt(_words_of(entry), plain)) for score, entry in best)
    passing = sum(row[-1] for row in rows)
    return Hits(tuple(hits), passing >= most, passing)


def _ranked(
    query: Search, query_terms: Sequence[Term], rows: Sequence[Row], most: int, answers: bool
) -> list[Ranked]:
    """Return what the words found and what stands beside it, the best first."""
    texts = [term.text for term in query_terms]
    masks, lengths = dict[int, int](), dict[int, int]()
    scores = Scores([term.rarity for term in query_terms], masks, lengths, answers)

    def learn(seqs: Sequence[int]) -> None:
        masks.update(_masks(query_terms, seqs))
        lengths.update(query.lengths(seqs))

    def own(row: Row) -> tuple[float, int, int]:
        return -scores.own(row[0]), row[5], -row[0]

    learn([row[0] for row in rows])
    chosen = sorted((row for row in rows if row[-1]), key=own)[:most]
    context = sorted(rows[:most], key=own)  # also of what the filter leaves out
    by_seq = {row[0]: row for row in rows}
    threads, near = Threads(), {row[0] for row in chosen}
    if len(query_terms) > 1:  # who looks for one word wants that word itself
        first = context[: most // BESIDE]
        query.around(threads, first, 2 * REACH)
        query.around(threads, context[len(first) :], REACH)
        near.update(seq for row in first for seq in threads.near(row[0]))
    names = query.snap.names
    names.pieces = names.pieces or by_piece(query.db.run("authors"))
    authors, days = named(texts, names.pieces), Days(texts, query.now)
    if authors and len(chosen) < most:
        near.update(query.by(authors, most))
    neighbours = query.rows((near | threads.seqs()) - by_seq.keys())
    if neighbours:
        by_seq.update((row[0], row) for row in neighbours)
        learn([row[0] for row in neighbours])
    ranked = []
    for seq in near & by_seq.keys():
        row = by_seq[seq]
        if row[-1]:
            about = authors.get(row[3], 0) | days.bits(row[4])
            score = scores.of(seq, threads.near(seq), about)
            ranked.append((-round(score, 9), row[5], -seq, row))
    ranked.sort()
    return ranked


def _masks(query_terms: Sequence[Term], seqs: Sequence[int]) -> dict[int, int]:
    """Return which of the words each of these entries says, a bit for each."""
    masks = dict.fromkeys(seqs, 0)
    size = (max(seqs, default=0) >> 3) + 1
    for position, term in enumerate(query_terms):
        raw, bit = (
            term.entries.to_bytes(max(size, term.entries.bit_length() + 7 >> 3), "little"),
            1 << position,
        )
        for seq in seqs:
            if raw[seq >> 3] >> (seq & 7) & 1:
                masks[seq] |= bit
    return masks


def _contenders(ranked: Sequence[Ranked], limit: int) -> Sequence[Ranked]:
    """Return those that can be among the best once authority is known: beside the first, who has
    the rank of the last of them. Reading an entry is most of the work, so none is read in vain.
    """
    end = min(limit, len(ranked))
    while (
        end < min(max(2 * limit, SETTLED), len(ranked)) and ranked[end][:2] == ranked[limit - 1][:2]
    ):
        end += 1
    return ranked[:end]


def _settled(query: Search, ranked: Sequence[Ranked]) -> list[tuple[float, Any]]:
    """Return scores and entries; equals in score and priority by authority, then by age."""
    rows = [row[:3] for *_, row in ranked]
    entries = query.snap.load(rows, query.now, query.reach)
    keyed = [
        (negated, prio, -entry.authority, -entry.seq, entry)
        for (negated, prio, _, _), entry in zip(ranked, entries, strict=True)
    ]
    # No two have one seq, so no two entries are compared.
    return [(-negated, entry) for negated, _, _, _, entry in sorted(keyed)]


def together(
    snap: Snapshot, reach: Reach, words: Iterable[str], now: int, cursor: int, limit: int
) -> list[tuple[int, int, int]]:
    """Return the newest live entries, up to a cursor, that hold all of these words and that the
    reader may see: seq, rec, rev."""
    phrase = " ".join(f'"{term}"' for term in words)
    values = {"words": phrase, "now": now, "me": reach.me, "cursor": cursor, "limit": limit}
    lists = {"nids": reach.nids, "audiences": reach.audiences}
    return run(snap.db, "search_together", values, **lists) if phrase else []


def holding(snap: Snapshot, agent: Agent | None, text: str, now: int, limit: int) -> list[Entry]:
    """Return the newest live entries that the agent may see and that hold all words of a text."""
    reach = snap.names.reach(agent)
    rows = together(snap, reach, terms.sought(text), now, snap.cursor, limit)
    return snap.load(rows, now, reach)


def counted(snap: Snapshot, word: str) -> int:
    """Return how many entries hold a word."""
    end = int(snap.db.meta("words") or 0)
    return snap.postings.holding(snap.db, word, end).bit_count()


def _listed(seqs: Iterable[int]) -> str:
    """Return numbers as a value, so that the statement which they are in is prepared once."""
    return str(list(seqs))


def _words_of(entry: Entry) -> str:
    """Return the text of which a hit shows a part; none where it is sealed."""
    return "" if entry.scope in SEALED else entry.body


def excerpt(
    body: str, words: frozenset[str], width: int = EXCERPT
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of the body where most of the words stand, on one line, and where in it they
    do.
    """
    flat = " ".join(body.split())
    spans = terms.places(flat, words)
    start = max(0, _densest(spans, width) - width // 4) if len(flat) > width else 0
    start = min(start, max(0, len(flat) - width))
    end = start + width
    before = "…" if start else ""
    shift = len(before) - start
    marks = tuple((a + shift, b + shift) for a, b in spans if a >= start and b <= end)
    return before + flat[start:end] + ("…" if end < len(flat) else ""), marks


def _densest(spans: Sequence[tuple[int, int]], width: int) -> int:
    """Return the place of the first of the most matches that fit into the width."""
    ends = [end for _, end in spans]
    best, most = 0, 0
    for n, (start, _) in enumerate(spans):
        count = bisect_right(ends, start + width * 3 // 4, n) - n
        if count > most:
            best, most = start, count
    return best
