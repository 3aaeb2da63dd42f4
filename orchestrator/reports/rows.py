"""Runs as rows: from their records, and from their ledgers while they run. Reads, and decides
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files import ledger, workspace
from orchestrator.runs.files.folder import LEDGER, Folder
from orchestrator.runs.files.ledger import Unanswered
from orchestrator.runs.files.workspace import elsewhere, lives
from orchestrator.runs.task import PLAYED
from synapse.errors import Conflict, NotFound
from synapse.store import Store

Fields = Mapping[str, Any]
ENDED_WELL = ("done", PLAYED)  # states about which nobody has to do anything


class Source(NamedTuple):
    """The workspace whose runs are asked about: its store, and the folder with their files."""

    store: Store
    root: str

    def folder(self, run: str) -> Folder:
        return workspace.folder(self.store, self.root, run)

    def now(self) -> int:
        return self.store.clock()


class RunRow(NamedTuple):
    """One run. `fields` are its records, laid over one another; the figures are as of now."""

    fields: Fields
    turns: int
    usage: Usage
    cost: float | None
    unanswered: Unanswered
    took: int
    held: bool = True
    waits: str | None = None  # what it needs to go on, and this shell does not have

    @property
    def id(self) -> str:
        return str(self.fields["run"])

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    @property
    def running(self) -> bool:
        return str(self.fields["state"]) == "running"

    @property
    def state(self) -> str:
        """Return `running`, or how the run ended. A run is `orphaned` where its supervisor is gone,
        `closed` where its client is gone and its figures are still to come, and `waiting` where it
        is blocked and goes on once somebody has answered.
        """
        if self.running:
            lost = "closed" if self.fields.get("attached") else "orphaned"
            return "running" if self.held else lost
        if self.fields["state"] == "waiting":
            return "waiting"
        return str(self.fields.get("status") or "ended")

    def json(self) -> dict[str, Any]:
        fields = {
            **self.fields,
            "turns": self.turns,
            "tokens": self.tokens,
            "estimated": self.usage.estimated,
            "cost": self.cost,
            "unanswered": self.unanswered._asdict(),
            "seconds": self.took / 1_000_000,
            "state": self.state,
        }
        return {**fields, "waits": self.waits} if self.waits else fields


def run_rows(source: Source, runs: Iterable[Fields]) -> list[RunRow]:
    """Return the rows of these runs."""
    now = source.now()
    rows = [_run_row(source, run, now) for run in runs]
    if all(row.held for row in rows if row.running):
        return rows
    waits = _missing_needs(source)
    return [row._replace(waits=waits.get(row.id)) for row in rows]


def _missing_needs(source: Source) -> dict[str, str]:
    """Return what each run waits for that `resume`, called here as it is, would leave alone."""
    from orchestrator.engines.protocol import declared
    from orchestrator.prompts.templates import version_at
    from orchestrator.runs.records import Runs, run_of
    from orchestrator.runs.requirements import Offer, lacking, waiting

    store, root = source.store, source.root
    engines = dict(store.settings.other).get("engines")
    version, records = version_at(store.root), Runs(store)
    offer = Offer(lambda name: declared(engines, name), os.environ, {}, {}, version)

    def lacks(run: Fields) -> tuple[str, ...]:
        place = elsewhere(store, root, run)
        missing = (place,) if place else lacking(run.get("needs"), offer)
        return () if missing and records.over(run_of(run), known=True) else missing

    with store.snapshot() as snap:
        running = snap.runs(state="running")
    orphans = [
        run
        for run in running
        if not lives(store, str(run.get("holder"))) and not run.get("attached")
    ]
    return waiting(orphans, lacks)


def _run_row(source: Source, run: Fields, now: int) -> RunRow:
    duration = (run.get("ended_at") or now) - run["at"]
    usage = run.get("usage")
    if usage is None:
        lines = ledger.read(source.folder(run["run"]).lines(LEDGER))
        usage, cost = ledger.spent(lines)
        unanswered = ledger.unanswered(lines)
        turns = len(lines) - unanswered.calls
        is_held = run["state"] != "running" or lives(source.store, str(run.get("holder")))
        return RunRow(run, turns, usage, cost, unanswered, duration, is_held)
    unanswered = Unanswered(*run.get("unanswered", ()))
    return RunRow(run, run.get("turns", 0), Usage(**usage), run.get("cost"), unanswered, duration)


def find_runs(source: Source, **asked: Any) -> list[dict[str, Any]]:
    """Return the runs of which all of this is so (see `Snapshot.runs`), newest first."""
    source.store.refresh()
    with source.store.snapshot() as snap:
        return snap.runs(**asked)


def find_run(source: Source, name: str) -> Fields:
    """Return the run of this name, else the only one whose name begins so, else the one that the
    agent of this name is at.
    """
    source.store.refresh()
    with source.store.snapshot() as snap:
        record = snap.run(name)
        if record is not None:
            return record
        matches = snap.runs(prefix=name, limit=5) if name else []
        count = snap.count_runs(prefix=name) if matches else 0
        running = snap.runs(prefix=name, state="running", agent=name, limit=2) if count > 1 else []
    if not matches:
        raise NotFound(f"there is no run {name}; `orchestrator ps --all` lists them", id=name)
    if count > 1 and len(running) != 1:
        several = ", ".join(str(run["run"]) for run in matches)
        raise Conflict(f"{count} runs begin with {name}: {several}", id=name)
    return (running or matches)[0]


def by_parent(runs: Iterable[Fields]) -> dict[str | None, list[Fields]]:
    """Return the runs by their parents, oldest first; under None those whose parent is not among
    them.
    """
    ordered = sorted(runs, key=lambda run: int(run["seq"]))
    ids = {run["run"] for run in ordered}
    children: dict[str | None, list[Fields]] = {}
    for run in ordered:
        parent = run.get("parent")
        children.setdefault(parent if parent in ids else None, []).append(run)
    return children
