"""Full text: SQLite's FTS5, filled in batches outside the append, ranked over what the reader may
see.

The index holds which entries say a word; `ranking` says what that is worth. Of each question the
rarest words are looked up first, in the newest entries that hold them, up to a number that does not
grow with the store.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations

from synapse.errors import StoreError
from synapse.index.database import Database
from synapse.index.full_text import terms
from synapse.index.full_text.mentions import Days, by_piece, named
from synapse.index.full_text.ranking import LONG, REACH, Scores, Threads, rarity, seeds
from synapse.index.names import Numbers, Reach
from synapse.index.pages import Filter, priority_numbers
from synapse.index.snapshot import Snapshot
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.entry import SEALED, Entry
from synapse.model.results import Hit, Hits
from synapse.system.typed import Any, NamedTuple

# of the entries with a word that is looked for alone, so many of the newest
RANKED = 200
# of those with any word of a question, so many for all its words together
LOOKED_UP = 1_000
# of the rarest words that there was no room for, those that are looked up by twos, and how many
PAIRED = 4
TOGETHER = 64
# how far a word is counted; beyond, it is taken to be as common as among the newest
COUNTED = 10_000
SETTLED = 40  # of those of one rank, so many are put in order by authority
SEEDS = 48  # of the entries found, those that are scored
BESIDE = 3  # of these one in so many, the best, with their neighbours in the thread
COMMON = 1_000  # a word in so many entries is common, and is not counted again
STEP = 4_096  # until so many have come, or a quarter as many as there are
KEPT = 8_192  # words whose counts are kept
BATCH = 5_000
EXCERPT = 160  # characters


class Word(NamedTuple):
    """A word of a question, and in how many entries it stands."""

    text: str
    entries: int


class Found(NamedTuple):
    """What the words led to: a mask of words for each entry; for each of those that the filter lets
    through, and their priorities; and whether there may be more.
    """

    words: Sequence[Word]
    masks: dict[int, int]
    wanted: dict[int, int]
    prios: dict[int, int]
    partial: bool


# What an entry is weighed by: seq, rec, rev, the author's number, when it came, priority.
Row = tuple[int, int, int, int, int, int]
# Score, negated, priority, seq, negated, and row: sorted, the best come first.
Ranked = tuple[float, int, int, Row]


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


def _mark(masks: dict[int, int], rows: Iterable[tuple[int, int]], bits: int) -> None:
    mask_of = masks.get
    for seq, _ in rows:
        masks[seq] = mask_of(seq, 0) | bits


class Search:
    """One question of one reader, with what every statement of it is filled with."""

    def __init__(self, snap: Snapshot, agent: Agent | None, wanted: Filter, now: int) -> None:
        self.snap, self.db, self.now = snap, snap.db, now
        self.reach = snap.names.reach(agent)
        self.narrow = wanted != Filter(archived=wanted.archived, limit=wanted.limit)
        self.plainly = "search_archived" if wanted.archived else "search"
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

    def words(self, text: str) -> list[Word]:
        """Return the words of a question, the rarest first."""
        texts = terms.sought(text)
        if len(texts) == 1:  # there is nothing to compare it with
            return [Word(texts[0], 1)]
        return sorted(
            (Word(term, self._count(term)) for term in texts), key=lambda term: term.entries
        )

    @cached_property
    def size(self) -> int:
        row = self.db.run("last_entry").fetchone()
        return row[0] or 0

    def _count(self, word: str) -> int:
        """Return how many entries hold a word. Of a common one that is as it was when the store
        last had a round size, the same for whoever asks: it hardly changes, and is counted once.
        The count of a rare one is kept until an entry comes.
        """
        most = min(STEP, max(1, self.size // 4))
        end = self.size - self.size % (1 << most.bit_length() - 1)  # a power of two
        common = self.snap.names.common
        if (end, word) in common:
            return common[end, word]
        rare = self.snap.names.rare(self.size)
        if word in rare:
            return rare[word]
        few = self._counted(word, self.size, COMMON)[0]
        if few < COMMON:
            if len(rare) >= KEPT:
                rare.clear()
            rare[word] = few
            return few
        count, oldest = self._counted(word, end, COUNTED)
        if count < COMMON:
            return self._counted(word, self.size, COUNTED)[0]
        if count == COUNTED:
            count = count * end // (end - oldest + 1)
        if len(common) >= KEPT:
            common.clear()
        common[end, word] = count
        return count

    def _counted(self, word: str, last: int, limit: int) -> tuple[int, int]:
        """Return how many of the entries up to one hold a word, counted so far, and the oldest of
        those.
        """
        values = {"word": f'"{word}"', "limit": limit, "last": last}
        rows = _run(self.db, "word_count", values, {})
        return rows[0] if rows else (0, 0)

    def look_up(self, words: Sequence[Word], limit: int) -> Found:
        """Return who says the words: the newest of each, the rarest words first, until there are
        enough. Where that leaves out some of the rarest words, those who say two of them together
        are looked up too, however old they are.
        """
        masks: dict[int, int] = {}
        filtered: dict[int, int] = {}
        prios: dict[int, int] = {}
        room = limit
        cut: list[int] = []
        positions = [position for position, term in enumerate(words) if term.entries]
        for position in positions:
            expression, most, rows = f'"{words[position].text}"', max(room, 0), []
            if most:
                rows = self._saying(self.plainly, expression, most)
                room -= len(rows)
                _mark(masks, rows, 1 << position)
            if len(rows) == most:
                cut.append(position)
            if self.narrow:
                rows = self._saying("search_within", expression, limit)
                _mark(filtered, rows, 1 << position)
            prios.update(rows)
        for pair in combinations(cut[:PAIRED], 2):
            expression = " ".join(f'"{words[position].text}"' for position in pair)
            bits = 1 << pair[0] | 1 << pair[1]
            rows = self._saying(self.plainly, expression, TOGETHER)
            _mark(masks, rows, bits)
            if self.narrow:
                rows = self._saying("search_within", expression, TOGETHER)
                _mark(filtered, rows, bits)
            prios.update(rows)
        return Found(words, masks, filtered if self.narrow else masks, prios, room <= 0)

    def _saying(self, name: str, said: str, limit: int) -> list[tuple[int, int]]:
        """Return the newest entries with these words, and their priorities."""
        values = {**self.values, "word": said, "limit": limit}
        return _run(self.db, name, values, self.lists)

    def by(self, aids: Iterable[int], limit: int) -> list[int]:
        """Return the newest entries of these authors."""
        lists = {**self.lists, "aids": tuple(aids)}
        return [
            seq for (seq,) in self.db.run("search_author", {**self.values, "limit": limit}, **lists)
        ]

    def rows(self, seqs: Iterable[int]) -> list[Row]:
        """Return those of these entries that the reader may see and the filter lets through."""
        values = {**self.values, "seqs": _listed(seqs)}
        return self.db.run("search_rows", values, **self.lists).fetchall()

    def lengths(self, seqs: Iterable[int]) -> dict[int, int]:
        """Return the lengths of those of these that are long, in words."""
        return dict(self.db.run("lengths", {"seqs": _listed(seqs)}).fetchall())

    def around(self, threads: Threads, seqs: Sequence[int], reach: int) -> None:
        """Tell who stands beside these in their threads, so many before and after each."""
        values = {"reach": reach, "seqs": _listed(seqs)}
        for before, after in self.db.run("around", values):
            stretch = f"{before},{after}" if after else before
            threads.tell(sorted(map(int, stretch.split(","))))


def search(
    snap: Snapshot, agent: Agent | None, text: str, wanted: Filter, now: int, limit: int
) -> Hits:
    """Return the entries that answer best, of equals the weightiest, then the newest."""
    query = Search(snap, agent, wanted, now)
    query_words = query.words(text)
    if not query_words or not limit:
        return Hits(())
    matches = query.look_up(
        query_words, max(LOOKED_UP if len(query_words) > 1 else RANKED, 2 * limit)
    )
    ranked = _ranked(query, matches, max(SEEDS, 2 * limit))
    best = _settled(query, _contenders(ranked, limit))[:limit]
    plain = frozenset(term.text for term in query_words)
    hits = (Hit(entry, score, *excerpt(_words_of(entry), plain)) for score, entry in best)
    return Hits(
        tuple(hits), matches.partial, len(ranked) if len(query_words) == 1 else len(matches.wanted)
    )


def _ranked(query: Search, matches: Found, limit: int) -> list[Ranked]:
    """Return all that may be seen of what the words led to and what stands beside it, the best
    first.
    """
    texts = [term.text for term in matches.words]
    size = query.size if len(matches.words) > 1 else 1
    rarities = [rarity(term.entries, size) for term in matches.words]
    names = query.snap.names
    names.pieces = names.pieces or by_piece(query.db.run("authors"))
    authors, days = named(texts, names.pieces), Days(texts, query.now)
    chosen = seeds(matches.wanted, matches.prios, rarities, limit)
    context = seeds(matches.masks, {}, rarities, limit) if query.narrow else chosen
    threads, best = Threads(), context[: limit // BESIDE]
    if len(texts) > 1:  # who looks for one word wants that word itself
        query.around(threads, best, 2 * REACH)
        query.around(threads, context[len(best) :], REACH)
    near = {neighbour for seq in best for neighbour in threads.near(seq) if neighbour}
    if authors and len(chosen) < limit:
        near.update(query.by(authors, limit))
    rows = query.rows(near.union(chosen))
    saying = matches.masks.keys() & threads.before.keys() | threads.after.keys()
    lengths = query.lengths(saying.union(row[0] for row in rows))
    scores, ranked = Scores(rarities, matches.masks, lengths), []
    for row in rows:
        seq, _, _, aid, at, prio = row
        about = authors.get(aid, 0) | days.bits(at)
        score = scores.of(seq, threads.near(seq), about)
        ranked.append((-round(score, 9), prio, -seq, row))
    ranked.sort()
    return ranked


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
    return _run(snap.db, "search_together", values, lists) if phrase else []


def holding(snap: Snapshot, agent: Agent | None, text: str, now: int, limit: int) -> list[Entry]:
    """Return the newest live entries that the agent may see and that hold all words of a text."""
    reach = snap.names.reach(agent)
    rows = together(snap, reach, terms.sought(text), now, snap.cursor, limit)
    return snap.load(rows, now, reach)


def counted(snap: Snapshot, word: str, cursor: int) -> int:
    """Return how many entries up to a cursor hold a word, counted up to `COMMON`."""
    values = {"word": f'"{word}"', "limit": COMMON, "last": cursor}
    rows = _run(snap.db, "word_count", values, {})
    return int(rows[0][0]) if rows else 0


def _listed(seqs: Iterable[int]) -> str:
    """Return numbers as a value, so that the statement which they are in is prepared once."""
    return str(list(seqs))


def _run(db: Database, name: str, values: dict[str, Any], lists: dict[str, Any]) -> list[Any]:
    try:
        return db.run(name, values, **lists).fetchall()
    except StoreError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) and "fts5" in str(error):
            return []  # the tokenizer makes several words of it, or none
        raise


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
