"""What the index was as of an earlier record: what a view asks, from the rows of now and from what
later records changed.

`replay` derives the same from the log alone, and is what this is held against. Where the log was
not taken in once and in order, `past_of` says so, and the caller replays. Nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from synapse.index.derive.entries import entry_from
from synapse.index.derive.progress import read_reached
from synapse.index.names import Declared, Reach
from synapse.index.pages import Filter, Loaded, priority_numbers
from synapse.index.snapshot import Snapshot
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.system.json import dumps
from synapse.system.typed import Any

_MESSAGE = 1


class Past(Loaded):
    """The index as of its `cursor`, within the snapshot that it is made from."""

    __slots__ = ("_declared",)

    def __init__(self, live: Snapshot, cursor: int) -> None:
        super().__init__(live.db, live.names, cursor, live.mark, live.turn, live.entries)
        rows: dict[str, str] = {}
        for _, text in self.db.run("past_agents", {"cursor": cursor}):
            fields = json.loads(text)
            if fields.get("how") == "removed":
                rows.pop(fields["agent"]["id"], None)
            else:
                rows[fields["agent"]["id"]] = dumps(fields["agent"])
        self._declared = Declared(sorted(rows.items()))

    @property
    def declared(self) -> Declared:
        return self._declared

    def page(self, agent: Agent | None, wanted: Filter, now: int) -> list[Entry]:
        """Return the newest entries of some priorities that the agent could see, newest first."""
        reach = self.names.reach(agent)
        values = {
            "floor": self.floor(wanted.since),
            "cursor": self.cursor,
            "now": now,
            "me": reach.me,
            "limit": -1 if wanted.limit is None else wanted.limit,
            "unless": -1 if wanted.mail else _MESSAGE,
        }
        rows = self.db.run(
            "past_page",
            values,
            prios=priority_numbers(wanted.priorities),
            nids=reach.nids,
            audiences=reach.audiences,
        )
        return self.load(rows.fetchall(), now, reach)

    def entry(self, id: str, now: int) -> Entry | None:
        """Return the entry under an id, whatever had become of it; None where it had no effect."""
        row = self.db.run("id_of", {"id": id}).fetchone()
        if row is None or row[1] is None or row[1] > self.cursor:
            return None
        (found,) = self._rows((row[1],))
        return self._with_peers(entry_from(found), now, self.names.reach(None))

    def seen(self, agent: Agent, first: int, last: int) -> tuple[int, frozenset[int]]:
        """Return what `Snapshot.seen` does."""
        ends = {"first": first, "last": last, "cursor": self.cursor}
        rows = self.db.run("seen_between", ends | {"me": self.names.reach(agent).me})
        return 0, frozenset(seq for (seq,) in rows)

    def _rows(self, seqs: Sequence[int]) -> Iterable[Any]:
        return self.db.run("past_rows", {"cursor": self.cursor}, seqs=seqs)

    def _disputed(self, ends: dict[str, int]) -> set[int]:
        found = self.db.run("past_disputed", ends | {"cursor": self.cursor})
        return {seq for (seq,) in found}

    def _with_peers(self, entry: Entry, now: int, reach: Reach) -> Entry:
        values = {"seq": entry.seq, "now": now, "me": reach.me, "cursor": self.cursor}
        lists = {"nids": reach.nids, "audiences": reach.audiences}
        peers = self.db.run("past_peers", values, **lists)
        return entry._replace(disputed=tuple(id for (id,) in peers))


def past_of(live: Snapshot, agent: Agent | None, at: int, until: int | None = None) -> Past | None:
    """Return the index as of a time, and of a cursor; None where only the log can say it: records
    were taken back or are damaged, time steps back, a mark of before showed the agent all, or an
    act may have changed for whom an entry was replaced.
    """
    reached = read_reached(live.db)
    if (
        any(reached.steps)
        or reached.lost
        or live.db.run("all_voids").fetchone()
        or (agent is not None and live.shown(agent.id))
    ):
        return None
    cursor = min(_last(live, at), live.cursor)
    cursor = cursor if until is None else min(cursor, until)
    if live.db.run("fates_changed", {"cursor": cursor}).fetchone():
        return None
    return Past(live, cursor)


def _last(live: Snapshot, at: int) -> int:
    """Return the last record that was received by a time, in a log whose time goes forward."""
    last, after = live.db.run("entries_around", {"at": at}).fetchone()
    values = {"floor": last, "end": after, "at": at}
    row = live.db.run("last_act_at", values).fetchone()
    return int(row[0]) if row else int(last)
