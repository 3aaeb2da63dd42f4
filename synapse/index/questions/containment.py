"""Questions of containment: what was made of an entry, and which runs had it in sight. Each takes a
snapshot; nothing here writes.

What an entry says of its sources is certain. What a run wrote after it was shown an entry may be
affected by it, and so may the runs that it began or gave its result to.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from synapse.index.derive.entries import sources_in
from synapse.index.snapshot import Snapshot
from synapse.model.entry import NEVER
from synapse.model.records import Record
from synapse.system.typed import NamedTuple

_PLAN = "plan"


class Reach(NamedTuple):
    """How far entries went: those `made` of them (themselves included), those that `may` be
    affected, the runs that had them in sight, and the agents that were shown the entries asked for.
    """

    made: tuple[str, ...]
    may: tuple[str, ...]
    runs: tuple[str, ...]
    agents: tuple[str, ...]


class _Run(NamedTuple):
    id: str
    parent: str | None
    agent: str
    project: str | None
    at: int
    ended_at: int | None


def reach(snap: Snapshot, ids: Iterable[str], but: frozenset[str] = frozenset()) -> Reach:
    """Return how far these entries went. What is in `but` is not followed."""
    lineage = _Lineage(snap)
    roots = [lineage.called(id) for id in ids]
    derived = lineage.made_of(roots, but)
    may = lineage.affected_by(derived)
    return Reach(
        tuple(sorted(derived, key=lineage.place)),
        tuple(sorted(may, key=lineage.place)),
        tuple(sorted(lineage.exposed)),
        tuple(_shown_to(snap, roots)),
    )


def tainted_by(snap: Snapshot, id: str) -> list[Record]:
    """Return the records that taint an entry, oldest first."""
    rows = snap.db.run("tainted_by", {"id": id, "never": NEVER}).fetchall()
    return [
        Record(seq, at, kind, by, None, json.loads(fields)) for seq, at, kind, by, _, fields in rows
    ]


def written_by(snap: Snapshot, agent: str, since: int) -> list[str]:
    """Return the entries of an agent that were received since a time, those that wait for review,
    too.
    """
    values = {"aid": snap.names.author(agent), "author": agent, "at": since}
    return [id for (id,) in snap.db.run("by_author", values)]


def _shown_to(snap: Snapshot, ids: Iterable[str]) -> list[str]:
    rows = (snap.db.run("id_of", {"id": id}).fetchone() for id in ids)
    seqs = json.dumps([row[1] for row in rows if row and row[1] is not None])
    return [name for (name,) in snap.db.run("shown_to", {"seqs": seqs})]


class _Lineage:
    """What was made of what, read from the log once: one look at all entries costs less than rows
    that every append would have to write.
    """

    def __init__(self, snap: Snapshot) -> None:
        self.snap = snap
        self.children: dict[str, list[str]] = defaultdict(list)
        # the runs that say in an entry that they had another in sight, and when they wrote it
        self.saw: dict[str, list[tuple[str, int]]] = defaultdict(list)
        # from when to when each was the plan
        self.plans: dict[str, tuple[str, int, int]] = {}
        self.of_run: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.alias: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.exposed: dict[str, int] = {}  # since when each run had something in sight
        last: dict[str, str] = {}
        sources: list[tuple[str, str]] = []
        for rec, id, head, at in snap.db.run("made_of"):
            fields = json.loads(head)
            self.places[id] = rec
            self.alias |= {fields["alias"]: id} if "alias" in fields else {}
            sources += [(origin, id) for origin in sources_in(fields)]
            if run := fields.get("run"):
                self.of_run[run].append((at, id))
                for read in fields.get("saw", ()):
                    self.saw[read].append((run, at))
            if fields.get("topic") == _PLAN:
                self._plan(fields["namespace"], id, at, last)
        self.runs = {row[0]: _Run(*row) for row in snap.db.run("run_edges")}
        for source, id in sources:
            if source in self.runs:
                self.of_run[source].append((NEVER, id))
            else:
                self.children[self.called(source)].append(id)
        self.begun_by: dict[str, list[_Run]] = defaultdict(list)
        for child in self.runs.values():
            self.begun_by[child.parent or ""].append(child)

    def _plan(self, place: str, id: str, at: int, last: dict[str, str]) -> None:
        """Note from when to when an entry was the plan of its place."""
        if place in last:
            before = self.plans[last[place]]
            self.plans[last[place]] = (place, before[1], at)
        self.plans[id], last[place] = (place, at, NEVER), id

    def called(self, id: str) -> str:
        """Return the id of an entry that may be called by its alias."""
        return self.alias.get(id, id)

    def place(self, id: str) -> int:
        if id not in self.places:
            row = self.snap.db.run("id_of", {"id": id}).fetchone()
            self.places[id] = row[0] if row else 0
        return self.places[id]

    def made_of(self, roots: Iterable[str], but: frozenset[str]) -> set[str]:
        """Return the entries with all that was made of them, or of what was made of them."""
        derived: set[str] = set()
        waiting = [id for id in roots if id not in but]
        while waiting:
            id = waiting.pop()
            if id not in derived and id not in but:
                derived.add(id)
                waiting += self.children.get(id, ())
        return derived

    def affected_by(self, made: set[str]) -> set[str]:
        """Return what runs wrote after they had one of these in sight, with what was made of
        that.
        """
        affected: set[str] = set()
        wave = set(made)
        while wave:
            new: set[str] = set()
            for run, at in self._exposed_to(wave):
                new |= self._expose(run, at)
            new -= affected | made
            affected |= new
            wave = self.made_of(new, frozenset(made)) - affected | new
            affected |= wave
        return affected

    def _exposed_to(self, ids: set[str]) -> list[tuple[str, int]]:
        """Return the runs that had one of these entries in sight, and since when."""
        rows = self.snap.db.run("exposed", {"ids": json.dumps([*ids])}).fetchall()
        exposures = [(run, at) for _, run, _, at in rows if run]
        for id in ids:
            exposures += self.saw.get(id, ())
            if id in self.plans:
                exposures += self._planned_by(*self.plans[id])
        return exposures

    def _planned_by(self, place: str, since: int, until: int) -> list[tuple[str, int]]:
        """Return the runs of a project that began while this was its plan."""
        return [
            (run.id, run.at)
            for run in self.runs.values()
            if f"projects/{run.project}" == place and since <= run.at < until
        ]

    def _expose(self, run: str, at: int) -> set[str]:
        """Note since when a run had something in sight. Return what it may have written by it, and
        what the runs may have that it began since, or gave its result to.
        """
        exposed: set[str] = set()
        waiting = [(run, at)]
        while waiting:
            run, at = waiting.pop()
            if at >= self.exposed.get(run, NEVER):
                continue
            self.exposed[run] = at
            exposed |= {id for written, id in self.of_run.get(run, ()) if written >= at}
            record = self.runs.get(run)
            for child in self.begun_by.get(run, ()):
                if child.at >= at:
                    waiting.append((child.id, child.at))
            if record is not None and record.parent and (record.ended_at or 0) >= at:
                waiting.append((record.parent, record.ended_at or at))
        return exposed
