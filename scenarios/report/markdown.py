"""A report as Markdown, to be pasted where people read. What it says stands in the report
already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from scenarios.measure.findings import Table
from scenarios.measure.meanings import meaning
from scenarios.measure.retrieval import COMPARABLE, DEPTHS, UNITS
from scenarios.report import summary
from scenarios.report.recorded import RETRIEVAL
from scenarios.report.report import LEVELS, ONLY_CHANCE, Report
from scenarios.report.words import (
    cells,
    figure,
    gate,
    levels,
    measured,
    others,
    parameters,
    pays,
    percent,
    together,
)
from synapse.system.quoting import inline

RETRIEVED = (
    "Questions whose evidence is known turn by turn, put to search as an agent would:"
    " the share of the evidence among the first 5, 10 and 20 hits (R@), in the answer"
    " of the tool (capsule), and 1 ÷ the place of the first (mrr)."
)
UNITS_TOLD = (
    "Among the first k hits: the mean share of the evidence turns, whether any or all"
    " of them are there, whether any or all of their sessions are; and whether any is"
    " among the first k sessions."
)
# The HTML that is our own: the grid of a scenario is folded.
FOLDS = re.compile(r"<details><summary>[\w ,]+ of the grid, in which nothing is judged</summary>")
FOLDED = "</details>"
PIPE = "\\|"
UNIT_COLUMNS = ("", "questions", "k", *UNITS)

# What stands in the table of arms, in this order, where any arm has it.
COLUMNS = (
    "tokens", "net_saving", "usd", "usd_automatic", "usd_saving", "task_success", "co_task",
    "co_memory", "co_plan",
    "co_total", "co_ref", "co_memory_unique", "tokens_per_success", "redundancy", "needed_recall",
    "view_recall",
    "context_reduction", "fidelity", "stale_after_delivery", "wake_latency", "fact_retention",
)  # fmt: skip


def lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report. What stands in a scenario, a trace or the name of a folder is
    text in them: it begins no line, is no HTML and no link."""
    return map(text_only, _lines(report))


def text_only(line: str) -> str:
    """Return a line with nothing in it that Markdown would take for HTML or for a link."""
    if line == FOLDED or FOLDS.fullmatch(line):
        return line
    return inline(line).replace("<", "&lt;").replace("](", "]\\(")


def _lines(report: Report) -> Iterator[str]:
    run = report.table["run"]
    yield from ("# Brain Suite", "", f"**{summary.sentence(report.table)}**", "")
    yield from _compared(report.table)
    yield from ("## On the same seeds", "", *rivals(report.table))
    yield from (f"**{run['level']}**: {LEVELS[run['level']]}.", "")
    if run["level"] == "L0":
        yield from (ONLY_CHANCE, "")
    if source := measured(run):
        yield from (source, "")
    yield from ("## Three levels of evidence", "")
    yield from grid(("level", "what", "in this report"), levels(report.table))
    for scenario in report.study.scenarios:
        yield from _scenario(report, scenario)
    yield from _recorded(report.table.get("recorded", {}))
    yield from _warnings(report.table["warnings"])
    yield from ("## Dollars", "", *(f"* {line}" for line in summary.price_list()), "")
    yield from ("## What was run", "")
    yield (
        f"{run['runs']} runs, counted in {run['tokenizer']} ({run['counting']}), version"
        f" {run['version']}"
    )
    yield (
        f"(commit {run.get('git') or 'unknown'}). Ledger sha256 `{run['ledger']}`;"
        f" configuration `{run['config']}`."
    )
    yield (
        "`brain-suite verify` makes every number again from the ledger, and those of retrieval from"
    )
    yield "the conversations."


def _compared(table: Table) -> Iterator[str]:
    """Yield what was compared with what."""
    for description, arms in summary.arms(table):
        yield from (f"**{description[0].upper()}{description[1:]}**", "")
        yield from (*(f"* `{arm}`: {names}" for arm, names in arms), "")
    yield from (f"* {line}" for line in summary.equals(table))
    yield ""


def rivals(table: Table) -> Iterator[str]:
    """Return the product beside the best rival of each scenario, as a table."""
    yield from grid(summary.HEAD, map(summary.cells, table["against"]))
    if table["against"]:
        yield from (summary.meant(table), "")


