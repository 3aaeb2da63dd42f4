"""Entries made of the rows of the index."""

from __future__ import annotations

import json
from collections.abc import Mapping

from synapse.model.entry import Entry
from synapse.model.records import Record, entry_of
from synapse.system.typed import Any


def read_entry(id: str, head: str, body: str, seq: int, at: int) -> Entry:
    fields = json.loads(head)
    fields["body"] = body
    return entry_of(Record(seq, at, "entry", fields["author"], id, fields))


def entry_from(row: tuple[int, int, int, int, str, str, str]) -> Entry:
    """Return the entry of a row of the statement `rows`."""
    seq, at, _, archived, id, head, body = row
    entry = read_entry(id, head, body, seq, at)
    return entry._replace(archived=True) if archived else entry


def sources_in(head: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the entries, and runs, that an entry's fields say it is made of."""
    return (*head.get("derived_from", ()), *(head.get("more") or {}).get("cites", ()))


def size(head: str, entry: Entry) -> int:
    """Return how many bytes an entry takes: its fields and its text."""
    return len(head.encode()) + len(entry.body.encode())
