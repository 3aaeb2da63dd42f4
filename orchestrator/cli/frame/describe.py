"""Runs as they are told: from their records, and from their ledgers while they run. Reads, and
decides nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.engines.protocol import Usage
from orchestrator.runs import ledger
from orchestrator.runs.folder import LEDGER, Folder
from orchestrator.runs.lease import lives
from orchestrator.runs.ledger import Overhead
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
        """`running`; `orphaned` where its supervisor is gone, `closed` where the client that it is
        a session of is, and its figures are still to come; or how it ended.
        """
        if self.running:
            lost = "closed" if self.fields.get("attached") else "orphaned"
            return "running" if self.held else lost
        return str(self.fields.get("status") or "ended")

    def json(self) -> dict[str, Any]:
        took = {
            "tokens": self.tokens,
            "estimated": self.usage.estimated,
            "cost": self.cost,
        }
        waits = {"waits": self.waits} if self.waits else {}
        seconds = self.took / 1_000_000
        return {
            **self.fields,
            "turns": self.turns,
            **took,
            "seconds": seconds,
            "state": self.state,
            **waits,
        }


def run_rows(call: Call, runs: Iterable[Fields]) -> list[RunRow]:
    now = call.memory.store.clock()
    rows = [_run_row(call, run, now) for run in runs]
    waits = (
        _missing_needs(call)
        if any(row.running and not row.held for row in rows)
        else {}
    )
    return [
        row._replace(waits=waits[row.id]) if row.id in waits else row for row in rows
    ]


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
        missing = (
            (ELSEWHERE,)
            if is_elsewhere(root, str(run["run"]), run)
            else lacking(run.get("needs"), offer)
        )
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
        is_held = run["state"] != "running" or lives(
            call.memory.store.root or call.root, str(run.get("holder"))
        )
        return RunRow(run, len(lines), usage, cost, duration, is_held)
    return RunRow(run, run.get("turns", 0), Usage(**usage), run.get("cost"), duration)


def find_runs(call: Call, **wanted: Any) -> list[dict[str, Any]]:
    """The newest first."""
    with call.memory.store.snapshot(look=True) as snap:
        return snap.runs(**wanted)


def find_run(call: Call, name: str) -> Fields:
    """Return the run of this name, else the only one whose name begins so, else the one that the
    agent of this name is at.
    """
    with call.memory.store.snapshot(look=True) as snap:
        found = snap.run(name)
        if found is not None:
            return found
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
    """What came of it in a line, or what it is at."""
    fields = row.fields
    names = ("summary", "why") if fields.get("status") == "done" else ("why", "summary")
    return first(
        str(fields.get(names[0]) or fields.get(names[1]) or fields.get("task", ""))
    )


def by_parent(runs: Iterable[Fields]) -> dict[str | None, list[Fields]]:
    """The runs by their parents, oldest first; under None those whose parent is not among them."""
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
    """How it ended and what it took, in a line or two."""
    repeated = ", as it did before (--force repeats it)" if result.repeated else ""
    lines = [
        f"{result.run or 'not begun'}: {result.status}{repeated}; {format_tokens(result.usage)}"
        f" tokens, {format_money(result.cost)}, "
        f"overhead {format_overhead(result.overhead)}"
    ]
    lines += [result.why] if result.why else []
    return clean("\n".join(lines).replace("\n", "; "))


# -- figures as people read them -------------------------------------------------------------------


def format_money(cost: float | None) -> str:
    if cost is None:
        return "-"
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def format_tokens(usage: Usage) -> str:
    """All that were taken; `~` where some of it is our own count, for nobody reported it."""
    return mark_estimate(
        format_count(usage.input_tokens + usage.output_tokens), usage.estimated
    )


def mark_estimate(figure: str, estimated: bool) -> str:
    return f"~{figure}" if estimated else figure


def format_overhead(overhead: Overhead) -> str:
    return mark_estimate(f"{overhead.billed:.1%}", overhead.counting != "exact")


def format_count(count: int) -> str:
    """With separators; from a million on as 1.2M."""
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def format_duration(micros: int) -> str:
    seconds = max(micros, 0) / 1_000_000
    if seconds < 1:
        return f"{seconds * 1_000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds_left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{seconds_left:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 48 else f"{hours // 24}d"
