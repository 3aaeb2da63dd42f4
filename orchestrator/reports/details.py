"""One run in detail: its steps, what its tokens were for, what memory cost and spared it, and who
read its result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage
from orchestrator.reports.receipts import receipt_of
from orchestrator.reports.rows import Fields, RunRow, Source, find_runs, run_rows
from orchestrator.runs.files import ledger, steps
from orchestrator.runs.files.folder import LEDGER, OUTPUT, STEPS
from orchestrator.runs.files.ledger import COORDINATION, Line
from orchestrator.runs.files.steps import Step
from orchestrator.runs.files.trim import trimmed_on
from orchestrator.runs.task import GIVEN
from synapse.errors import NotFound, StoreCorrupt


class Account(NamedTuple):
    """What the ledger of a run tells. `tokens` by what they were for, as billed; `memory` those of
    them that memory and coordination took; `memory_cost` their share of the dollars, an estimate:
    calls are charged for. `again`: tokens that had been sent in the run before, `cached`: those
    that the provider had kept. `shared`: how often a shared tool's result came how.
    """

    tokens: dict[str, int]
    memory: int
    memory_cost: float | None
    again: int
    cached: int
    counting: str
    shared: dict[str, int]

    @property
    def spared(self) -> int:
        """Return how many calls of tools were not made, since their results were there."""
        return self.shared.get(GIVEN, 0)


class Reading(NamedTuple):
    """Somebody whom a result reached: the run or the agent, and how."""

    who: str
    how: str
    run: str | None
    at: int | None


class Detail(NamedTuple):
    """A run with all that is known of it. `damaged` says what of its files cannot be read;
    `trimmed` on which day it lost its steps, empty where it has them.
    """

    row: RunRow
    steps: tuple[Step, ...]
    account: Account
    result: str
    children: tuple[RunRow, ...]
    readings: tuple[Reading, ...]
    damaged: str
    trimmed: str

    def json(self) -> dict[str, Any]:
        return {
            "run": self.row.json(),
            "steps": [
                {"n": step.n, "epoch": step.epoch, "kind": step.kind, **step.fields}
                for step in self.steps
            ],
            "account": {**self.account._asdict(), "spared": self.account.spared},
            "result": self.result,
            "children": [child.json() for child in self.children],
            "readings": [reading._asdict() for reading in self.readings],
            "damaged": self.damaged,
            "trimmed": self.trimmed,
        }


def detail(source: Source, run: Fields) -> Detail:
    """Return a run in detail."""
    id, damaged = str(run["run"]), ""
    folder = source.folder(id)
    try:
        lines = steps.read(folder.lines(STEPS))
    except StoreCorrupt as error:
        lines, damaged = [], str(error)
    children = find_runs(source, parent=id)
    own, *descendants = run_rows(source, [run, *reversed(children)])
    try:
        result = folder.read(OUTPUT)
    except NotFound:
        result = ""
    return Detail(
        own,
        tuple(lines),
        account_of(own, ledger.read(folder.lines(LEDGER)), lines),
        result,
        tuple(descendants),
        tuple(_readings(source, run)),
        damaged,
        trimmed_on(folder),
    )


def account_of(row: RunRow, lines: list[Line], taken: list[Step]) -> Account:
    """Return what the ledger and the steps tell of where the tokens went."""
    tokens = ledger.by_label(lines)
    memory = sum(tokens.get(name, 0) for name in COORDINATION)
    total = sum(tokens.values())
    resent = sum(segment.tokens for line in lines for segment in line.sent if not segment.first)
    usage = sum((ledger.used(line) for line in lines), start=Usage())
    cost = row.cost * memory / total if row.cost is not None and total else None
    return Account(
        tokens,
        memory,
        cost,
        resent,
        usage.cached_tokens,
        ledger.overhead(lines).counting,
        _shared(taken),
    )


def _shared(taken: list[Step]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for step in taken:
        for how in (step.fields.get("act") or {}).get("counts", ()):
            counts[how] = counts.get(how, 0) + 1
    return counts


def _readings(source: Source, run: Fields) -> list[Reading]:
    """Return whom the result of a run reached: its parent by its steps, others by deliveries."""
    readings = []
    parent, entry = run.get("parent"), run.get("entry")
    if parent:
        for step in steps.read_known(source.folder(str(parent)).lines(STEPS)):
            if run["run"] in step.fields.get("read", ()):
                readings.append(Reading(str(parent), "was told it", str(parent), None))
                break
    if entry:
        with source.store.snapshot() as snap:
            rows = snap.deliveries(entry=str(entry))
        readings += [
            Reading(str(row["agent"]), str(row["state"]), row.get("run"), row.get("at"))
            for row in rows
        ]
    return readings


def receipt_json(source: Source, run: Fields) -> dict[str, Any] | None:
    """Return the receipt of a run as JSON, with what was left out by its reasons; None where it
    has none.
    """
    try:
        receipt = receipt_of(source, run)
    except (NotFound, StoreCorrupt):
        return None
    return {
        **receipt._asdict(),
        "included": [
            {"id": id, "tokens": tokens, "form": form, "kind": kind}
            for id, tokens, form, kind in receipt.included
        ],
        "left_out": [omission._asdict() for omission in receipt.left_out],
        "worth": receipt.worth._asdict() if receipt.worth else None,
    }
