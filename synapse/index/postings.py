"""Which entries hold a word, and which hold most of a question, as bits of whole numbers: an entry
is the bit at its place in the log.

What the index of words answers for a word is kept and added to: a word is never taken out of it. So
a question over all entries is a few operations on long numbers, and no row of any of them. Whether
the reader may see an entry is the caller's to ask. Called by `search`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from synapse.errors import StoreError
from synapse.index.database import Database
from synapse.system.typed import Any, NamedTuple

KEPT = 32_000_000  # bytes of words that are kept
_NOT_EMPTY = re.compile(rb"[^\0]")


class Length(NamedTuple):
    """Entries of about one length, in words."""

    size: int
    entries: int


class Postings:
    """What is known of the words of one index, by processes that ask again. Threads may share it: a
    kept answer is replaced as a whole, and one that is behind is added to once more.
    """

    def __init__(self) -> None:
        self.terms: dict[str, tuple[int, int]] = {}
        self.long: tuple[int, dict[int, int], int] = (0, {}, 0)
        self.weighty: tuple[int, int, int] = (0, 0, 0)
        self.size = 0

    def holding(self, db: Database, term: str, end: int) -> int:
        """Return the entries that hold a word, in an index of words that goes up to an end."""
        reached, entries = self.terms.get(term, (0, 0))
        if reached != end:
            rows = run(db, "holding", {"word": f'"{term}"', "floor": reached})
            entries |= bits(seq for (seq,) in rows)
            if self.size > KEPT:
                self.terms, self.size = {}, 0
            self.size += end // 8 if term not in self.terms else 0
            self.terms[term] = end, entries
        return entries

    def lengths(self, db: Database, end: int) -> tuple[int, list[Length]]:
        """Return the entries that are short, and those that are long, by about how many words they
        have.
        """
        reached, by_size, short = self.long
        if reached != end:
            new: dict[int, list[int]] = {}
            for seq, size in db.run("long_since", {"floor": reached}):
                step = size.bit_length() - 3
                new.setdefault((size >> step << step) + (1 << step >> 1), []).append(seq)
            by_size = by_size | {
                size: by_size.get(size, 0) | bits(seqs) for size, seqs in new.items()
            }
            short = (1 << end + 1) - 1
            for entries in by_size.values():
                short ^= entries
            self.long = end, by_size, short
        return short, [Length(*pair) for pair in by_size.items()]

    def priorities(self, db: Database, end: int) -> tuple[int, int]:
        """Return the entries that are important, and those that are critical."""
        reached, important, critical = self.weighty
        if reached != end:
            by_prio: tuple[list[int], ...] = ([], [], [])
            for seq, prio in db.run("weighed_since", {"floor": reached}):
                by_prio[prio].append(seq)
            now_critical, now_important, now_info = map(bits, by_prio)
            important = (important | now_important) & ~(now_critical | now_info)
            critical = (critical | now_critical) & ~(now_important | now_info)
            self.weighty = end, important, critical
        return important, critical


def run(db: Database, name: str, values: dict[str, object], **lists: Any) -> list[Any]:
    """Return the rows of a statement that asks for words; none where the tokenizer makes several
    words of one, or none.
    """
    try:
        return db.run(name, values, **lists).fetchall()
    except StoreError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) and "fts5" in str(error):
            return []
        raise


def total(numbers: Iterable[tuple[int, int]]) -> list[int]:
    """Return how much each entry has of these numbers, each given with the entries that have it:
    the first of the answers holds the lowest bits of all sums, the next one the next.
    """
    planes: list[int] = []
    for number, entries in numbers:
        for digit in range(number.bit_length()):
            if number >> digit & 1:
                _add(planes, digit, entries)
    return planes


def scaled(planes: Sequence[int], factors: Iterable[tuple[int, int]]) -> list[int]:
    """Return the sums, each times its factor."""
    by_bit: dict[int, int] = {}
    for number, entries in factors:
        for digit in range(number.bit_length()):
            if number >> digit & 1:
                by_bit[digit] = by_bit.get(digit, 0) | entries
    return total(
        (1 << digit + bit, plane & entries)
        for digit, plane in enumerate(planes)
        for bit, entries in by_bit.items()
    )


def _add(planes: list[int], digit: int, entries: int) -> None:
    """Add a one at a digit to the sums of these entries."""
    while entries:
        while digit >= len(planes):
            planes.append(0)
        planes[digit], entries = planes[digit] ^ entries, planes[digit] & entries
        digit += 1


def best(planes: Sequence[int], among: int, count: int) -> tuple[int, int]:
    """Return so many entries with the highest sums, and those with the sum of the next ones, of
    which there is not room for all.
    """
    chosen = 0
    for plane in reversed(planes):
        having = among & plane
        if having.bit_count() <= count:
            chosen, among = chosen | having, among & ~plane
            count -= having.bit_count()
        else:
            among = having
    return (chosen, among) if among.bit_count() > count else (chosen | among, 0)


def newest(entries: int, count: int) -> list[int]:
    """Return the places of so many of these entries, the newest first."""
    return list(islice(places(entries), count))


def places(entries: int) -> Iterator[int]:
    """Yield the places of these entries, the newest first."""
    raw = entries.to_bytes(entries.bit_length() + 7 >> 3, "big")
    for match in _NOT_EMPTY.finditer(raw):
        at = match.start()
        byte, base = raw[at], len(raw) - 1 - at << 3
        while byte:
            top = byte.bit_length() - 1
            yield base + top
            byte ^= 1 << top


def bits(seqs: Iterable[int]) -> int:
    """Return these entries as bits."""
    listed = list(seqs)
    if len(listed) < 2:
        return 1 << listed[0] if listed else 0
    raw = bytearray((max(listed) >> 3) + 1)
    for seq in listed:
        raw[seq >> 3] |= 1 << (seq & 7)
    return int.from_bytes(raw, "little")
