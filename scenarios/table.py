"""A report in the terminal: lines of at most 80 columns. What it says stands in the report already."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from scenarios.findings import Table
from scenarios.report import LEVELS, ONLY_CHANCE, Report
from scenarios.words import cells, figure, levels, pays

WIDTH = 80
HEAD = (
    f" {'arm':<12}{'n':>3}{'tokens':>10}{'saved [95 %]':>16}{'done':>5}"
    f"{'C/W':>6}{'P/W':>7}{'sum':>7}{'twice':>6}{'recall':>7}"
)
MEMORY = ("fact_retention", "growth")
MEMORY_HEAD = f" {'arm':<12}{'n':>3} {'still found':>24}{'tokens a day':>24}"
MARKS = {True: "met", False: "MISSED", None: "not played"}


def lines(report: Report) -> Iterator[str]:
    for scenario in report.study.scenarios:
        yield from of_scenario(report, scenario)
    yield from _closing(report)


def of_scenario(report: Report, scenario: str) -> Iterator[str]:
    told = report.table["scenarios"][scenario]
    yield from ("", f"{scenario}: {told['title']}"[:WIDTH], "")
    if told["headline"]:
        yield from (*wrapped(f"  {told['headline']}", "  "), "")
    spent = any(each.tally["tokens"] for arm in report.study.arms(scenario) for each in report.study.of(scenario, arm))
    yield HEAD if spent else MEMORY_HEAD
    for arm in report.study.arms(scenario):
        yield (_row if spent else _memory_row)(report, scenario, arm, "*" if arm == told["gated"] else " ")
    for arm, why in told["missing"].items():
        yield f" {arm:<12}  –  {why}"
    yield ""
    for verdict in report.table["verdicts"]:
        if verdict["scenario"] == scenario:
            yield _verdict(verdict)
    if told["headline"]:
        yield from _cells([each for each in report.table["verdicts"] if each["scenario"] == scenario])
    for each in report.table["break_even"]:
        if each["scenario"] == scenario:
            yield from wrapped(f"  {pays(each)}", "    ")


def _row(report: Report, scenario: str, arm: str, mark: str) -> str:
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]

    def share(name: str, digits: int = 0) -> str:
        return f"{figures[name]['value']:.{digits}%}" if name in figures else "–"

    saved = figures.get("net_saving")
    told = "–" if saved is None else f"{saved['value']:.0%} [{saved['lo'] * 100:.0f}, {saved['hi'] * 100:.0f}]"
    tokens = f"{figures['tokens']['value']:,.0f}" if "tokens" in figures else "–"
    return (
        f"{mark}{arm:<12}{len(report.study.of(scenario, arm)):>3}{tokens:>10}{told:>16}{share('task_success'):>5}"
        f"{share('co_memory', 1):>6}{share('co_plan', 1):>7}{share('co_task', 1):>7}{share('redundancy'):>6}"
        f"{share('needed_recall'):>7}"
    )


def _memory_row(report: Report, scenario: str, arm: str, mark: str) -> str:
    """Of a memory in which nobody works, only nights."""
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]
    found = "".join(f"{figure(name, figures.get(name)):>24}" for name in MEMORY)
    return f"{mark}{arm:<12}{len(report.study.of(scenario, arm)):>3} {found}"[:WIDTH]


def _verdict(verdict: Table) -> str:
    told = f"  {MARKS[verdict['met']]:<7} {verdict['gate']}"
    if "value" not in verdict:
        return f"{told}: {verdict['why']}"[:WIDTH]
    ends = f"{verdict['value']:.4g} [{verdict['lo']:.4g}, {verdict['hi']:.4g}]"
    fragile = " fragile" if verdict["fragile"] else ""
    return f"{told:<38} {ends}, {verdict['runs_met']}/{verdict['n']}{fragile}"


def _cells(verdicts: Sequence[Table]) -> Iterator[str]:
    """Every other cell of the grid, where which of them is judged had to be chosen."""
    rows = list(cells(verdicts))
    if rows:
        heads = "".join(f"{each['metric'][:13]:>14}" for each in verdicts)
        yield from ("", f"  {'the other cells':<26}{'n':>3}{heads}")
    for name, n, told in rows:
        values = (f"{found['value']:.1%}{' ' if found['met'] else '!'}" if found else "– " for _, found in told)
        yield f"  {name:<26}{n:>3}{''.join(f'{value:>14}' for value in values)}".rstrip()
    if rows:
        yield from ("  ! beyond the gate's limit", "")


def _closing(report: Report) -> Iterator[str]:
    yield ""
    yield from wrapped(
        "* the arm that is judged. Saved: tokens beside the isolated arm, pair by pair. C/W: what memory costs beside"
        " the work, billed; P/W: what agents take that only coordinate. Twice: of what was found out, what the memory"
        " held. Recall: of what was needed and held, what was shown."
    )
    level = report.table["run"]["level"]
    yield from wrapped(
        ONLY_CHANCE if level == "L0" else f"{level}: {LEVELS[level]}: {', '.join(report.table['run']['engines'])}."
    )
    for warning in report.table["warnings"]:
        yield from wrapped(f"! {warning}")
    yield from ("", "Three levels of evidence:")
    for each, what, state in levels(report.table):
        yield from wrapped(f"  {each} {what:<16} {state}", " " * 22)


def wrapped(text: str, indent: str = "  ") -> Sequence[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
