"""A report in the terminal: lines of at most 80 columns. What it says stands in the report
already.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from scenarios.measure.findings import Table
from scenarios.report import summary
from scenarios.report.report import ONLY_CHANCE, Report
from scenarios.report.words import amount, cells, figure, levels, measured, pays, together

WIDTH = 80
# gates beside each other in the table of cells, and how long a cell's name may be
ABREAST, CELL = 3, 26
HEADS = (
    f"{'beside isolated':>50}{'coord. ÷ task':>18}{'found':>6}{'need':>6}",
    f" {'arm':<13}{'n':>3}{'tokens':>7}{'dollars':>8}{'saved [95 %]':>18}{'done':>5}"
    f"{'all':>6}{'memory':>7}{'twice':>6}{'shown':>6}",
)
BEST = (
    f" {'scenario':<20}{'agents':<9}{'best rival':<14}"
    f"{'fewer tokens':>18}{'dollars':>8}{'done':>10}"
)
BAR = 20  # signs of the longest bar
MEMORY = ("fact_retention", "growth")
MEMORY_HEADS = (f" {'arm':<12}{'n':>3} {'still found':>24}{'tokens a day':>24}",)
MEANT = (
    "* the arm that is judged. Saved: tokens beside those of isolated agents, seed by"
    " seed, with its 95 % interval. Done: tasks that came out right. Coordination ÷"
    " task: tokens that memory takes and agents that only plan, beside the tokens of"
    " the work, billed; of it memory's part. Found twice: of what was found out, the"
    " share that memory held already. Needed shown: of what was needed and held, the"
    " share that was shown."
)
MEMORY_MEANT = (
    "Still found: queries that are answered after the nights, beside before. Tokens a"
    " day: by which all live entries grow."
)
MARKS = {True: "met", False: "MISSED", None: "not played"}


def lines(report: Report) -> Iterator[str]:
    yield from _first_screen(report.table)
    for scenario in report.study.scenarios:
        yield from of_scenario(report, scenario)
    yield from _closing(report)


def _first_screen(table: Table) -> Iterator[str]:
    """Yield what was compared with what, and the result."""
    yield from ("", *wrapped(summary.sentence(table), ""))
    for description, arms in summary.arms(table):
        yield from ("", *wrapped(f"{description[0].upper()}{description[1:]}"))
        for arm, names in arms:
            yield from wrapped(f"  {arm:<14}{names}", " " * 16)
    for line in summary.equals(table):
        yield from ("", *wrapped(line))
    if table["against"]:
        yield from ("", BEST)
    for row in table["against"]:
        yield _best(row)


def _best(row: Table) -> str:
    best, cheapest = row["best"], row["best_usd"]
    line = f" {row['scenario'][:19]:<20}{row['agents']:<9}"
    if best is None:
        return f"{line}{summary.NO_RIVAL}"
    usd = row["beside"][cheapest]["usd"]["value"]
    success = "v".join(f"{row['bars'][arm]['success']:.0%}" for arm in (row["product"], best))
    return f"{line}{best:<14}{_saved(row['beside'][best]['tokens']):>18}{usd:>8.0%}{success:>10}"


def _bars(row: Table) -> Iterator[str]:
    """Yield the product and each rival, on the same seeds; how many fewer the product takes than
    each.
    """
    seeds = f"{row['n']} seed{'s' * (row['n'] != 1)} of each"
    yield from ("", *wrapped(f"  Tokens of a run, {seeds}, {summary.agents(row)}:", "    "))
    yield (
        f"  {'':<14}{'':<{BAR}}{'':>6}{'dollars':>8}{'done':>5}"
        f" {row['product'] + ' takes fewer':>22}"
    )
    bars = row["bars"]
    most = max(each["tokens"]["value"] for each in bars.values()) or 1
    for arm, each in sorted(
        bars.items(), key=lambda pair: (pair[0] != row["product"], pair[1]["tokens"]["value"])
    ):
        bar = "█" * max(round(each["tokens"]["value"] / most * BAR), 1)
        comparison = row["beside"].get(arm)
        saved = _saved(comparison["tokens"]) if comparison else ""
        tokens, usd = thousands(each["tokens"]["value"]), dollars(each["usd"]["value"])
        yield (
            f"  {arm:<14}{bar:<{BAR}}{tokens:>6}{usd:>8}{each['success']:>5.0%} {saved:>22}"
        ).rstrip()
    if overhead := summary.overhead(row):
        yield from wrapped(f"  {overhead}", "    ")


def of_scenario(report: Report, scenario: str) -> Iterator[str]:
    described = report.table["scenarios"][scenario]
    level = report.table["run"]["level"]
    yield from ("", f"{scenario}, {level}: {described['title']}"[:WIDTH], "")
    if described["headline"]:
        yield from (*wrapped(f"  {described['headline']}", "  "), "")
    yield from _arms(report, scenario)
    for row in report.table["against"]:
        if row["scenario"] == scenario:
            yield from _bars(row)
    verdicts = [item for item in report.table["verdicts"] if item["scenario"] == scenario]
    if verdicts:
        yield from ("", f"  {'expected':<42}{'came to [95 %]':>24}{'runs met':>11}")
    for verdict in verdicts:
        yield from _verdict(verdict)
    if described["headline"]:
        yield from _cells(verdicts)
    for item in report.table["break_even"]:
        if item["scenario"] == scenario:
            yield from wrapped(f"  {pays(item)}", "    ")


def _arms(report: Report, scenario: str) -> Iterator[str]:
    """Yield every arm, by its kind."""
    described, played = report.table["scenarios"][scenario], report.study.arms(scenario)
    spent = any(
        sample.tally["tokens"] for arm in played for sample in report.study.of(scenario, arm)
    )
    yield from HEADS if spent else MEMORY_HEADS
    for kind, arms in summary.order(described, played):
        if kind != "product":
            yield f" -- {kind}s"
        for arm in arms:
            yield (_row if spent else _memory_row)(
                report, scenario, arm, "*" if arm == described["gated"] else " "
            )
    for arm, why in described["missing"].items():
        yield f" {arm:<13}  –  {why}"


def _row(report: Report, scenario: str, arm: str, mark: str) -> str:
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]

    def share(name: str) -> str:
        return _share(figures[name]["value"]) if name in figures else "–"

    saved = _saved(figures["net_saving"]) if "net_saving" in figures else "–"
    tokens = thousands(figures["tokens"]["value"]) if "tokens" in figures else "–"
    usd = dollars(figures["usd"]["value"]) if "usd" in figures else "–"
    return (
        f"{mark}{arm:<13}{len(report.study.of(scenario, arm)):>3}{tokens:>7}{usd:>7}{saved:>19}"
        f"{_whole(figures, 'task_success'):>5}{share('co_task'):>6}{share('co_memory'):>7}"
        f"{_whole(figures, 'redundancy'):>6}{_whole(figures, 'needed_recall'):>6}"
    )


def _saved(interval: Table) -> str:
    """Return a saving and its interval, in at most 18 signs."""
    if interval["lo"] < -9.985:
        return f"{1 - interval['value']:,.0f}x as many"
    return f"{interval['value']:.0%} [{interval['lo'] * 100:.0f}, {interval['hi'] * 100:.0f}]"


def _share(value: float) -> str:
    """Return a share in at most five signs, up to a hundredfold."""
    return (
        f"{value:.1%}" if value < 0.9995 else f"{value:.0%}" if value < 99.995 else f"{value:,.0f}x"
    )


def _whole(figures: Table, name: str) -> str:
    return f"{figures[name]['value']:.0%}" if name in figures else "–"


def dollars(value: float) -> str:
    """Dollars in at most six signs, below a million."""
    size, unit = (1e3, "k") if value >= 999.5 else (1.0, "")
    places = 3 if value < 0.9995 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"${value / size:.{places}f}{unit}"


def thousands(value: float) -> str:
    size, unit = (1e6, "M") if value >= 999_500 else (1e3, "k") if value >= 999.5 else (1.0, "")
    return f"{value / size:.3g}{unit}" if value / size < 999.5 else f"{value / size:,.0f}{unit}"


def _memory_row(report: Report, scenario: str, arm: str, mark: str) -> str:
    """Return the row of a memory that only nightly runs work on."""
    figures = report.table["metrics"][report.study.key(scenario, report.study.base(scenario), arm)]
    values = "".join(f"{figure(name, figures.get(name)):>24}" for name in MEMORY)
    return f"{mark}{arm:<12}{len(report.study.of(scenario, arm)):>3} {values}"[:WIDTH]


def _verdict(verdict: Table) -> Iterator[str]:
    line = f"  {MARKS[verdict['met']]:<7} {verdict['gate']}"
    if "value" not in verdict:
        yield from wrapped(f"{line}: {verdict['why']}", " " * 10)
        return
    runs = f"{verdict['runs_met']} of {verdict['n']}"
    yield f"{line:<44}{figure(verdict['metric'], verdict):>24}{runs:>11}"[:WIDTH]
    if verdict.get("first"):
        yield from wrapped(
            f"{'':<10}no saving counts where this was missed: {', '.join(verdict['first'])}",
            " " * 12,
        )
    if verdict["fragile"]:
        yield from wrapped(f"{'':<10}fragile: otherwise at {', '.join(verdict['flips'])}", " " * 12)


def _cells(verdicts: Sequence[Table]) -> Iterator[str]:
    """Yield every other cell of the grid, where which of them is judged had to be chosen: as many
    gates as fit, then more.
    """
    for first in range(0, len(verdicts), ABREAST):
        page = verdicts[first : first + ABREAST]
        rows = list(cells(page))
        if rows:
            heads = "".join(f"{verdict['metric'][:13]:>14}" for verdict in page)
            yield from ("", f"  {'the other cells':<27}{'n':>3}{heads}")
        for name, n, row in rows:
            values = (
                f"{amount(verdict['metric'], outcome['value'])}{' ' if outcome['met'] else '!'}"
                if outcome
                else "– "
                for verdict, outcome in row
            )
            short = name if len(name) <= CELL else f"{name[: CELL - 1]}…"
            yield f"  {short:<27}{n:>3}{''.join(f'{value:>14}' for value in values)}".rstrip()
    if any(verdict["cells"] for verdict in verdicts):
        yield from ("  ! beyond the gate's limit; nothing is judged by these cells", "")


def _closing(report: Report) -> Iterator[str]:
    yield ""
    spent = any(item.tally["tokens"] for group in report.study.cells.values() for item in group)
    by_days = any(item.days for group in report.study.cells.values() for item in group)
    yield from wrapped(" ".join((MEANT,) * spent + (MEMORY_MEANT,) * by_days))
    if spent:
        yield from ("", "Dollars:")
        for line in summary.price_list():
            yield from wrapped(f"  {line}", "    ")
    if report.table["warnings"]:
        yield from ("", "What to know before believing this:")
    for warning in together(report.table["warnings"]):
        yield from wrapped(f"! {warning}")
    if source := measured(report.table["run"]):
        yield from ("", *wrapped(source))
    level = report.table["run"]["level"]
    yield from ("", "Three levels of evidence:")
    for item, claim, state in levels(report.table):
        yield from wrapped(f"  {item} {claim:<16} {state}", " " * 22)
    if level == "L0":
        yield from ("", *wrapped(ONLY_CHANCE))
    judged = [item["met"] for item in report.table["verdicts"] if item["met"] is not None]
    yield from ("", f"{sum(judged)} of {len(judged)} thresholds met")


def wrapped(text: str, indent: str = "  ") -> Sequence[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