def _scenario(report: Report, scenario: str) -> Iterator[str]:
    described = report.table["scenarios"][scenario]
    level = report.table["run"]["level"]
    yield from (f"## {described['title']}", "", f"`{scenario}`, {level}. {described['shows']}", "")
    if described["headline"]:
        yield from (f"Judged at {parameters(described['params'])}. {described['headline']}", "")
    yield from grid(
        ("gate", "arm", "value [95 %]", "runs that meet it", "verdict"), _gates(report, scenario)
    )
    groups = summary.order(described, report.study.arms(scenario))
    kinds = {arm: kind for kind, arms in groups for arm in arms}
    base = report.study.base(scenario)
    rows = {arm: report.table["metrics"][report.study.key(scenario, base, arm)] for arm in kinds}
    columns = [name for name in COLUMNS if any(name in row for row in rows.values())]
    yield from grid(
        ("arm", "kind", "n", *columns),
        (
            (
                arm,
                kinds[arm],
                str(len(report.study.of(scenario, arm))),
                *(figure(name, row.get(name)) for name in columns),
            )
            for arm, row in rows.items()
        ),
    )
    yield from (f"* {name}: {meaning(name)}" for name in columns)
    yield ""
    yield from _cells(
        [verdict for verdict in report.table["verdicts"] if verdict["scenario"] == scenario]
    )
    yield from _beside(report, scenario)


def _gates(report: Report, scenario: str) -> Iterator[Sequence[str]]:
    for verdict in report.table["verdicts"]:
        if verdict["scenario"] == scenario:
            yield gate(verdict)


def _cells(verdicts: Sequence[Table]) -> Iterator[str]:
    """Yield every other cell, folded where Markdown is shown with HTML."""
    rows = [
        (name, *(_cell(verdict["metric"], outcome) for verdict, outcome in row))
        for name, _, row in cells(verdicts)
    ]
    if rows:
        yield from (
            (
                f"<details><summary>{others(len(rows))} of the grid, in which nothing is"
                f" judged</summary>"
            ),
            "",
        )
        yield from ("**!**: beyond the gate's limit. n: runs.", "")
        yield from grid(("cell", *(verdict["gate"] for verdict in verdicts)), rows)
        yield from (FOLDED, "")


def _cell(metric: str, found: Table | None) -> str:
    if found is None:
        return "–"
    return f"{figure(metric, found)}, n {found['n']}{'' if found['met'] else ' **!**'}"


def _beside(report: Report, scenario: str) -> Iterator[str]:
    rows = [row for row in report.table["comparisons"] if row["scenario"] == scenario]
    if rows:
        yield from (
            (
                "Beside the isolated arm, pair by pair (p by flipped signs, for all arms"
                " together by Holm):"
            ),
            "",
        )
        head = (
            "arm",
            "n",
            "saved [95 %]",
            "p",
            "success, difference",
            "no worse by 2 points",
            "fragile",
        )
        yield from grid(head, map(_comparison, rows))
    payback = [pays(row) for row in report.table["break_even"] if row["scenario"] == scenario]
    if payback:
        yield from ("From where on memory pays:", "", *(f"* {row}" for row in payback), "")


def _comparison(each: Table) -> Sequence[str]:
    return (
        each["arm"],
        str(each["n"]),
        figure("net_saving", each["saving"]),
        f"{each['p_holm']:.4f}",
        percent(each["success_difference"]),
        "yes" if each["no_worse"] else "no",
        ", ".join(each["flips"]) or "no",
    )


def _recorded(runs: Table) -> Iterator[str]:
    """Yield what was retrieved (L1), in our figures and in the units that others use."""
    if RETRIEVAL in runs:
        retrieved = runs[RETRIEVAL]
        yield from ("## What memory finds in recorded conversations (L1)", "", RETRIEVED, "")
        yield from grid(("", "questions", *retrieved["figures"]), retrieval_rows(retrieved))
        yield from (f"{UNITS_TOLD} {COMPARABLE}", "")
        yield from grid(UNIT_COLUMNS, unit_rows(retrieved))


def unit_rows(found: Table) -> Iterator[Sequence[str]]:
    """Yield the figures of retrieval by each group of questions and depth, a cell for each unit."""
    for name, row in found["units"].items():
        for depth in DEPTHS:
            cells = (percent(row[f"{unit}@{depth}"]) for unit in UNITS)
            yield name, str(row["questions"]), str(depth), *cells


def retrieval_rows(found: Table) -> Iterator[Sequence[str]]:
    """Yield the figures of retrieval in cells: apart, by kind of question, and all in one
    workspace.
    """
    questions = str(found["questions"])
    yield (
        "each conversation apart",
        questions,
        *(figure(name, item) for name, item in found["figures"].items()),
    )
    for category, row in found["by_category"].items():
        yield (category, str(row["questions"]), *(percent(row[name]) for name in found["figures"]))
    yield (
        "all in one workspace",
        questions,
        *(percent(found["one_workspace"][name]) for name in found["figures"]),
    )


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield from (
            "## What to know before believing this",
            "",
            *(f"* {warning}" for warning in together(warnings)),
            "",
        )


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; nothing where there are no rows."""
    listed = list(rows)
    if listed:
        yield from (f"| {' | '.join(head)} |", f"|{'---|' * len(head)}")
        for row in listed:
            yield f"| {' | '.join(cell.replace('|', PIPE) for cell in row)} |"
        yield ""
