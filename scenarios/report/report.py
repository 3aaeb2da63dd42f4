"""report.json: what a report holds, made from runs, written, read again. Judges nothing: `findings`
does.

`run` is what was run; `thresholds` what the figures had to be; `metrics`, `comparisons`,
`verdicts`, `break_even`, `rivals` and `equal` follow from the ledger beside it; `recorded` from
recorded conversations, where asked for. report.schema.json says what may stand where.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import Any, NamedTuple

from scenarios.data import ledger
from scenarios.data.faults import fault
from scenarios.data.schema import Scenario
from scenarios.measure import comparison, findings
from scenarios.measure.findings import Findings, Table, Threshold
from scenarios.measure.samples import Sample
from scenarios.measure.study import Study
from scenarios.play.arms.arm import RIVAL
from scenarios.play.arms.catalog import ARMS
from scenarios.report import plan

SCHEMA = "brain-suite/report-v1"
REPORT, LEDGER, TEXT, PAGE = FILES = ("report.json", "ledger.jsonl.gz", "report.md", "report.html")
ONLY_CHANCE = (
    "L0: agents are scripted. Intervals describe the chance in the scenarios alone"
    " (which facts, sizes, times are drawn), and nothing about models."
)
LEVELS = {
    "L0": (
        "scripted agents on the shipped product: what the mechanism costs and saves,"
        " nothing about models"
    ),
    "L1": "search in recorded conversations: how much of the evidence for a question is found",
    "L2": "real models: measured, at the provider's own count",
}
RIVALS = frozenset(arm.name for arm in ARMS.values() if arm.kind == RIVAL)
FEW = 10  # runs, below which a report warns of its intervals


class BrokenReport(Exception):
    """This is no report, or not one of this version; says why."""


class Report(NamedTuple):
    """A report, and the samples that it was made of."""

    table: Table
    study: Study


def thresholds_of(scenario: Scenario) -> list[Threshold]:
    return [
        Threshold(
            scenario.id, gate.text, gate.metric, scenario.gated, gate.op, gate.value, gate.cell
        )
        for gate in scenario.gates
    ]


def described(scenario: Scenario, arms: Sequence[str]) -> Table:
    """Return the description of a scenario that a report holds, so that it reads without its
    file.
    """
    return {
        "title": scenario.title,
        "shows": scenario.shows,
        "headline": scenario.headline,
        "digest": scenario.digest,
        "gated": scenario.gated,
        "params": dict(scenario.params),
        "arms": {arm: ARMS[arm].what for arm in arms if arm in ARMS},
        "kinds": {arm: ARMS[arm].kind for arm in arms if arm in ARMS},
        "missing": plan.missing(arms),
    }


def made(
    samples: Iterable[Sample],
    scenarios: Mapping[str, Table],
    thresholds: Sequence[Threshold],
    digest: str,
    run: Mapping[str, Any],
    recorded: Table | None = None,
) -> Report:
    """Return a report of these samples. `scenarios` as `described` has them, `digest` that of the
    ledger's lines, `run` what does not follow from the ledger, `recorded` what recorded
    conversations came to.
    """
    study = Study(samples, RIVALS)
    findings_made = findings.build_findings(study, thresholds)
    table = {
        "schema": SCHEMA,
        "run": {**run, **what_ran(study, digest)},
        "scenarios": dict(scenarios),
        "thresholds": [threshold._asdict() for threshold in thresholds],
        **findings_made._asdict(),
        "against": comparison.table(study, scenarios),
        "warnings": [
            *([run["stopped"]] if "stopped" in run else []),
            *warnings(study, scenarios, findings_made),
        ],
        **({"recorded": recorded} if recorded else {}),
    }
    return Report(table, study)


def what_ran(study: Study, digest: str) -> Table:
    """Return what the ledger says about itself."""
    samples = [sample for group in study.cells.values() for sample in group]
    config = sorted(
        {
            (sample.scenario, sample.digest, sample.arm, sample.name, sample.seed)
            for sample in samples
        }
    )
    seeds = {
        scenario: sorted({sample.seed for sample in samples if sample.scenario == scenario})
        for scenario in study.scenarios
    }
    engines = sorted({sample.engine for sample in samples if sample.engine})
    return {
        "level": "L2" if engines else "L0",
        "engines": engines,
        "ledger": digest,
        "runs": len(samples),
        "config": sha256(json.dumps(config).encode()).hexdigest(),
        "tokenizer": ", ".join(sorted({sample.encoding for sample in samples})),
        "counting": ", ".join(sorted({sample.counting for sample in samples})),
        "seeds": seeds,
        "n": {study.key(*key): len(group) for key, group in study.cells.items()},
    }


def warnings(study: Study, scenarios: Mapping[str, Table], parts: Findings) -> list[str]:
    """Return the warnings that a reader needs first."""
    lines = [
        f"{item['scenario']}: {item['gate']}: {item['why']}"
        for item in parts.verdicts
        if "why" in item
    ]
    for scenario, table in scenarios.items():
        lines += [
            f"{scenario}: the arm {arm} is not available: {why}"
            for arm, why in table["missing"].items()
        ]
        least = min((len(study.of(scenario, arm)) for arm in study.arms(scenario)), default=0)
        if least < FEW:
            lines.append(
                f"{scenario}: {least} run{'s' * (least != 1)} of an arm: too few for"
                f" intervals to mean much"
            )
    for item in parts.comparisons:
        if item["saving"]["value"] > 0 and not item["no_worse"]:
            lost = f"{-item['success_difference']:.1%}"
            lines.append(
                f"{item['scenario']}: {item['arm']} saves tokens, and may lose success"
                f" ({lost} on average)"
            )
        if item["fragile"]:
            lines.append(
                f"{item['scenario']}: whether {item['arm']} saves is fragile:"
                f" {', '.join(item['flips'])}"
            )
    for item in parts.equal:
        cell = f" in {item['cell']}" if item["cell"] else ""
        lines.append(
            f"{item['scenario']}: {' and '.join(item['arms'])} came out equal in every run{cell}"
        )
    return lines


def thresholds_in(table: Table) -> list[Threshold]:
    return [Threshold(**threshold) for threshold in table["thresholds"]]


def write(folder: str, name: str, text: str) -> str:
    """Write a file of the report, whole or not at all; return its path."""
    path = os.path.join(folder, name)
    with open(f"{path}.new", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(f"{path}.new", path)
    return path


def dump(table: Table) -> str:
    return json.dumps(table, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def read(path: str) -> Table:
    """Return a report from its file, or from the folder that it lies in."""
    path = os.path.join(path, REPORT) if os.path.isdir(path) else path
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except ValueError as error:
        raise BrokenReport(f"{path}: {fault(error)}") from error
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise BrokenReport(f"{path}: is no report of the form {SCHEMA}")
    return table


def ledger_beside(path: str) -> str:
    """Return the ledger of a report."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return os.path.join(folder, LEDGER)


def digest_of(path: str) -> str:
    return ledger.digest(ledger.lines(path))


def schema() -> Table:
    """Return the JSON schema of a report."""
    table: Table = json.loads(
        (resources.files("scenarios.report") / "report.schema.json").read_text(encoding="utf-8")
    )
    return table
