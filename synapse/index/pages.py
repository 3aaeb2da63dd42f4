"""The pages of an index: which entries a reader sees, how many there are, and what is unread.

`Pages` is what a `Snapshot` is built on. Every statement that returns entries carries the read gate
(`seen` in queries.sql), the twin of `authority.visible`. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from synapse.index.database import Database
from synapse.index.derive.entries import entry_from
from synapse.index.names import EVERYONE, Declared, Names, Numbers, Reach
from synapse.index.postings import Postings
from synapse.model.agents import MAIL, Agent
from synapse.model.entry import NEVER, RANK, Entry
from synapse.system.typed import Any, NamedTuple

CACHED = 4_096
_SPARSE = 0.02
# so much mail for each entry, that it is passed by rather than read over
_TALKATIVE = 1.0
_ALL = 2**62
_MESSAGE = 1


class Filter(NamedTuple):
    """What a page is asked for. `floor` and `since` bound it below, `cursor` above. Messages are on
    it only where their namespace is asked for by name, or `mail` says so.
    """

    priorities: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    author: str | None = None
    tag: str | None = None
    archived: bool = False
    since: int | None = None
    limit: int | None = 50
    mail: bool = False
    until: int | None = None
    kinds: tuple[str, ...] = ()


class Loaded:
    """What every answer needs: the file, the names, and the entries that were built."""

    __slots__ = ("cursor", "db", "entries", "mark", "names", "postings", "turn")

    def __init__(
        self,
        db: Database,
        names: Names,
        cursor: int = 0,
        mark: object = None,
        turn: int = -1,
        entries: dict[tuple[int, int], Entry] | None = None,
        postings: Postings | None = None,
    ) -> None:
        self.db = db
        self.names = names
        self.cursor = cursor
        self.mark = mark
        self.turn = turn
        self.entries: dict[tuple[int, int], Entry] = {} if entries is None else entries
        self.postings = postings or Postings()

    @property
    def declared(self) -> Declared:
        """Return the agents that are declared, as of this moment."""
        return self.names.declared

    # -- entries -----------------------------------------------------------------------------------

    def load(self, rows: Sequence[tuple[int, int, int]], now: int, reach: Reach) -> list[Entry]:
        """Return the entries of these rows (seq, rec, rev), in their order, with the disputes that
        this reader sees now.
        """
        if not rows:
            return []
        cached = self.entries.get
        loaded = [cached((seq, rev)) for seq, _, rev in rows]
        result = [entry for entry in loaded if entry is not None]
        if len(result) < len(rows):
            result = self._load(rows)
        seqs = [row[0] for row in rows]
        ends = {"first": min(seqs), "last": max(seqs)}
        disputed = self._disputed(ends)
        if disputed:
            return [
                self._with_peers(entry, now, reach) if entry.seq in disputed else entry
                for entry in result
            ]
        return result

    def _load(self, rows: Sequence[tuple[int, int, int]]) -> list[Entry]:
        """Return the entries of these rows, some of which were not built yet."""
        entries = self.entries
        missing = [row for row in rows if (row[0], row[2]) not in entries]
        if len(entries) + len(missing) > CACHED:
            entries = self.entries = {}  # another thread may be reading the old one
            missing = list(rows)
        revs = {seq: rev for seq, _, rev in missing}
        seqs = list(revs)
        for start in range(0, len(seqs), 500):
            for row in self._rows(seqs[start : start + 500]):
                entries[row[0], revs[row[0]]] = entry_from(row)
        return [entries[seq, rev] for seq, _, rev in rows]

    def _rows(self, seqs: Sequence[int]) -> Iterable[Any]:
        return self.db.run("rows", seqs=seqs)

    def _disputed(self, ends: dict[str, int]) -> set[int]:
        return {seq for (seq,) in self.db.run("disputed_between", ends)}

    def _with_peers(self, entry: Entry, now: int, reach: Reach) -> Entry:
        values = {"seq": entry.seq, "now": now, "me": reach.me}
        peers = tuple(
            id for (id,) in self.db.run("peers", values, nids=reach.nids, audiences=reach.audiences)
        )
        return entry._replace(disputed=peers)

    # -- places ------------------------------------------------------------------------------------

    def floor(self, since: int | None) -> int:
        """Return the seq after which everything was received since this microsecond."""
        if since is None:
            return 0
        row = self.db.run("floor_of", {"at": since}).fetchone()
        return _ALL if row is None else row[0]

    def ceiling(self, until: int | None) -> int:
        """Return the seq of the last entry that was received before this microsecond."""
        if until is None:
            return _ALL
        row = self.db.run("ceiling_of", {"at": until}).fetchone()
        return 0 if row is None else row[0]


class Pages(Loaded):
    """The pages of the index as it is."""

    __slots__ = ()

    # -- pages -------------------------------------------------------------------------------------

    def page(self, agent: Agent | None, wanted: Filter, now: int) -> list[Entry]:
        """Return the newest entries that the agent may see and the filter lets through, newest
        first.
        """
        reach, prios = self.names.reach(agent), priority_numbers(wanted.priorities)
        values = {
            "floor": self.floor(wanted.since),
            "cursor": self.cursor,
            "now": now,
            "me": reach.me,
        }
        values |= {
            "limit": -1 if wanted.limit is None else wanted.limit,
            "unless": -1 if wanted.mail else _MESSAGE,
        }
        if wanted.author or wanted.tag or wanted.archived or wanted.limit is None:
            rows = self._filtered(reach, wanted, prios, values)
        elif wanted.namespaces:
            within = self.names.within(wanted.namespaces)
            if isinstance(within, tuple) and len(within) * len(prios) <= 24:
                # Few enough for lane by lane; else through the order of the log.
                lanes = self._lanes(reach, within, prios, values)
                rows = _newest(lanes, values["limit"])
            else:
                rows = self._filtered(reach, wanted, prios, values)
        else:
            rows = self._wide(reach, prios, values)
        return self.load(rows, now, reach)

    def _wide(
        self, reach: Reach, prios: tuple[int, ...], values: dict[str, Any]
    ) -> list[tuple[int, int, int]]:
        """Return all that an agent hears of: newest first through the order of the log, or, where
        it hears of little, through its own few lanes.
        """
        total, mine, mail = self.names.weights(reach, prios)
        nids = reach.nids
        if isinstance(nids, tuple) and reach.me != EVERYONE and mine < total * _SPARSE:
            post = self.names.number(MAIL) if values["unless"] == _MESSAGE else None
            rows = self._lanes(reach, [nid for nid in nids if nid != post], prios, values)
            lists: dict[str, Numbers] = {"nids": nids, "audiences": reach.audiences}
            for name in ("lane_own", "lane_addressed"):
                rows |= set(self.db.run(name, values, prios=prios, **lists))
            return _newest(rows, values["limit"])
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        if prios == (0,):
            return self.db.run("page_critical", values, **lists).fetchall()
        if prios == (0, 1):
            return self.db.run("page_weighty", values, **lists).fetchall()
        paged = mail > total * _TALKATIVE and values["unless"] == _MESSAGE
        return self.db.run(
            "page_paged" if paged else "page_all", values, prios=prios, **lists
        ).fetchall()

    def _lanes(
        self, reach: Reach, within: Iterable[int], prios: tuple[int, ...], values: dict[str, Any]
    ) -> set[tuple[int, int, int]]:
        """Return the newest of these lanes, the fullest first: where it fills the page, the others
        are read no deeper.
        """
        rows: set[tuple[int, int, int]] = set()
        limit, floor = values["limit"], values["floor"]
        for prio, nid in product(reversed(prios), within):
            lane = values | {"nid": nid, "prio": prio, "floor": floor}
            rows.update(self.db.run("lane", lane, nids=reach.nids, audiences=reach.audiences))
            if len(rows) >= limit > 0:
                rows = set(_newest(rows, limit))
                floor = min(rows)[0]
        return rows

    def _filtered(
        self, reach: Reach, wanted: Filter, prios: tuple[int, ...], values: dict[str, Any]
    ) -> list[tuple[int, int, int]]:
        values = values | self._values(wanted)
        within = self.names.within(wanted.namespaces)
        lists: dict[str, Numbers] = {"within": within, "prios": prios}
        lists |= {"nids": reach.nids, "audiences": reach.audiences}
        return self.db.run("page_filtered", values, **lists).fetchall()

    def count(self, agent: Agent | None, wanted: Filter, now: int) -> int:
        """Return how many entries that this agent may see match the filter. What it may not see is
        in no count.
        """
        reach = self.names.reach(agent)
        plain = not (wanted.author or wanted.tag or wanted.archived)
        if plain and wanted.since is None:
            in_reach, own, own_in_reach = self._census(reach, wanted, now, self.cursor)
            return in_reach + own - own_in_reach
        values = {
            "floor": self.floor(wanted.since),
            "cursor": self.cursor,
            "now": now,
            "me": reach.me,
        }
        lists: dict[str, Numbers] = {"nids": reach.nids, "audiences": reach.audiences}
        # all there is: best read in one go
        if plain and not wanted.priorities and not wanted.namespaces:
            counts = self.db.run("count_since", values, **lists)
        else:
            lists |= {
                "within": self.names.within(wanted.namespaces),
                "prios": priority_numbers(wanted.priorities),
            }
            counts = self.db.run("count", values | self._values(wanted), **lists)
        return int(counts.fetchone()[0])

    def _census(self, reach: Reach, wanted: Filter, now: int, cursor: int) -> tuple[int, ...]:
        """Return how many live entries these namespaces and priorities have: those that the agent
        hears of, its own, and those of its own that it hears of. From the counts that the
        projection keeps, and what has changed since.
        """
        lists: dict[str, Numbers] = {
            "within": self.names.within(wanted.namespaces),
            "prios": priority_numbers(wanted.priorities),
        }
        values = {"now": now, "cursor": cursor, "me": reach.me}
        rows = self.db.run("census", values, nids=reach.nids, audiences=reach.audiences, **lists)
        return tuple(sum(count or 0 for count in column) for column in zip(*rows, strict=True))

    def _values(self, wanted: Filter) -> dict[str, Any]:
        author = None if wanted.author is None else self.names.author(wanted.author)
        return {"author": author, "tag": wanted.tag, "archived": int(wanted.archived)}

    def unread(self, agent: Agent, now: int) -> tuple[int, int]:
        """Return how many live entries of others the agent was not shown, and when the next of all
        lapses.
        """
        count, _, lapse = self._unread(self.names.reach(agent), now)
        return count, lapse

    def _unread(self, reach: Reach, now: int) -> tuple[int, int, int]:
        """Return the count, the place after which all that it counts stands, and when the next
        entry lapses.

        What came after the last mark is counted row by row; what earlier marks left out is kept as
        counts.
        """
        values = {"now": now, "me": reach.me}
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        total, _, mail = self.names.weights(reach, priority_numbers(()))
        name = "unread_paged" if mail > total * _TALKATIVE else "unread"
        count, lapse, cursor, skipped, ahead = self.db.run(name, values, **lists).fetchone()
        lapse = NEVER if lapse is None else lapse
        if cursor is None:
            in_reach, _, own_in_reach = self._census(reach, Filter(), now, NEVER)
            return in_reach - own_in_reach, 0, lapse
        if skipped is None:
            return count - ahead, cursor, lapse
        floor, _ = self.db.run("shown", values).fetchone()
        bounds = {"floor": floor, "cursor": cursor}
        skipped += sum(change for (change,) in self.db.run("left_since", values | bounds, **lists))
        return count - ahead + skipped, floor if skipped else cursor, lapse

    def unread_rows(
        self, agent: Agent, wanted: Filter, now: int
    ) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
        """Return the rows of entries that the agent was not shown, the most urgent first and of
        these the oldest, as many as the filter's limit; and how many there are in all: critical,
        important, info.
        """
        reach = self.names.reach(agent)
        count, after, _ = self._unread(reach, now)
        if not count:
            return [], (0, 0, 0)
        values = self._values(wanted) | {"now": now, "me": reach.me, "cursor": self.cursor}
        values |= {"floor": max(after, self.floor(wanted.since))}
        values |= {"limit": -1 if wanted.limit is None else wanted.limit}
        lists: dict[str, Numbers] = {
            "within": self.names.within(wanted.namespaces),
            "prios": priority_numbers(wanted.priorities),
        }
        lists |= {"nids": reach.nids, "audiences": reach.audiences}
        counts = self.db.run("fresh_counts", values, **lists).fetchone()
        rows = self.db.run("fresh", values, **lists).fetchall()
        return rows, (counts[0] or 0, counts[1] or 0, counts[2] or 0)

    def next_change(self, now: int) -> int:
        """Return when the next entry lapses, or comes back because what outranked it does."""
        row = self.db.run("next_change", {"now": now}).fetchone()
        return NEVER if row[0] is None else int(row[0])


def priority_numbers(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted(RANK[name] for name in names)) if names else (0, 1, 2)


def _newest(rows: Iterable[tuple[int, int, int]], limit: int) -> list[tuple[int, int, int]]:
    ordered = sorted(rows, reverse=True)
    return ordered if limit < 0 else ordered[:limit]
