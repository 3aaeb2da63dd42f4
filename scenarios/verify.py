"""Whether a report says what its ledger says: everything that follows from the ledger is made again
and compared.

Nothing of the report is believed but its thresholds, and these are compared with the scenario's own
where its file is one of the library's and has not changed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scenarios.data.files import library, load
from scenarios.measure import samples
from scenarios.measure.findings import Table
from scenarios.play.arms.catalog import ARMS
from scenarios.report import recorded, report
from scenarios.report.report import Report

# of `run`, what does not follow from the ledger
OWN = ("version", "git", "stopped", "cassette", "live", "parameters")
PARTS = (
    "metrics",
    "comparisons",
    "verdicts",
    "break_even",
    "against",
    "rivals",
    "equal",
    "warnings",
)


def again(path: str, jobs: int = 1) -> tuple[Table, Report]:
    """Return a report as it lies there, and as it follows from the ledger beside it."""
    table, paths = report.read(path), report.ledger_beside(path)
    run = {name: value for name, value in table["run"].items() if name in OWN}
    digest = report.digest_of(paths)
    return table, report.made(
        samples.of_file(paths, jobs),
        table["scenarios"],
        report.thresholds_in(table),
        digest,
        run,
        table.get("recorded"),
    )


def differences(path: str, jobs: int = 1) -> list[str]:
    """Return the differences between the report and its ledger."""
    table, remade = again(path, jobs)
    result = (
        []
        if set(table) == set(remade.table)
        else [f"parts: {', '.join(sorted(set(table) ^ set(remade.table)))}"]
    )
    for section in ("run", *PARTS):
        result += different(section, table.get(section), remade.table[section])
    return result + list(_other_thresholds(table, remade)) + list(_other_kinds(table))


def of_recorded(path: str, talks: str | None) -> list[str]:
    """Return where a report and the recorded conversations disagree, as far as these are there."""
    recorded_parts = report.read(path).get("recorded", {})
    return list(
        different("recorded", recorded_parts, recorded.again(recorded_parts, talks), "data")
    )


def different(where: str, reported: Any, is_so: Any, by: str = "ledger") -> Iterator[str]:
    """Yield every place in which two trees of plain values differ."""
    if isinstance(reported, dict) and isinstance(is_so, dict):
        for name in dict.fromkeys((*reported, *is_so)):
            if name not in reported or name not in is_so:
                yield (
                    f"{where}.{name}:"
                    f" {'is missing' if name in is_so else f'does not follow from the {by}'}"
                )
            else:
                yield from different(f"{where}.{name}", reported[name], is_so[name], by)
    elif isinstance(reported, list) and isinstance(is_so, list) and len(reported) == len(is_so):
        for number, (one, second) in enumerate(zip(reported, is_so, strict=True)):
            yield from different(f"{where}[{number}]", one, second, by)
    elif type(reported) is not type(is_so) or reported != is_so:
        yield f"{where}: {reported!r} in the report, {is_so!r} by the {by}"


def _other_kinds(table: Table) -> Iterator[str]:
    """Return arms that a report takes for something else than they are."""
    for scenario, played in table["scenarios"].items():
        for arm, kind in played.get("kinds", {}).items():
            if arm in ARMS and ARMS[arm].kind != kind:
                yield (
                    f"scenarios.{scenario}.kinds.{arm}: {kind!r} in the report,"
                    f" {ARMS[arm].kind!r} by the arm itself"
                )


def _other_thresholds(table: Table, made: Report) -> Iterator[str]:
    """Thresholds that are not those of the scenario that was played."""
    scenarios = {scenario.id: text for text in library().values() for scenario in [load(text)]}
    for name in made.study.scenarios:
        played = made.study.of(name, made.study.arms(name)[0])[0]
        if name not in table["scenarios"] or table["scenarios"][name]["digest"] != played.digest:
            yield f"scenarios.{name}: is not the scenario that was played"
        elif (
            name in scenarios
            and (own := load(scenarios[name], dict(played.cell))).digest == played.digest
        ):
            thresholds = [
                threshold for threshold in table["thresholds"] if threshold["scenario"] == name
            ]
            yield from different(
                f"thresholds of {name}",
                thresholds,
                [threshold._asdict() for threshold in report.thresholds_of(own)],
            )
