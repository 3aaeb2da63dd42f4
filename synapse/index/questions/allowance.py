"""How much an author may still write in this hour: the limits under `hourly` in synapse.yaml.

What was written is counted by one statement, at most once a minute for each author and process; in
between the process counts its own writes. So the limits hold about, and an append asks nothing.
Unverified entries are not counted: whoever forges a name would use up its bearer's hour.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from synapse.errors import QueueFull
from synapse.index.snapshot import Snapshot
from synapse.model.clock import seconds
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.system.typed import NamedTuple

HOUR = 3_600_000_000
_MINUTE = 60_000_000
Snapshots = Callable[[], AbstractContextManager[Snapshot]]
LIMITS = ("criticals", "entries", "bytes")


class Exceeded(NamedTuple):
    """Which limit is reached, how much it allows, and when there is room again."""

    limit: str
    most: int
    frees: int


class _Left:
    """What one author may still write until the next count, and when room comes back."""

    __slots__ = ("asked", "frees", "most", "rooms")

    def __init__(
        self,
        asked: int,
        most: dict[str, int | None],
        rooms: dict[str, float],
        frees: dict[str, int],
    ) -> None:
        self.asked, self.most, self.rooms, self.frees = asked, most, rooms, frees


class Allowances:
    """The allowances of the authors of one workspace, as one process knows them."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        clock: Callable[[], int],
        snapshot: Snapshots,
        write: Callable[..., object],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._snapshot = snapshot
        self._write = write
        self._left: dict[str, _Left] = {}

    def admit(self, entry: Entry) -> Entry:
        """Return an entry as its author's hour lets it in: a critical one beyond the limit as
        important. QueueFull where it may write no more. The first of an hour is noted in the log.
        """
        now = self._clock()
        exceeded = self.spend(entry, now)
        if exceeded is None:
            return entry
        limit, frees = exceeded.limit, seconds(exceeded.frees)
        note = Record.new("limit", entry.author, {"limit": limit, "most": exceeded.most})
        self._write(note, once=f"limit:{limit}:{now // HOUR}")
        if limit == "criticals":
            return entry._replace(priority="important", claimed=entry.priority)
        raise QueueFull(
            f"agent {entry.author} has written what it may in an hour ({exceeded.most:,} {limit}):"
            f" there is room again from {frees}; `hourly.{limit}` in synapse.yaml is the"
            " operator's to change",
            limit=exceeded.most,
            frees=frees,
        )

    def spend(self, entry: Entry, now: int) -> Exceeded | None:
        """Count an entry that is about to be written; return the limit that it exceeds, if any. A
        critical one beyond its limit alone is counted as one that is not.
        """
        tokens = self._left.get(entry.author)
        if tokens is None or not 0 <= now - tokens.asked < _MINUTE:
            tokens = self._left[entry.author] = self._count(entry.author, now)
        rooms, size = tokens.rooms, len(entry.body)
        if rooms["entries"] < 1:
            return self._exceeded(tokens, "entries")
        if rooms["bytes"] < size:
            return self._exceeded(tokens, "bytes")
        rooms["entries"] -= 1
        rooms["bytes"] -= size
        if entry.priority == "critical":
            if rooms["criticals"] < 1:
                return self._exceeded(tokens, "criticals")
            rooms["criticals"] -= 1
        return None

    def _exceeded(self, left: _Left, limit: str) -> Exceeded:
        return Exceeded(limit, left.most[limit] or 0, left.frees[limit])

    def _count(self, author: str, now: int) -> _Left:
        """Return what is left to an author, by what the index has of the last hour."""
        with self._snapshot() as snap:
            values = {"author": author, "floor": snap.floor(now - HOUR)}
            entries, criticals, size, first, first_critical = snap.db.run(
                "written_lately", values
            ).fetchone()
        settings = self._settings()
        written = {"entries": entries, "criticals": criticals or 0, "bytes": size or 0}
        oldest = {"entries": first, "criticals": first_critical, "bytes": first}
        most = {name: settings.hourly_limit(name) for name in LIMITS}
        rooms = {
            name: float("inf") if (limit := most[name]) is None else limit - written[name]
            for name in LIMITS
        }
        frees = {name: (oldest[name] or now) + HOUR for name in LIMITS}
        return _Left(now, most, rooms, frees)
