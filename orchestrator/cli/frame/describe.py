"""Runs as rows for people and programs: from their records, and from their ledgers while they run.
Reads, and decides nothing. Called by the verbs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.cli.frame.figures import format_money, format_overhead, format_tokens
from orchestrator.engines.protocol import Usage
from orchestrator.runs import ledger
from orchestrator.runs.folder import LEDGER, Folder
from orchestrator.runs.lease import lives
from synapse.cli.frame.call import Call
from synapse.cli.frame.show import WIDTH, clean, first
from synapse.errors import Conflict, NotFound

if TYPE_CHECKING:
    from orchestrator.runs.task import Result

Fields = Mapping[str, Any]


class RunRow(NamedTuple):
    """One run. `fields` are its records, laid over one another; the figures are as of now."""

    fields: Fields
    turns: int
    usage: Usage
    cost: float | None
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
        and `closed` where its client is gone and its figures are still to come.
        """
        if self.running:
            lost = "closed" if self.fields.get("attached") else "orphaned"
            return "running" if self.held else lost
        return str(self.fields.get("status") or "ended")

    def json(self) -> dict[str, Any]:
        fields = {
            **self.fields,
            "turns": self.turns,
            "tokens": self.tokens,
            "estimated": self.usage.estimated,
            "cost": self.cost,
            "seconds": self.took / 1_000_000,
            "state": self.state,
        }
        return {**fields, "waits": self.waits} if self.waits else fields


def run_rows(call: Call, runs: Iterable[Fields]) -> list[RunRow]:
    now = call.memory.store.clock()
    rows = [_run_row(call, run, now) for run in runs]
    if all(row.held for row in rows if row.running):
        return rows
    waits = _missing_needs(call)
    return [row._replace(waits=waits.get(row.id)) for row in rows]


def _missing_needs(call: Call) -> dict[str, str]:
    """Return what each run waits for that `resume`, called here as it is, would leave alone."""
    from orchestrator.engines.protocol import declared
    from orchestrator.prompts.templates import version_at
    from orchestrator.runs.folder import ELSEWHERE, is_elsewhere
    from orchestrator.runs.records import Runs, run_of
    from orchestrator.runs.requirements import Offer, lacking, waiting

    store, root = call.memory.store, call.memory.store.root or call.root
    engines = dict(store.settings.other).get("engines")
    version, records = version_at(store.root), Runs(store)
    offer = Offer(lambda name: declared(engines, name), os.environ, {}, {}, version)

    def lacks(run: Fields) -> tuple[str, ...]:
        if is_elsewhere(root, str(run["run"]), run):
            missing: tuple[str, ...] = (ELSEWHERE,)
        else:
            missing = lacking(run.get("needs"), offer)
        return () if missing and records.over(run_of(run), known=True) else missing

    with store.snapshot() as snap:
        running = snap.runs(state="running")
    orphans = [
        run
        for run in running
        if not lives(root, str(run.get("holder"))) and not run.get("attached")
    ]
    return waiting(orphans, lacks)


def waiting_lines(rows: Iterable[RunRow]) -> list[str]:
    """Return a line for each run that waits for what is not here."""
    lines = (clean(f"{row.id} {row.waits}") for row in rows if row.waits)
    return [
        fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        for line in lines
    ]


def _run_row(call: Call, run: Fields, now: int) -> RunRow:
    duration = (run.get("ended_at") or now) - run["at"]
    usage = run.get("usage")
    if usage is None:
        lines = ledger.read(run_folder(call, run["run"]).lines(LEDGER))
        usage, cost = ledger.spent(lines)
        root = call.memory.store.root or call.root
        is_held = run["state"] != "running" or lives(root, str(run.get("holder")))
        return RunRow(run, len(lines), usage, cost, duration, is_held)
    return RunRow(run, run.get("turns", 0), Usage(**usage), run.get("cost"), duration)


def find_runs(call: Call, **fields: Any) -> list[dict[str, Any]]:
    """Return the runs with these fields, newest first."""
    with call.memory.store.snapshot(look=True) as snap:
        return snap.runs(**fields)


def find_run(call: Call, name: str) -> Fields:
    """Return the run of this name, else the only one whose name begins so, else the one that the
    agent of this name is at.
    """
    with call.memory.store.snapshot(look=True) as snap:
        record = snap.run(name)
        if record is not None:
            return record
        matches = [
            run for run in snap.runs() if name and str(run["run"]).startswith(name)
        ]
    if not matches:
        raise NotFound(
            f"there is no run {name}; `orchestrator ps --all` lists them", id=name
        )
    if len(matches) > 1:
        running = [
            run for run in matches if run["state"] == "running" and run["agent"] == name
        ]
        if len(running) == 1:
            return running[0]
        several = ", ".join(str(run["run"]) for run in matches[:5])
        raise Conflict(f"{len(matches)} runs begin with {name}: {several}", id=name)
    return matches[0]


def run_folder(call: Call, run: str) -> Folder:
    return Folder(call.memory.store.root or call.root, run)


def describe_outcome(row: RunRow) -> str:
    """Return in a line what came of a run, or its task."""
    fields = row.fields
    names = ("summary", "why") if fields.get("status") == "done" else ("why", "summary")
    return first(
        str(fields.get(names[0]) or fields.get(names[1]) or fields.get("task", ""))
    )


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


def clean_text(text: str) -> str:
    return "\n".join(map(clean, text.split("\n"))) if sys.stdout.isatty() else text


def describe_result(result: Result) -> str:
    """Return in a line or two how a run ended and what it took."""
    repeated = ", as it did before (--force repeats it)" if result.repeated else ""
    lines = [
        f"{result.run or 'not begun'}: {result.status}{repeated}; {format_tokens(result.usage)}"
        f" tokens, {format_money(result.cost)}, "
        f"overhead {format_overhead(result.overhead)}"
    ]
    lines += [result.why] if result.why else []
    return clean("\n".join(lines).replace("\n", "; "))
