"""The proof that a text says what its sources say: all of it, and nothing else. Pure.

No model is asked, and there is no list of facts. Each sentence of the text has to stand, word for
word, in one of the sources; a clause of a source may be left out only where the text says it in
other words. What cannot be proven is rejected. Called where a proposal is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from synapse.consolidate.words import (
    CONTEXT,
    OPERATOR,
    SLOT,
    SMALL,
    Word,
    Words,
    clauses,
    sentences,
    stems,
)
from synapse.system.typed import NamedTuple

# The share of a clause's words that have to stand in what says it in other words.
SHARE_KEPT = 2 / 3
EFFORT = 1_000_000  # words compared while looking for how a text was put together
PAUSES = 200  # in a text: more than that is no summary
STRETCH = 4  # clauses of a sentence that may say one clause together
_WAYS = frozenset("from to into onto by with via of".split())
_OPPOSITE = ("un", "in", "im", "ir", "dis", "non-", "non", "de")


class Source(NamedTuple):
    """A sentence of one of the sources, and its place there."""

    text: int
    place: int
    words: Words
    keys: tuple[str, ...]
    loose: tuple[str, ...]


class Run(NamedTuple):
    """Words of the text that stand in a source: all of it, its beginning up to a pause, or one end
    of it, where the rest is said beside it. `covered` is the part of the source that is said by
    that, `owed` what the next run has to end with."""

    source: Source
    end: int
    covered: Words
    owed: tuple[str, ...] = ()


def unfaithful(text: str, others: Sequence[str]) -> str | None:
    """Return what is wrong with a text that is to stand for all the others; None where nothing
    is."""
    stream = sentences(text)
    sources = [
        Source(
            number,
            index,
            words,
            tuple(word.key for word in words),
            tuple(word.loose for word in words),
        )
        for number, source_text in enumerate(others)
        for index, words in enumerate(sentences(source_text))
    ]
    if strange := _changed_slots(stream, sources):
        return strange
    search = _Search(tuple(word for sentence in stream for word in sentence), sources)
    if len(search.ends) > PAUSES:
        return "is too long to be proven"
    runs = search.parse(0, None, ())
    return search.reason() if not runs else _missing_clause(runs, sources)


# -- slots -----------------------------------------------------------------------------------------


def _changed_slots(stream: Sequence[Words], sources: Sequence[Source]) -> str | None:
    """Return the first numbers, names, dates, quoted strings or negations that are new, or missing.
    A capital at the beginning of a sentence may say nothing, so such a word is kept in small
    letters, too."""
    ours = [word for sentence in stream for word in sentence]
    theirs = [word for source in sources for word in source.words]
    if added := _missing(ours, theirs):
        return f"says {_listed(added)}, which none of the sources says"
    if missing := _missing(theirs, ours):
        return f"leaves out {_listed(missing)}"
    return None


def _missing(words: Sequence[Word], others: Sequence[Word]) -> list[str]:
    present = {
        (word.kind == OPERATOR, mark) for word in others for mark in (_mark(word), word.stem)
    }
    marked = (
        (word, (word.kind == OPERATOR, _mark(word)))
        for word in words
        if word.kind in (SLOT, OPERATOR)
    )
    return list(dict.fromkeys(word.key for word, mark in marked if mark not in present))


def _mark(word: Word) -> str:
    return word.key if word.kind == SLOT and not word.key.isalpha() else word.stem


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


# -- nothing else ----------------------------------------------------------------------------------


class _Search:
    """The search for how a stream of words was put together from sources, each source's in its own
    order."""

    def __init__(self, stream: Words, sources: Sequence[Source]) -> None:
        self.stream = stream
        self.keys = tuple(word.key for word in stream)
        self.loose = tuple(word.loose for word in stream)
        self.sources = sources
        self.ends = (
            *(index for index, word in enumerate(stream) if word.pause and index),
            len(stream),
        )
        self.furthest, self.effort = 0, EFFORT

    def parse(
        self, start: int, last: Run | None, done: tuple[tuple[int, int], ...]
    ) -> list[Run] | None:
        """Return the runs that make up the stream from here on, after these places of the sources;
        None where there are none."""
        self.furthest, self.effort = max(self.furthest, start), self.effort - 1
        if start == len(self.stream):
            return None if last and last.owed else []
        reached = dict(done)
        for run in self._runs(start, last):
            source = run.source
            if self.effort <= 0:
                return None
            if source.place >= reached.get(source.text, 0) and not (
                last and not _pays_what_is_owed(last, run)
            ):
                following = self.parse(
                    run.end, run, tuple(sorted((reached | {source.text: source.place}).items()))
                )
                if following is not None:
                    return [run, *following]
        return None

    def reason(self) -> str:
        """Return why no runs were found, in words."""
        if not self.stream:
            return "says nothing"
        if self.effort <= 0:
            return "is put together in too many ways to be proven"
        near = " ".join(self.keys[self.furthest : self.furthest + 8])
        return f"says what no source says, or not in these words: “{near}”"

    def _runs(self, start: int, last: Run | None) -> Iterator[Run]:
        for source in self.sources:
            # one that cannot be understood without the sentence before it
            in_context = any(word.key in CONTEXT for word in source.words)
            if in_context and not _follows(source, last):
                continue
            yield from self._whole(start, source, last)
            yield from self._beginning(start, source)
            if last is not None:
                yield from self._ending(start, source, last)

    def _whole(self, start: int, source: Source, last: Run | None) -> Iterator[Run]:
        """Yield the whole sentence as a run, and what of it stands before a pause."""
        size = len(source.words)
        if (
            last
            and last.owed
            and self.loose[start : start + size] == source.loose
            and start + size in self.ends
        ):
            yield Run(source, start + size, source.words)
        same = self._common(self.keys[start : start + size], source.keys)
        for stop in reversed(self.ends):
            end = stop - start
            ends = end == size or (0 < end < size and source.words[end].pause)
            if (
                end <= same
                and ends
                and all(source.words[k].pause for k in range(1, end) if self.stream[start + k].stop)
            ):
                yield Run(source, stop, source.words[:end])

    def _beginning(self, start: int, source: Source) -> Iterator[Run]:
        """Yield runs like `A and` of `A and B are down`, where the source says `A is down`."""
        same = self._common(self.loose[start : start + len(source.loose)], source.loose)
        for stop in self.ends[:-1]:
            if 0 < stop - start <= min(same, len(source.loose) - 1) and not self.stream[stop].stop:
                yield Run(source, stop, source.words, source.loose[stop - start :])

    def _ending(self, start: int, source: Source, last: Run) -> Iterator[Run]:
        """Yield runs like `and B` of `it is down on A and B`, where the source says `it is down on
        B`."""
        size, same = len(source.loose), self._common(last.source.loose, source.loose)
        for stop in () if self.stream[start].stop else self.ends:
            offset = size - (stop - start)
            if (
                0 < offset <= same
                and offset < size
                and self.loose[start:stop] == source.loose[offset:]
            ):
                yield Run(source, stop, source.words)

    def _common(self, one: Sequence[str], other: Sequence[str]) -> int:
        """Return the number of equal words with which two sequences begin."""
        size, most = 0, min(len(one), len(other))
        while size < most and one[size] == other[size]:
            size += 1
        self.effort -= size + 1
        return size


def _pays_what_is_owed(last: Run, run: Run) -> bool:
    """Return whether the run ends with what the one before it owes."""
    owed = last.owed
    return not owed or (run.source.loose[-len(owed) :] == owed and run.owed in ((), owed))


def _follows(source: Source, last: Run | None) -> bool:
    if last is None:
        return source.place == 0
    return source.place > 0 and (last.source.text, last.source.place) == (
        source.text,
        source.place - 1,
    )


# -- all of it -------------------------------------------------------------------------------------


def _missing_clause(runs: Sequence[Run], sources: Sequence[Source]) -> str | None:
    """Return the first clause of the sources that is not said, in the same words or in others; None
    where all are."""
    statements = list(dict.fromkeys(run.covered for run in runs))
    stretches = [unsaid for statement in statements for unsaid in _stretches(statement)]
    said_clauses = [clause for statement in statements for clause in clauses(statement)]
    for source in sources:
        lost = [
            unsaid
            for unsaid in clauses(source.words)
            if stems(unsaid) and not _is_said(unsaid, said_clauses, stretches)
        ]
        if lost and not _is_said(source.words, said_clauses, stretches):
            return f"does not say: “{' '.join(word.key for word in lost[0])}”"
    return None


def _is_said(clause: Words, said_clauses: Sequence[Words], stretches: Sequence[Words]) -> bool:
    """Return whether the clause is said, in the same words or in others. One that differs from a
    clause that is said at a single place is another fact."""
    theirs = stems(clause)
    if any(
        theirs == stems(said_clause) and not _is_reversed(clause, said_clause)
        for said_clause in said_clauses
    ):
        return True
    if any(_substituted(theirs, stems(said_clause)) for said_clause in said_clauses):
        return False
    return any(_is_paraphrase(stretch, clause) for stretch in stretches)


def _stretches(sentence: Words) -> Iterator[Words]:
    """Yield every run of a few clauses of a sentence, the shortest first."""
    pieces = clauses(sentence)
    for size in range(1, min(len(pieces), STRETCH) + 1):
        for start in range(len(pieces) - size + 1):
            yield tuple(word for piece in pieces[start : start + size] for word in piece)


def _is_paraphrase(stretch: Words, clause: Words) -> bool:
    """Return whether these words say the clause in another way: its slots, the same negations and
    conditions, and most of its words."""
    theirs, ours = stems(clause), stems(stretch)
    if not {_mark(w) for w in clause if w.kind == SLOT} <= {_mark(w) for w in stretch} | set(ours):
        return False
    missing = Counter(theirs) - Counter(ours)
    share = 1 - sum(missing.values()) / len(theirs)
    turned = _has_opposite(missing, ours) or _is_reversed(clause, stretch)
    return _operators(clause) == _operators(stretch) and share >= SHARE_KEPT and not turned


def _operators(words: Words) -> Counter[str]:
    return Counter(word.stem for word in words if word.kind == OPERATOR)


def _substituted(theirs: tuple[str, ...], ours: tuple[str, ...]) -> bool:
    """Return whether one differs from the other at a single place, and says no less there."""
    start = 0
    while start < min(len(theirs), len(ours)) and theirs[start] == ours[start]:
        start += 1
    end = 0
    while end < min(len(theirs), len(ours)) - start and theirs[-1 - end] == ours[-1 - end]:
        end += 1
    removed = set(theirs[start : len(theirs) - end])
    added = set(ours[start : len(ours) - end])
    return (
        start + end > 0
        and bool(removed)
        and removed.isdisjoint(added)
        and len(added) <= len(removed) + 1
    )


def _is_reversed(clause: Words, stretch: Words) -> bool:
    """Return whether one has the same words in another direction: `from A to B` and `from B to A`,
    `A beats B` and `B beats A`."""
    ours_directions, their_directions = _directions(clause), _directions(stretch)
    if any(
        their_directions.get(stem, direction) != direction
        for stem, direction in ours_directions.items()
    ):
        return True
    slots = [
        [_mark(word) for word in sentence if word.kind == SLOT] for sentence in (clause, stretch)
    ]
    common = [[mark for mark in marks if mark in slots[0] and mark in slots[1]] for marks in slots]
    theirs, ours = stems(clause), stems(stretch)
    offsets = range(len(theirs)) if Counter(theirs) == Counter(ours) else ()
    rotated = not offsets or any(theirs[k:] + theirs[:k] == ours for k in offsets)
    return list(dict.fromkeys(common[0])) != list(dict.fromkeys(common[1])) or not rotated


def _directions(words: Words) -> dict[str, str]:
    """Return the words behind `from`, `to` or `into`, each with that preposition."""
    directions, preposition = {}, ""
    for word in words:
        if word.kind == SMALL:
            preposition = word.key if word.key in _WAYS else preposition
        elif preposition:
            directions[word.stem], preposition = preposition, ""
    return directions


def _has_opposite(missing: Counter[str], ours: tuple[str, ...]) -> bool:
    """Return whether one has `safe` where the other has `unsafe`."""
    pairs = ((prefix + word, word) for word in (*missing, *ours) for prefix in _OPPOSITE)
    return any((a in missing and b in ours) or (b in missing and a in ours) for a, b in pairs)
