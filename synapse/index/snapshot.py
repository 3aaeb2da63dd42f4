"""The questions that an index answers, as of one moment: pages, counts, single entries, runs, acts.

Every statement that returns entries carries the read gate (`seen` in queries.sql), the twin of
`authority.visible`. Nothing here writes. Whoever asks gets a snapshot from `Store.snapshot`; the
questions of mail, knowledge and nightly maintenance stand in modules of their own and take one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from synapse.index.database import Database
from synapse.index.names import EVERYONE, Declared, Names, Reach
from synapse.index.projector import entry_from, read_entry
from synapse.model.agents import MAIL, Agent
from synapse.model.entry import NEVER, RANK, Entry
from synapse.model.records import Record
from synapse.model.results import Fate, Hits
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


class Snapshot:
    """What an index answers as of one moment. Threads may share it.

    `cursor` is the last record that it knows: no page goes beyond it. `mark` names the moment, so
    that an answer which was kept is known to be still true; `turn` says how often the log was
    another one by then. Entries that were built once are kept: they never change but by a vouch or
    the archive, which bump `rev`.
    """

    __slots__ = ("cursor", "db", "entries", "mark", "names", "turn")

    def __init__(
        self,
        db: Database,
        names: Names,
        cursor: int = 0,
        mark: object = None,
        turn: int = -1,
        entries: dict[tuple[int, int], Entry] | None = None,
    ) -> None:
        self.db = db
        self.names = names
        self.cursor = cursor
        self.mark = mark
        self.turn = turn
        self.entries: dict[tuple[int, int], Entry] = {} if entries is None else entries

    @property
    def declared(self) -> Declared:
        """Return the agents that are declared, as of this moment."""
        return self.names.declared

    # -- pages -------------------------------------------------------------------------------------

    def page(self, agent: Agent | None, wanted: Filter, now: int) -> list[Entry]:
        """Return the newest entries that the agent may see and the filter lets through, newest
        first.
        """
        reach, prios = self.names.reach(agent), _prios(wanted.priorities)
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
            rows = self._narrow(
                reach, self.names.within(wanted.namespaces), prios, values, wanted
            )
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
        if reach.me != EVERYONE and mine < total * _SPARSE:
            post = (
                self.names.namespaces.get(MAIL)
                if values["unless"] == _MESSAGE
                else None
            )
            rows = self._lanes(
                reach, [nid for nid in reach.nids if nid != post], prios, values
            )
            rows |= set(self.db.run("lane_own", values, prios=prios))
            rows |= set(
                self.db.run(
                    "lane_addressed", values, prios=prios, audiences=reach.audiences
                )
            )
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

    def _narrow(
        self,
        reach: Reach,
        within: tuple[int, ...],
        prios: tuple[int, ...],
        values: dict[str, Any],
        wanted: Filter,
    ) -> list[tuple[int, int, int]]:
        """Return what stands in these namespaces: lane by lane where they are few, else through the
        order of the log.
        """
        if len(within) * len(prios) <= 24:
            return _newest(self._lanes(reach, within, prios, values), values["limit"])
        return self._filtered(reach, wanted, prios, values)

    def _lanes(
        self,
        reach: Reach,
        within: Iterable[int],
        prios: tuple[int, ...],
        values: dict[str, Any],
    ) -> set[tuple[int, int, int]]:
        """Return the newest of these lanes, the fullest first: where it fills the page, the others
        are read no deeper.
        """
        rows: set[tuple[int, int, int]] = set()
        limit, floor = values["limit"], values["floor"]
        for prio, nid in product(reversed(prios), within):
            lane = values | {"nid": nid, "prio": prio, "floor": floor}
            rows.update(
                self.db.run("lane", lane, nids=reach.nids, audiences=reach.audiences)
            )
            if len(rows) >= limit > 0:
                rows = set(_newest(rows, limit))
                floor = min(rows)[0]
        return rows

    def _filtered(
        self,
        reach: Reach,
        wanted: Filter,
        prios: tuple[int, ...],
        values: dict[str, Any],
    ) -> list[tuple[int, int, int]]:
        values = values | self._values(wanted)
        lists = {"within": self.names.within(wanted.namespaces), "prios": prios}
        lists |= {"nids": reach.nids, "audiences": reach.audiences}
        return self.db.run("page_filtered", values, **lists).fetchall()

    def count(self, agent: Agent | None, wanted: Filter, now: int) -> tuple[int, int]:
        """Return how many entries match the filter, and how many of those this agent may see."""
        reach = self.names.reach(agent)
        plain = not (wanted.author or wanted.tag or wanted.archived)
        if plain and wanted.since is None:
            matched, of_namespaces, own, own_heard = self._census(
                reach, wanted, now, self.cursor
            )
            return matched, of_namespaces + own - own_heard
        values = {
            "floor": self.floor(wanted.since),
            "cursor": self.cursor,
            "now": now,
            "me": reach.me,
        }
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        if (
            plain and not wanted.priorities and not wanted.namespaces
        ):  # all there is: best read in one go
            counts = self.db.run("count_since", values, **lists)
        else:
            lists |= {
                "within": self.names.within(wanted.namespaces),
                "prios": _prios(wanted.priorities),
            }
            counts = self.db.run("count", values | self._values(wanted), **lists)
        matched, visible = counts.fetchone()
        return matched, visible or 0

    def _census(
        self, reach: Reach, wanted: Filter, now: int, cursor: int
    ) -> tuple[int, ...]:
        """Return how many live entries these namespaces and priorities have: all, those that the
        agent hears of, its own, and those of its own that it hears of. From the counts that the
        projection keeps, and what has changed since.
        """
        lists = {
            "within": self.names.within(wanted.namespaces),
            "prios": _prios(wanted.priorities),
        }
        values = {"now": now, "cursor": cursor, "me": reach.me}
        rows = self.db.run(
            "census", values, nids=reach.nids, audiences=reach.audiences, **lists
        )
        return tuple(
            sum(count or 0 for count in column) for column in zip(*rows, strict=True)
        )

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
        total, _, mail = self.names.weights(reach, _prios(()))
        name = "unread_paged" if mail > total * _TALKATIVE else "unread"
        count, lapse, cursor, skipped, ahead = self.db.run(
            name, values, **lists
        ).fetchone()
        lapse, after = NEVER if lapse is None else lapse, 0
        if cursor is None:
            _, reached, _, own_heard = self._census(reach, Filter(), now, NEVER)
            return reached - own_heard, 0, lapse
        if skipped is not None:
            after, _ = self.db.run("shown", values).fetchone()
            bounds = {"floor": after, "cursor": cursor}
            skipped += sum(
                change
                for (change,) in self.db.run("left_since", values | bounds, **lists)
            )
        return count - ahead + (skipped or 0), after if skipped else cursor, lapse

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
        values = self._values(wanted) | {
            "now": now,
            "me": reach.me,
            "cursor": self.cursor,
        }
        values |= {"floor": max(after, self.floor(wanted.since))}
        values |= {"limit": -1 if wanted.limit is None else wanted.limit}
        lists = {
            "within": self.names.within(wanted.namespaces),
            "prios": _prios(wanted.priorities),
        }
        lists |= {"nids": reach.nids, "audiences": reach.audiences}
        counts = self.db.run("fresh_counts", values, **lists).fetchone()
        rows = self.db.run("fresh", values, **lists).fetchall()
        return rows, (counts[0] or 0, counts[1] or 0, counts[2] or 0)

    def next_release(self, now: int) -> int:
        """Return when the next hidden entry comes back because the one that outranked it lapses."""
        row = self.db.run("next_release", {"now": now}).fetchone()
        return NEVER if row is None else int(row[0])

    def search(
        self, agent: Agent | None, text: str, wanted: Filter, now: int, limit: int
    ) -> Hits:
        """Return what full text finds, the best first. For a snapshot with `words`."""
        from synapse.index import full_text

        return full_text.search(self, agent, text, wanted, now, limit)

    # -- single entries ----------------------------------------------------------------------------

    def load(
        self, rows: Sequence[tuple[int, int, int]], now: int, reach: Reach
    ) -> list[Entry]:
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
        disputed = {seq for (seq,) in self.db.run("disputed_between", ends)}
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
        self._read(missing, entries)
        return [entries[seq, rev] for seq, _, rev in rows]

    def _read(
        self,
        rows: Sequence[tuple[int, int, int]],
        entries: dict[tuple[int, int], Entry],
    ) -> None:
        revs = {seq: rev for seq, _, rev in rows}
        seqs = list(revs)
        for start in range(0, len(seqs), 500):
            for row in self.db.run("rows", seqs=seqs[start : start + 500]):
                entries[row[0], revs[row[0]]] = entry_from(row)

    def _with_peers(self, entry: Entry, now: int, reach: Reach) -> Entry:
        values = {"seq": entry.seq, "now": now, "me": reach.me}
        peers = tuple(
            id
            for (id,) in self.db.run(
                "peers", values, nids=reach.nids, audiences=reach.audiences
            )
        )
        return entry._replace(disputed=peers)

    def entry(self, id: str, now: int, agent: Agent | None = None) -> Entry | None:
        """Return the entry under an id, whatever became of it: live, hidden, archived or staged. Of
        its disputes, those that the agent may see; whether it may see the entry is the caller's to
        ask.
        """
        row = self.db.run("id_of", {"id": id}).fetchone()
        if row is None:
            return None
        rec, seq = row
        if seq is None:
            return self.staged_entry(
                rec, self.db.run("act_at", {"seq": rec}).fetchone()[0]
            )
        return self._with_peers(
            entry_from(self.db.run("row", {"seq": seq}).fetchone()),
            now,
            self.names.reach(agent),
        )

    def all(self, now: int) -> list[Entry]:
        """Return every entry that took effect, oldest first: live, hidden or archived."""
        rows = self.db.run("every", {"cursor": self.cursor}).fetchall()
        entries: list[Entry] = []
        for start in range(0, len(rows), 500):
            entries += self.load(rows[start : start + 500], now, self.names.reach(None))
        return entries

    def to_reader(self, agent: Agent, now: int, limit: int) -> list[Entry]:
        """Return the newest live info that is addressed to the agent or to a team of it."""
        reach = self.names.reach(agent)
        values = {
            "floor": 0,
            "cursor": self.cursor,
            "now": now,
            "limit": limit,
            "unless": -1,
        }
        rows = self.db.run(
            "lane_addressed", values, prios=(2,), audiences=reach.audiences
        )
        return self.load(rows.fetchall(), now, reach)

    def entries_under(
        self, key: str, now: int, agent: Agent
    ) -> list[tuple[Entry, bool, dict[str, Any]]]:
        """Return the entries that were written under a key of a guard, newest first: each with
        whether it is live, and the fields of its record. Whether the agent may see it is the
        caller's to ask."""
        rows = self.db.run("keyed_entries", {"key": key, "now": now}).fetchall()
        entries = self.load([row[:3] for row in rows], now, self.names.reach(agent))
        return [
            (entry, bool(live), json.loads(fields))
            for entry, (*_, live, fields) in zip(entries, rows, strict=True)
        ]

    def conditional(self, floor: int) -> list[int]:
        """Return the places after this one of entries that are for a moment: those with `when`."""
        return [seq for (seq,) in self.db.run("conditional", {"floor": floor})]

    def standing(self, seqs: Sequence[int], now: int, agent: Agent) -> list[Entry]:
        """Return those of the entries at these places that are live, oldest first. Whether the
        agent may see them is the caller's to ask."""
        rows = self.db.run("standing", {"now": now}, seqs=tuple(seqs)).fetchall()
        return self.load(rows, now, self.names.reach(agent))

    def addressed(self, name: str, now: int) -> list[Entry]:
        """Return the live entries addressed to this name, newest first; whoever may see them."""
        lists = [
            num for num, listed in self.db.run("audiences") if name in listed.split(" ")
        ]
        values = {
            "floor": 0,
            "cursor": self.cursor,
            "now": now,
            "limit": -1,
            "unless": -1,
        }
        rows = self.db.run(
            "lane_addressed", values, prios=(0, 1, 2), audiences=lists
        ).fetchall()
        return self.load(rows, now, self.names.reach(None))

    def hidden_until(self, seq: int) -> int:
        """Return the microsecond before which an entry is not shown; 0 where it is."""
        (until,) = self.db.run("hidden", {"seq": seq}).fetchone()
        return int(until)

    def staged(self) -> list[Entry]:
        """Return what waits for review, oldest first."""
        return [
            self.staged_entry(rec, at) for rec, at in self.db.run("staged").fetchall()
        ]

    def staged_entry(self, rec: int, at: int) -> Entry:
        id, head, body = self.db.run("texts", {"rec": rec}).fetchone()
        return read_entry(id, head, body, rec, at)._replace(staged=True)

    def fate(self, entry: Entry, now: int) -> Fate | None:
        if entry.staged:
            return None if self._waits(entry.id) else Fate("rejected", "", NEVER)
        row = self.db.run(
            "fate", {"seq": entry.seq, "now": now, "never": NEVER}
        ).fetchone()
        if row is not None:
            return Fate(*row)
        if entry.archived:
            return Fate("archived", "", NEVER)
        return Fate("expired", "", NEVER) if entry.expires <= now else None

    def _waits(self, id: str) -> bool:
        return any(entry.id == id for entry in self.staged())

    # -- agents and what they did ------------------------------------------------------------------

    def last_active(self) -> dict[str, int]:
        return dict(self.db.run("last_active").fetchall())

    def shown(self, agent: str) -> int:
        """Return the place up to which everything counts as shown to the agent, whatever it was."""
        row = self.db.run("shown", {"me": self.names.author(agent)}).fetchone()
        return 0 if row is None else row[0]

    def seen(self, agent: Agent, first: int, last: int) -> tuple[int, frozenset[int]]:
        """Return the place up to which everything was shown to the agent, and the entries between
        two others that were shown to it by name, by what the log said up to a cursor.
        """
        values = {
            "me": self.names.reach(agent).me,
            "first": first,
            "last": last,
            "cursor": self.cursor,
        }
        return self.shown(agent.id), frozenset(
            seq for (seq,) in self.db.run("seen_between", values)
        )

    def blockers(self, since: int) -> list[tuple[str, str, int]]:
        """Return how many critical entries came in `blockers/`: namespace, author, count."""
        return self.db.run("blockers", {"since": since}).fetchall()

    def acts(
        self, by: str | None, ref: str | None, at: int, limit: int | None
    ) -> list[Record]:
        """Return who did what, newest first: entries and every act on them."""
        values = {
            "by": by,
            "ref": ref,
            "at": at,
            "limit": -1 if limit is None else limit,
        }
        rows = self.db.run("acts", values)
        return [
            Record(seq, at, kind, by, id, json.loads(fields))
            for seq, at, kind, by, id, fields in rows
        ]

    # -- what guards and retries go by -------------------------------------------------------------

    def first(self, by: str, once: str) -> int | None:
        """Return the seq of the first record that this agent wrote under this key."""
        row = self.db.run("first_once", {"by": by, "key": once}).fetchone()
        return None if row is None else row[0]

    def keyed(self, key: str) -> list[Record]:
        """Return all records with this guard key, in order; seq and fields are filled in."""
        item = key.removeprefix("item:")
        run = self.db.run
        rows = (
            run("keyed", {"key": key}) if item == key else run("touched", {"id": item})
        )
        return [
            Record(seq, 0, "", "", None, json.loads(fields), key=key)
            for seq, fields in rows
        ]

    def whereabouts(self, id: str) -> str:
        """Return where an entry is now: `live`, `staged`, `archived`, or `gone`."""
        row = self.db.run("place_of", {"id": id}).fetchone()
        return "gone" if row is None else row[0]

    # -- runs --------------------------------------------------------------------------------------

    def run(self, id: str) -> dict[str, Any] | None:
        """Return a run as all of its records make it, with its agent, its place and its times; None
        where there is none.
        """
        row = self.db.run("run", {"id": id}).fetchone()
        return _run_from(row) if row else None

    def runs(
        self,
        state: str | None = None,
        root: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        limit: int | None = None,
        parent: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the runs of which all of this is so, newest first."""
        values = {
            "state": state,
            "root": root,
            "agent": agent,
            "project": project,
            "parent": parent,
        }
        return [
            _run_from(row)
            for row in self._asked("runs", ("parent", "root", "state"), values, limit)
        ]

    def children(self, id: str) -> list[dict[str, Any]]:
        """Return the runs that this one spawned, newest first."""
        return self.runs(parent=id)

    def deliveries(
        self,
        agent: str | None = None,
        run: str | None = None,
        entry: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return how far entries came on their way to agents, newest first: one for each state that
        each reached.
        """
        rows = self._asked(
            "deliveries",
            ("entry", "run", "agent"),
            {"agent": agent, "run": run, "entry": entry},
            limit,
        )
        return [
            dict(
                zip(("entry", "agent", "run", "epoch", "state", "at"), row, strict=True)
            )
            for row in rows
        ]

    def _asked(
        self,
        name: str,
        narrow: Iterable[str],
        values: Mapping[str, Any],
        limit: int | None,
    ) -> Iterable[Any]:
        """Return the rows of a question, through the index of the narrowest of its values."""
        by = next(
            (f"{name}_by_{column}" for column in narrow if values[column] is not None),
            name,
        )
        return self.db.run(by, {**values, "limit": -1 if limit is None else limit})

    # -- places -----------------------------------------------------------------------------------

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


def _run_from(row: tuple[str, str, int, int, int | None]) -> dict[str, Any]:
    fields, agent, seq, at, ended_at = row
    return {
        **json.loads(fields),
        "agent": agent,
        "seq": seq,
        "at": at,
        "ended_at": ended_at,
    }


def _prios(names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted(RANK[name] for name in names)) if names else (0, 1, 2)


def _newest(
    rows: Iterable[tuple[int, int, int]], limit: int
) -> list[tuple[int, int, int]]:
    ordered = sorted(rows, reverse=True)
    return ordered if limit < 0 else ordered[:limit]
