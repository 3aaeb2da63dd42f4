"""The questions that an index answers, as of one moment: pages, single entries, runs and acts.

Pages and counts are in `pages`; the rest is here. Nothing here writes. Whoever asks gets a snapshot
from `Store.snapshot`; the questions of mail, knowledge and nightly maintenance stand in modules of
their own and take one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from synapse.index.derive.corrections import Steps
from synapse.index.derive.entries import entry_from, read_entry
from synapse.index.derive.progress import read_reached
from synapse.index.pages import Filter as Filter
from synapse.index.pages import Pages
from synapse.model.agents import Agent
from synapse.model.entry import NEVER, Entry
from synapse.model.records import Record
from synapse.model.results import Fate
from synapse.system.typed import Any

# What may be asked of runs and of deliveries, what leaves the fewest first. Of those of a time, the
# order by `seq` would look at all runs, were they not said to be few.
_OF_RUNS = {
    "prefix": "id between :prefix and :prefix || char(1114111)",
    "parent": "parent = :parent",
    "root": "root = :root",
    "state": "state = :state",
    "ended_since": "unlikely(ended_at >= :ended_since)",
    "since": "unlikely(at >= :since)",
    "until": "at < :until",
    "agent": "agent = :agent",
    "project": "project = :project",
    "no_project": "coalesce(project, '') = ''",
    "before": "seq < :before",
    "department": "department = :department",
    "role": "role = :role",
    "model": "model = :model",
    "statuses": "coalesce(status, 'ended') in (select value from json_each(:statuses))",
    "no_statuses": "coalesce(status, 'ended') not in (select value from json_each(:no_statuses))",
}
_OF_DELIVERIES = {"entry": "entry = :entry", "run": "run = :run", "agent": "agent = :agent"}


class Snapshot(Pages):
    """What an index answers as of one moment. Threads may share it.

    `cursor` is the last record that it knows: no page goes beyond it. `mark` names the moment, so
    that an answer which was kept is known to be still true; `turn` says how often the log was
    another one by then. Entries that were built once are kept: they never change but by a vouch or
    the archive, which bump `rev`.
    """

    __slots__ = ()

    # -- times -------------------------------------------------------------------------------------

    def last_stamp(self) -> int:
        """Return the time that is stamped on the last record, right or wrong; 0 for none."""
        return read_reached(self.db).stamped

    def steps(self) -> Steps:
        """Return where the log's time steps back."""
        return read_reached(self.db).steps

    # -- single entries ----------------------------------------------------------------------------

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
            return self.staged_entry(rec, self.db.run("act_at", {"seq": rec}).fetchone()[0])
        return self._with_peers(
            entry_from(self.db.run("row", {"seq": seq}).fetchone()), now, self.names.reach(agent)
        )

    def bodies(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the texts of these entries, of those that there are, by their ids. Whether anybody
        may see them is the caller's to ask.
        """
        return dict(self.db.run("bodies", {"ids": json.dumps([*ids])}).fetchall())

    def all(self, now: int) -> list[Entry]:
        """Return every entry that took effect, oldest first: live, hidden or archived."""
        return self._loaded("every", {"cursor": self.cursor}, now)

    def criticals(self, at: int, now: int) -> list[Entry]:
        """Return every critical entry that took effect since a time, oldest first."""
        return self._loaded("criticals", {"cursor": self.cursor, "at": at}, now)

    def tellings(self, at: int) -> list[Record]:
        """Return the records of what agents were told and shown since a time, oldest first."""
        rows = self.db.run("tellings", {"cursor": self.cursor, "at": at})
        return [
            Record(seq, at, kind, by, None, json.loads(fields))
            for seq, at, kind, by, fields in rows
        ]

    def _loaded(self, query: str, values: Mapping[str, Any], now: int) -> list[Entry]:
        rows = self.db.run(query, values).fetchall()
        entries: list[Entry] = []
        for start in range(0, len(rows), 500):
            entries += self.load(rows[start : start + 500], now, self.names.reach(None))
        return entries

    def to_reader(self, agent: Agent, now: int, limit: int) -> list[Entry]:
        """Return the newest live info that is addressed to the agent or to a team of it."""
        reach = self.names.reach(agent)
        values = {"floor": 0, "cursor": self.cursor, "now": now, "limit": limit, "unless": -1}
        values |= {"me": reach.me}
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        rows = self.db.run("lane_addressed", values, prios=(2,), **lists)
        return self.load(rows.fetchall(), now, reach)

    def entries_under(
        self, key: str, now: int, agent: Agent | None
    ) -> list[tuple[Entry, bool, dict[str, Any]]]:
        """Return the entries that were written under a key of a guard, newest first: each with
        whether it is live, and the fields of its record. Whether the agent may see it is the
        caller's to ask."""
        reach = self.names.reach(agent)
        values = {"key": key, "now": now, "me": reach.me}
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        rows = self.db.run("keyed_entries", values, **lists).fetchall()
        entries = self.load([row[:3] for row in rows], now, reach)
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
        reach = self.names.reach(agent)
        lists = {"nids": reach.nids, "audiences": reach.audiences, "seqs": tuple(seqs)}
        rows = self.db.run("standing", {"now": now, "me": reach.me}, **lists).fetchall()
        return self.load(rows, now, reach)

    def addressed(self, name: str, now: int) -> list[Entry]:
        """Return the live entries addressed to this name, newest first; whoever may see them."""
        lists = [num for num, listed in self.db.run("audiences") if name in listed.split(" ")]
        reach = self.names.reach(None)
        values = {"floor": 0, "cursor": self.cursor, "now": now, "limit": -1, "unless": -1}
        values |= {"me": reach.me}
        rows = self.db.run(
            "lane_addressed", values, prios=(0, 1, 2), nids=reach.nids, audiences=lists
        ).fetchall()
        return self.load(rows, now, reach)

    def record_fields(self, id: str) -> dict[str, Any]:
        """Return the fields of the record of an entry, those that are not the entry's own, too."""
        row = self.db.run("id_of", {"id": id}).fetchone()
        text = row and self.db.run("texts", {"rec": row[0]}).fetchone()
        return json.loads(text[1]) if text else {}

    def is_tainted(self, id: str) -> bool:
        """Return whether an entry is tainted, by whichever of its ids."""
        return self.names.contained and self.db.run("is_tainted", {"id": id}).fetchone() is not None

    def hidden_until(self, seq: int) -> int:
        """Return the microsecond before which nobody is shown an entry; 0 where somebody is."""
        (until,) = self.db.run("hidden", {"seq": seq}).fetchone()
        return max(int(until), 0)

    def staged(self) -> list[Entry]:
        """Return what waits for review, oldest first."""
        return [self.staged_entry(rec, at) for rec, at in self.db.run("staged").fetchall()]

    def staged_entry(self, rec: int, at: int) -> Entry:
        id, head, body = self.db.run("texts", {"rec": rec}).fetchone()
        return read_entry(id, head, body, rec, at)._replace(staged=True)

    def foreign_count(self) -> int:
        """Return how many records were written elsewhere and do not count."""
        return read_reached(self.db).foreign

    def is_foreign(self, id: str) -> bool:
        """Return whether an id is that of a record that does not count."""
        return self.db.run("foreign_holder", {"id": id}).fetchone() is not None

    def foreign(self) -> list[int]:
        """Return the places of the records that were written elsewhere and do not count."""
        return [seq for (seq,) in self.db.run("foreign_records")]

    def fate(self, entry: Entry, now: int, agent: Agent | None = None) -> Fate | None:
        """Return why this agent is not shown an entry that it may see; None where it is. What it
        may not see takes no entry from it.
        """
        if entry.staged:
            waits = any(waiting.id == entry.id for waiting in self.staged())
            return None if waits else Fate("rejected", "", NEVER)
        reach = self.names.reach(agent)
        values = {"seq": entry.seq, "now": now, "never": NEVER, "me": reach.me}
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        row = self.db.run("fate", values, **lists).fetchone()
        if row is not None:
            return Fate(*row)
        if entry.archived:
            return Fate("archived", "", NEVER)
        return Fate("expired", "", NEVER) if entry.expires <= now else None

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
        self, by: str | None, ref: str | None, at: int, limit: int | None, before: int = NEVER
    ) -> list[Record]:
        """Return who did what before a place in the log, newest first: entries and every act on
        them.
        """
        values = {"by": by, "ref": ref, "at": at, "limit": -1 if limit is None else limit}
        values |= {"before": before}
        rows = self.db.run("acts", values)
        return [
            Record(seq, at, kind, by, id, json.loads(fields))
            for seq, at, kind, by, id, fields in rows
        ]

    def last_maintenance(self) -> int:
        """Return when a job of a night last said how far it is; 0 where none ran."""
        ((at,),) = self.db.run("last_night")
        return int(at)

    # -- what guards and retries go by -------------------------------------------------------------

    def first(self, by: str, once: str) -> int | None:
        """Return the seq of the first record that this agent wrote under this key."""
        row = self.db.run("first_once", {"by": by, "key": once}).fetchone()
        return None if row is None else row[0]

    def keyed(self, key: str) -> list[Record]:
        """Return all records with this guard key, in order; seq and fields are filled in."""
        item = key.removeprefix("item:")
        run = self.db.run
        rows = run("keyed", {"key": key}) if item == key else run("touched", {"id": item})
        return [Record(seq, 0, "", "", None, json.loads(fields), key=key) for seq, fields in rows]

    def keyed_since(self, key: str, floor: int, at: int, limit: int) -> list[Record]:
        """Return the newest acts with this key after a place in the log and since a time, in
        order.
        """
        values = {"key": key, "floor": floor, "at": at, "limit": limit}
        return [
            Record(seq, at, "", by, None, json.loads(fields), key=key)
            for seq, at, by, fields in self.db.run("keyed_since", values)
        ][::-1]

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

    def runs(self, limit: int | None = None, **asked: Any) -> list[dict[str, Any]]:
        """Return the runs of which all of this is so (see `_OF_RUNS`), newest first."""
        return [_run_from(row) for row in self._asked("runs", _of_runs(asked), asked, limit)]

    def count_runs(self, **asked: Any) -> int:
        """Return of how many runs all of this is so."""
        ((count,),) = self._asked("runs_count", _of_runs(asked), asked, None)
        return int(count)

    def trees(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the runs of the newest trees, newest first."""
        tops = self.db.run("tops", {"limit": -1 if limit is None else limit})
        return self.below([id for (id,) in tops])

    def below(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return these runs and all that was spawned below them, newest first."""
        rows = self.db.run("runs_below", {"ids": json.dumps(ids)})
        return [_run_from(row) for row in rows]

    def run_times(
        self, project: str, agent: str | None, floor: int, before: tuple[int, str], limit: int
    ) -> list[tuple[str, str, str | None, str | None, int]]:
        """Return the newest times since one and before another at which runs of a project began or
        ended: run, agent, parent, how it ended (None for a beginning), time.
        """
        values = {"project": project, "agent": agent, "floor": floor, "limit": limit}
        return self.db.run(
            "run_times", values | dict(zip(("at", "id"), before, strict=True))
        ).fetchall()

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
        asked = {"agent": agent, "run": run, "entry": entry}
        return [
            dict(zip(("entry", "agent", "run", "epoch", "state", "at"), row, strict=True))
            for row in self._asked("deliveries", _OF_DELIVERIES, asked, limit)
        ]

    def _asked(
        self, name: str, forms: Mapping[str, str], values: Mapping[str, Any], limit: int | None
    ) -> Iterable[Any]:
        """Return the rows of a question, through the index of the first of its conditions: a plus
        takes its index from a column.
        """
        given = {name: value for name, value in values.items() if value is not None}
        order = list(forms)
        conditions = " and +".join(forms[name] for name in sorted(given, key=order.index))
        given["limit"] = -1 if limit is None else limit
        return self.db.run(name, given, conditions=conditions or "true")


def _of_runs(asked: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the conditions in their order: nearly all runs have ended."""
    if asked.get("state") != "ended":
        return _OF_RUNS
    return {name: form for name, form in _OF_RUNS.items() if name != "state"} | {
        "state": _OF_RUNS["state"]
    }


def _run_from(row: tuple[str, str, int, int, int | None]) -> dict[str, Any]:
    fields, agent, seq, at, ended_at = row
    return {**json.loads(fields), "agent": agent, "seq": seq, "at": at, "ended_at": ended_at}
