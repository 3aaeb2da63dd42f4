"""Full text: SQLite's FTS5, filled in batches outside the append, ranked by bm25 over what the reader may see."""

from __future__ import annotations

import json
import sqlite3

from synapse import kinds
from synapse.errors import StoreError
from synapse.index.db import Database
from synapse.index.query import Filter, Query
from synapse.page import Hit, Hits
from synapse.workspace import Agent

RANKED = 300
BATCH = 20_000
MAX_WORDS = 32


def words_of(query: str) -> list[str]:
    """The words of a query as the index cuts them; quotes, operators and signs of any kind only separate."""
    found, word = [], ""
    for char in query[:1000]:
        if char.isalnum():
            word += char
        elif word:
            found.append(word)
            word = ""
    return [*found, word][:MAX_WORDS] if word else found[:MAX_WORDS]


def fill(db: Database, floor: int, limit: int = BATCH) -> int:
    """Index the next entries after a place; the place reached."""
    rows = db.run("unworded", {"floor": floor, "limit": limit}).fetchall()
    batch: list[tuple[object, ...]] = []
    for seq, body, head in rows:
        fields = json.loads(head)
        own = kinds.texts(fields.get("more", {}))
        label = " ".join((*fields.get("tags", ()), fields.get("topic") or "", fields["namespace"], *own))
        batch.append((seq, body, label))
    db.many("word", batch)
    return rows[-1][0] if rows else floor


def search(query: Query, agent: Agent | None, text: str, wanted: Filter, now: int, limit: int) -> Hits:
    """The best matches: entries with every word of the query, or, where none has them all, with any."""
    words = [f'"{word}"' for word in words_of(text)]
    if not words:
        return Hits(())
    rows = _rows(query, agent, " ".join(words), wanted, now)
    if not rows and len(words) > 1:
        rows = _rows(query, agent, " OR ".join(words), wanted, now)
    best = sorted(rows)[:limit]
    entries = query.load([(-negated, rec, rev) for _, negated, rec, rev in best], now, query.reach(agent))
    plain = [word.strip('"').casefold() for word in words]
    hits = (Hit(entry, -row[0], excerpt(entry.body, plain)) for entry, row in zip(entries, best, strict=True))
    return Hits(tuple(hits), len(rows) >= RANKED, len(rows))


def _rows(query: Query, agent: Agent | None, match: str, wanted: Filter, now: int) -> list[tuple[float, int, int, int]]:
    """Rank, negated seq, rec and rev of the matches: sorted, the best come first, and of equals the newest."""
    reach = query.reach(agent)
    values = {"query": match, "now": now, "me": reach.me, "archived": int(wanted.archived), "limit": RANKED}
    values["anywhere"] = int(not wanted.namespaces)
    within = query._within(wanted.namespaces) if wanted.namespaces else ()
    try:
        return query.db.run("search", values, within=within, nids=reach.nids, audiences=reach.audiences).fetchall()
    except StoreError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) and "fts5" in str(error):
            return []  # no token of the query survives the tokenizer
        raise


def excerpt(body: str, words: list[str], width: int = 160) -> str:
    """The part of the body around the first word that matched, on one line."""
    flat = " ".join(body.split())
    folded = flat.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0]
    start = max(0, min(places, default=0) - width // 4)
    cut = flat[start : start + width]
    return ("…" if start else "") + cut + ("…" if start + width < len(flat) else "")
