"""Semantic search: what is not embedded yet, found by cursor; what is near to a question; two
rankings as one.

Nobody keeps the queue: what waits is what the index holds and the vectors do not. So whoever is
killed while embedding has lost one batch of work at most; nothing is embedded twice, and nothing is
left out. Everything that is found passes the read gate here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256

from synapse.errors import EmbedderError, InvalidQuery, Refused
from synapse.index.full_text import search as full_text
from synapse.index.full_text.search import excerpt
from synapse.index.full_text.terms import sought
from synapse.index.snapshot import Filter, Snapshot
from synapse.index.vectors import embeddable, fusion
from synapse.index.vectors.vectors import Row, Vectors
from synapse.model.agents import Agent
from synapse.model.entry import NEVER, SEALED
from synapse.model.protocols import Embedder
from synapse.model.results import Hit, Hits
from synapse.store import Store
from synapse.system.typed import NamedTuple

WORDS, MEANING, BOTH = MODES = ("words", "meaning", "both")
SCAN = 2_000  # entries that are compared with the vectors at once
BATCH = 32  # entries that are embedded, and noted as embedded, at once
PART = 1_000  # characters: what a small model sees of a text
PARTS = 32
DEPTH = 100  # of each ranking that is fused
LOOK = 2_000  # vectors that are tried at the read gate before all are
STEP = 500  # of those at once
# A question after an order is answered by all that it is about, and nothing of that is nearer to it
# than the rest.
ORDER = re.compile(
    r"\b(?:(?:what|which|the) order (?:in|of|that)|in (?:what|which) order|in order(?! to\b)"
    r"|chronological\w*|sequence of|timeline of)\b|\bв каком порядке\b|\bхронологи"
    r"|\bпоследовательность",
    re.IGNORECASE,
)
NEAR = 0.5  # of the best cosine: what is farther off is there by chance
PAUSE = 1.0


class Queue(NamedTuple):
    """How far embedding is: with which model, how many entries in this call, how many it refused,
    how many wait.
    """

    model: str
    embedded: int
    refused: int
    waiting: int


# -- embedding -------------------------------------------------------------------------------------


def embed(store: Store, limit: int | None = None) -> Queue:
    """Embed what is not embedded yet, at most so many entries. Others may be at it as well: they
    take turns.
    """
    embedder = store.embeddings.embedder
    done = refused = 0
    while limit is None or done < limit:
        store.refresh()
        most = BATCH if limit is None else min(BATCH, limit - done)
        count, failed, finished = store.embeddings.vectors.alone(
            lambda most=most: _batch(store, embedder, most)  # type: ignore[misc]
        )
        done, refused = done + count, refused + failed
        if finished:
            break
    return Queue(embedder.name, done, refused, waiting(store))


def follow(store: Store) -> Iterator[Queue]:
    """Embed what comes, as it comes, without an end. What the embedder's failure leaves undone
    waits for the next time; the first failure is raised.
    """
    yield embed(store)
    while True:
        time.sleep(PAUSE)
        if waiting(store):
            yield embed(store)


def waiting(store: Store) -> int:
    """Return how many entries have not been gone through yet. At most: it may be found that they
    need no vector.
    """
    model = store.embeddings.vectors.model(store.embeddings.embedder.name)
    store.refresh()
    with store.snapshot() as snap:
        return embeddable.count(snap, model.reached if model else 0)


def _batch(store: Store, embedder: Embedder, most: int) -> tuple[int, int, bool]:
    """Embed one batch. Return how many entries were embedded, how many were refused, and whether
    the end was reached.
    """
    vectors = store.embeddings.vectors
    with store.snapshot() as snap:
        horizon = snap.cursor
        floor = _floor(vectors, embedder.name, snap)
        texts, top = embeddable.texts(snap, floor, horizon, SCAN)
    digests = {seq: sha256(text.encode()).digest()[:16] for seq, text in texts.items()}
    missing = vectors.missing(embedder.name, floor, top, digests)
    now = missing[:most]
    rows, refused = _embedded(embedder, {seq: texts[seq] for seq in now}, digests)
    if refused and refused == len(now) and vectors.model(embedder.name) is None:
        raise EmbedderError(
            f"{embedder.name} refuses every text that it is given", model=embedder.name
        )
    is_last = len(now) == len(missing)
    vectors.put(embedder.name, rows, top if is_last else now[-1])
    return len(now) - refused, refused, is_last and top == horizon


def _floor(vectors: Vectors, name: str, snap: Snapshot) -> int:
    """Return how far all has been gone through. Where entries were filed away, brought back or
    changed since, or the log is another one, from the beginning: what was archived or redacted must
    leave, and what is embedded already is only looked at.
    """
    model, horizon = vectors.model(name), snap.cursor
    if model is None:
        return 0
    if vectors.turn(name) != snap.turn:
        vectors.rewind(name, horizon)
        vectors.note_turn(name, snap.turn)
        return 0
    if not embeddable.refiled(snap, model.filed) and model.reached <= horizon:
        return model.reached
    vectors.rewind(name, horizon)
    return 0


def _embedded(
    embedder: Embedder, texts: dict[int, str], digests: dict[int, bytes]
) -> tuple[list[Row], int]:
    """Return the rows of these entries, and how many of them the embedder refused."""
    pieces = {seq: parts(text) for seq, text in texts.items()}
    flat = [
        (seq, number)
        for seq, texts_of_entry in pieces.items()
        for number in range(len(texts_of_entry))
    ]
    rows: list[Row] = []
    for start in range(0, len(flat), BATCH):
        places = flat[start : start + BATCH]
        batch = [pieces[seq][number] for seq, number in places]
        for (seq, number), vector in zip(places, _vectors(embedder, batch), strict=True):
            rows.append(Row(seq, number, digests[seq], vector))
    embedded = {row.seq for row in rows if row.vector is not None}
    return rows, len(texts) - len(embedded)


def _vectors(embedder: Embedder, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
    """Return the texts' vectors; None for one that the embedder refuses, which must not hold up the
    others.
    """
    try:
        return embedder.embed(texts) if texts else []
    except Refused:
        if len(texts) == 1:
            return [None]
        return [vector for text in texts for vector in _vectors(embedder, [text])]


def parts(text: str) -> list[str]:
    """Return a text in pieces that a model sees whole, cut at the ends of paragraphs, lines
    or words where there are any.
    """
    pieces: list[str] = []
    remaining = text.strip()
    while remaining and len(pieces) < PARTS:
        cut = len(remaining) if len(remaining) <= PART else _cut(remaining[:PART])
        pieces.append(remaining[:cut].rstrip())
        remaining = remaining[cut:].lstrip()
    return pieces


def _cut(text: str) -> int:
    """Return where to cut: in the second half of the text, after the largest thing that ends
    there.
    """
    for mark in ("\n\n", "\n", ". ", " "):
        position = text.rfind(mark, len(text) // 2)
        if position > 0:
            return position + len(mark)
    return len(text)


# -- searching -------------------------------------------------------------------------------------


def search(
    store: Store,
    agent: Agent | None,
    text: str,
    wanted: Filter,
    now: int,
    limit: int,
    mode: str | None = None,
) -> Hits:
    """Return what matches best by words, by meaning or by both; without a mode, as the settings
    say, which leave a question after an order to words. Where nobody asked for meaning, an embedder
    that fails is only told of: full text answers.
    """
    if mode is not None and mode not in MODES:
        raise InvalidQuery(f"mode {mode!r} is not one of {', '.join(MODES)}", mode=mode)
    chosen = store.embeddings.semantic
    meant = chosen.embedder and chosen.search and not ORDER.search(text)
    usual = BOTH if meant else WORDS
    selected = mode or usual
    if selected == WORDS or not sought(text):
        return _plain(store, agent, text, wanted, now, limit)
    try:
        nearest = _nearest(store, agent, text, wanted, now, max(limit, DEPTH))
    except EmbedderError as error:
        if mode is not None:
            raise
        plain = _plain(store, agent, text, wanted, now, limit)
        return Hits(plain.hits, plain.partial, plain.ranked, f"searched by words alone: {error}")
    if selected == MEANING:
        return Hits(_hits(store, agent, text, nearest.near[:limit], now))
    return _both(store, agent, text, wanted, now, limit, nearest)


def _plain(
    store: Store, agent: Agent | None, text: str, wanted: Filter, now: int, limit: int
) -> Hits:
    """Return what full text alone finds."""
    with store.snapshot(words=True) as snap:
        return full_text.search(snap, agent, text, wanted, now, limit)


class Near(NamedTuple):
    """An entry near to a question: the cosine, and where the index has it."""

    cosine: float
    seq: int
    rec: int
    rev: int


class Found(NamedTuple):
    """The nearest entries that a reader may see, and the cosines of the nearest of all, whoever may
    see them.
    """

    near: list[Near]
    cosines: dict[int, float]


def _nearest(
    store: Store, agent: Agent | None, text: str, wanted: Filter, now: int, count: int
) -> Found:
    """Return the entries nearest to a text that the agent may see and the filter lets through; too
    far off is not near.
    """
    embedder = store.embeddings.embedder
    (vector,) = embedder.embed([text], query=True)
    ranked = store.embeddings.vectors.nearest(embedder.name, vector, LOOK)
    cosines = {seq: cosine for cosine, seq in ranked}
    near, enough = _through(store, agent, ranked, wanted, now, count)
    if not enough:  # who sees little of what is there has it looked through whole
        rows = [
            item
            for item in store.embeddings.vectors.nearest(embedder.name, vector, NEVER)
            if item[1] not in cosines
        ]
        further, _ = _through(store, agent, rows, wanted, now, count - len(near))
        near += further
    least = near[0].cosine * NEAR if near else 0.0
    return Found(
        [item for item in near[:count] if item.cosine > 0 and item.cosine >= least], cosines
    )


def _through(
    store: Store,
    agent: Agent | None,
    ranked: Sequence[tuple[float, int]],
    wanted: Filter,
    now: int,
    count: int,
) -> tuple[list[Near], bool]:
    """Return those that pass the read gate, the nearest first, and whether what comes after them
    need not be looked at.
    """
    near: list[Near] = []
    for start in range(0, len(ranked), STEP):
        step = ranked[start : start + STEP]
        near += _seen(store, agent, step, wanted, now)
        if len(near) >= count or (near and step[-1][0] < near[0].cosine * NEAR):
            return near, True
    return near, False


def _seen(
    store: Store, agent: Agent | None, ranked: Sequence[tuple[float, int]], wanted: Filter, now: int
) -> list[Near]:
    """Return those that pass the read gate and the filter, in their order."""
    with store.snapshot() as snap:
        places = embeddable.among(snap, [seq for _, seq in ranked], agent, wanted, now)
    return [Near(cosine, *places[seq]) for cosine, seq in ranked if seq in places]


def _both(
    store: Store,
    agent: Agent | None,
    text: str,
    wanted: Filter,
    now: int,
    limit: int,
    nearest: Found,
) -> Hits:
    """Return the two rankings as one. What the words found keeps its excerpt."""
    by_words = _plain(store, agent, text, wanted, now, max(limit, DEPTH))
    hits = {hit.entry.seq: hit for hit in by_words}
    near = {item.seq: item for item in nearest.near}
    by_score = [(hit.entry.seq, hit.score) for hit in by_words]
    cosines = {seq: nearest.cosines[seq] for seq in (*hits, *near) if seq in nearest.cosines}
    scored = fusion.fused(by_score, cosines, list(near))[:limit]
    missing = [near[seq] for seq, _ in scored if seq not in hits]
    hits.update({hit.entry.seq: hit for hit in _hits(store, agent, text, missing, now)})
    best = tuple(hits[seq]._replace(score=score) for seq, score in scored)
    return Hits(best, by_words.partial, by_words.ranked)


def _hits(
    store: Store, agent: Agent | None, text: str, near: Sequence[Near], now: int
) -> tuple[Hit, ...]:
    rows = [(item.seq, item.rec, item.rev) for item in near]
    with store.snapshot() as snap:
        entries = snap.load(rows, now, snap.names.reach(agent))
    query_words = frozenset(sought(text))
    pairs = zip(entries, near, strict=True)
    return tuple(
        Hit(entry, item.cosine, *excerpt("" if entry.scope in SEALED else entry.body, query_words))
        for entry, item in pairs
    )
