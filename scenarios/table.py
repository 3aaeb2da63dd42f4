"""A report in the terminal: lines of at most 80 columns. What it says stands in the report already."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from scenarios.findings import Table
from scenarios.report import ONLY_CHANCE, Report
from scenarios.words import amount, cells, figure, levels, measured, pays, together

WIDTH = 80
ABREAST, CELL = 3, 26  # gates beside each other in the table of cells, and how long a cell's name may be
HEADS = (
    f"{'overhead ÷ work':>67}{'found':>6}{'needed':>7}",
    f" {'arm':<12}{'n':>3}{'tokens':>8}{'saved [95 %]':>19}{'done':>5}"
    f"{'memory':>7}{'plans':>6}{'sum':>6}{'twice':>6}{'shown':>7}",
)
MEMORY = ("fact_retention", "growth")
MEMORY_HEADS = (f" {'arm':<12}{'n':>3} {'still found':>24}{'tokens a day':>24}",)
MEANT = (
    "* the arm that is judged. Saved: tokens beside those of isolated agents, seed by seed, with its 95 % interval."
    " Done: tasks that came out right. Overhead: tokens that memory takes, and agents that only plan, beside the tokens"
    " of the work, billed. Found twice: of what was found out, the share that memory held already. Needed shown: of"
    " what was needed and held, the share that was shown."
)
MEMORY_MEANT = (
    "Still found: queries that are answered after the nights, beside before. Tokens a day: by which all live entries"
    " grow."
)
MARKS = {True: "met", False: "MISSED", None: "not played"}


def lines(report: Report) -> Iterator[str]:
    for scenario in report.study.scenarios:
        yield from of_scenario(report, scenario)
    yield from _closing(report)


def of_scenario(report: Report, scenario: str) -> Iterator[str]:
    told = report.table["scenarios"][scenario]
    level = report.table["run"]["level"]
    yield from ("", f"{scenario}, {level}: {told['title']}"[:WIDTH], "")
    if told["headline"]:
        yield from (*wrapped(f"  {told['headline']}", "  "), "")
    spent = any(each.tally["tokens"] for arm in report.study.arms(scenario) for each in report.study.of(scenario, arm))
    yield from HEADS if spent else MEMORY_HEADS
    for arm in report.study.arms(scenario):
        yield (_row if spent else _memory_row)(report, scenario, arm, "*" if arm == told["gated"] else " ")
    for arm, why in told["missing"].items():
        yield f" {arm:<12}  –  {why}"
    verdicts = [each for each in report.table["verdicts"] if each["scenario"] == scenario]
    if verdicts:
        yield from ("", f"  {'expected':<42}{'came to [95 %]':>24}{'runs met':>11}")
    for verdict in verdicts:
        yield from _verdict(verdict)
    if told["headline"]:
        yield from _cells(verdicts)
    for each in report.table["break_even"]:
        if each["scenario"] == scenario:
            yield from wrapped(f"  {pays(each)}", "    ")


def _row(report: Report, scenario: str, arm: str, mark: str) -> str:
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]

    def share(name: str) -> str:
        return _share(figures[name]["value"]) if name in figures else "–"

    told = _saved(figures["net_saving"]) if "net_saving" in figures else "–"
    tokens = thousands(figures["tokens"]["value"]) if "tokens" in figures else "–"
    return (
        f"{mark}{arm:<12}{len(report.study.of(scenario, arm)):>3}{tokens:>8}{told:>19}"
        f"{_whole(figures, 'task_success'):>5}{share('co_memory'):>7}{share('co_plan'):>6}{share('co_task'):>6}"
        f"{_whole(figures, 'redundancy'):>6}{_whole(figures, 'needed_recall'):>7}"
    )


def _saved(told: Table) -> str:
    """In at most 18 signs."""
    if told["lo"] < -9.985:
        return f"{1 - told['value']:,.0f}x as many"
    return f"{told['value']:.0%} [{told['lo'] * 100:.0f}, {told['hi'] * 100:.0f}]"


def _share(value: float) -> str:
    """A share in at most five signs, up to a hundredfold."""
    return f"{value:.1%}" if value < 0.9995 else f"{value:.0%}" if value < 99.995 else f"{value:,.0f}x"


def _whole(figures: Table, name: str) -> str:
    return f"{figures[name]['value']:.0%}" if name in figures else "–"


def thousands(value: float) -> str:
    size, unit = (1e6, "M") if value >= 999_500 else (1e3, "k") if value >= 999.5 else (1.0, "")
    return f"{value / size:.3g}{unit}" if value / size < 999.5 else f"{value / size:,.0f}{unit}"


def _memory_row(report: Report, scenario: str, arm: str, mark: str) -> str:
    """Of a memory in which nobody works, only nights."""
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]
    found = "".join(f"{figure(name, figures.get(name)):>24}" for name in MEMORY)
    return f"{mark}{arm:<12}{len(report.study.of(scenario, arm)):>3} {found}"[:WIDTH]


def _verdict(verdict: Table) -> Iterator[str]:
    told = f"  {MARKS[verdict['met']]:<7} {verdict['gate']}"
    if "value" not in verdict:
        yield f"{told}: {verdict['why']}"[:WIDTH]
        return
    runs = f"{verdict['runs_met']} of {verdict['n']}"
    yield f"{told:<44}{figure(verdict['metric'], verdict):>24}{runs:>11}"[:WIDTH]
    if verdict["fragile"]:
        yield from wrapped(f"{'':<10}fragile: otherwise at {', '.join(verdict['flips'])}", " " * 12)


def _cells(verdicts: Sequence[Table]) -> Iterator[str]:
    """Every other cell of the grid, where which of them is judged had to be chosen: as many gates as fit, then more."""
    for first in range(0, len(verdicts), ABREAST):
        shown = verdicts[first : first + ABREAST]
        rows = list(cells(shown))
        if rows:
            heads = "".join(f"{each['metric'][:13]:>14}" for each in shown)
            yield from ("", f"  {'the other cells':<27}{'n':>3}{heads}")
        for name, n, told in rows:
            values = (f"{amount(each['metric'], found['value'])}{' ' if found['met'] else '!'}" if found else "– "
                      for each, found in told)  # fmt: skip
            short = name if len(name) <= CELL else f"{name[: CELL - 1]}…"
            yield f"  {short:<27}{n:>3}{''.join(f'{value:>14}' for value in values)}".rstrip()
    if any(each["cells"] for each in verdicts):
        yield from ("  ! beyond the gate's limit; nothing is judged by these cells", "")


def _closing(report: Report) -> Iterator[str]:
    arms = {arm: what for told in report.table["scenarios"].values() for arm, what in told["arms"].items()}
    yield ""
    spent = any(each.tally["tokens"] for group in report.study.cells.values() for each in group)
    nights = any(each.days for group in report.study.cells.values() for each in group)
    yield from wrapped(" ".join((MEANT,) * spent + (MEMORY_MEANT,) * nights))
    yield ""
    for arm, what in arms.items():
        yield from wrapped(f"  {arm:<13}{what}", " " * 15)
    if report.table["warnings"]:
        yield from ("", "What to know before believing this:")
    for warning in together(report.table["warnings"]):
        yield from wrapped(f"! {warning}")
    if source := measured(report.table["run"]):
        yield from ("", *wrapped(source))
    level = report.table["run"]["level"]
    yield from ("", "Three levels of evidence:")
    for each, what, state in levels(report.table):
        yield from wrapped(f"  {each} {what:<16} {state}", " " * 22)
    if level == "L0":
        yield from ("", *wrapped(ONLY_CHANCE))
    judged = [each["met"] for each in report.table["verdicts"] if each["met"] is not None]
    yield from ("", f"{sum(judged)} of {len(judged)} thresholds met")


def wrapped(text: str, indent: str = "  ") -> Sequence[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
