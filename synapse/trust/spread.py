"""The brake on text that spreads by itself: an entry that tells its readers to copy it.

What a run writes is compared with what it was shown by others. A copy is counted under the first
entry of its kind; from some number on, within a day, one more is not shown: it waits for review.
The gate of `access` asks here before a run writes; agents outside of runs are not looked at.
"""

from __future__ import annotations

import re

from synapse.index.pages import Filter
from synapse.index.snapshot import Snapshot
from synapse.model.agents import Agent
from synapse.model.clock import DAY
from synapse.model.entry import Entry
from synapse.privacy.personal import texts_of
from synapse.system.typed import Any, NamedTuple
from synapse.trust.lineage import Sights

COPIES = 3  # so many within a day are shown
SHARE = 0.5  # of the text of an entry, that makes another text a copy of it
LONG, SHORT_SHARE = 16, 0.75  # rows; what has fewer is like others more easily
PASSAGE = 20  # rows of another text that make a copy, however much stands beside them
WORDS = 4  # in a row
LEAST = 6  # words that a text has which can ask for something
LATEST = 200  # entries that a run was shown, at most
# newest entries that a run may have read by a command, a process of its own
RECENT = 50
CACHED = 4_096  # texts whose words in a row are kept
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"^[^\S\n]*>.*$", re.MULTILINE)  # on one line, or it is quadratic

Rows = frozenset[tuple[str, ...]]


class Braked(NamedTuple):
    """An entry as it may be written, the fields of its record, and its key."""

    entry: Entry
    fields: dict[str, Any]
    key: str | None


class Brake(NamedTuple):
    """What runs were shown up to now: in the index, and the words of texts that are kept."""

    snap: Snapshot
    sights: Sights
    now: int
    agent: Agent | None
    command: bool = False  # whether this process is one of many of its run

    def apply(self, run: str, entry: Entry, sight: dict[str, Any]) -> Braked:
        """Return an entry of a run as it may be written: one copy too many waits for review."""
        first = self._first(run, entry, [*sight.get("saw", ())])
        if first is None:
            return Braked(entry, sight, None)
        key, since = f"copy:{first}", self.now - DAY
        copies = sum(copy_of(r.fields)[1] > since for r in self.snap.keyed(key))
        fields = sight | {"copy": [first, self.now]}
        if copies < COPIES:
            return Braked(entry, fields, key)
        reason = f"held: {copies} copies of {first} within a day, and this is one more"
        return Braked(entry._replace(staged=True, evidence=reason), fields, None)

    def _first(self, run: str, entry: Entry, saw: list[str]) -> str | None:
        """Return the entry that this one is a copy of, or that was copied there; None where it is
        no copy of what its run was shown.
        """
        shown = [row["entry"] for row in self.snap.deliveries(run=run, limit=LATEST)]
        own = _rows_of_entry(entry)
        # it may have read in another process
        if not saw and (self.command or not shown):
            recent = Filter(since=self.now - DAY, limit=RECENT, mail=True)
            shown += [other.id for other in self.snap.page(self.agent, recent, self.now)]
        for id in dict.fromkeys((*saw, *shown)):
            author, rows = self._known(id)
            if author != entry.author and _is_copy(own, rows):
                return copy_of(self.snap.record_fields(id))[0] or id
        return None

    def _known(self, id: str) -> tuple[str, Rows]:
        """Return author and words of an entry, which do not change."""
        prints = self.sights.prints
        if id not in prints:
            if len(prints) >= CACHED:
                prints.clear()
            entry = self.snap.entry(id, self.now)
            prints[id] = (entry.author, _rows_of_entry(entry)) if entry else ("", frozenset())
        return prints[id]


def copy_of(fields: Any) -> tuple[str, int]:
    """Return which entry a record is a copy of, by its own words, and since when."""
    first, at = fields.get("copy") or ("", 0)
    return str(first), int(at)


def _rows_of_entry(entry: Entry) -> Rows:
    """Return the words of all texts of an entry: in each of them readers can be told to copy it."""
    return frozenset().union(*(rows_of(text) for _, text in texts_of(entry)))


def rows_of(text: str) -> Rows:
    """Return the words of a text, some in a row each. What is quoted as in mail is left out."""
    words = _WORD.findall(_QUOTED.sub("", text).casefold())
    if len(words) < LEAST:
        return frozenset()
    return frozenset(zip(*(words[i:] for i in range(WORDS)), strict=False))


def _is_copy(own: Rows, rows: Rows) -> bool:
    """Return whether a text has so much of another one, or a long passage of it."""
    share = SHARE if len(rows) >= LONG else SHORT_SHARE
    shared = len(own & rows)
    return bool(rows) and (shared >= PASSAGE or shared >= share * len(rows))
