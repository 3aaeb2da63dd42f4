"""A report as Markdown: the one form of it, of which the page and the terminal are made. What it
says stands in the report already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from scenarios.measure.findings import Table
from scenarios.measure.meanings import meaning
from scenarios.measure.retrieval import COMPARABLE, DEPTHS, UNITS
from scenarios.report import summary, words
from scenarios.report.recorded import RETRIEVAL
from scenarios.report.report import LEVELS, ONLY_CHANCE, Report
from scenarios.report.words import cells, figure, percent
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
MEANT = (
    "*: the arm that is judged. Saved: tokens beside those of isolated agents, seed by"
    " seed, with its 95 % interval. Done right: of all tasks. All ÷ task: tokens that"
    " memory takes and agents that only plan, beside the tokens of the work, billed;"
    " memory ÷ task: memory's part of it. Found twice: of what was found out, the"
    " share that memory held already. Needs shown: of what was needed and held, the"
    " share that was shown."
)
MEMORY_MEANT = (
    "*: the arm that is judged. Still found: queries that are answered after the nights, beside"
    " before. Tokens a day: by which all live entries grow."
)
SEEDS = "## On the same seeds"
FIGURES = "Every figure of every arm, with its interval"
COLUMN_MEANINGS = "What the columns mean"
# The HTML that is our own: what few readers look at is folded.
FOLDS = re.compile(
    r"<details><summary>([\w ,]+ of the grid, in which nothing is judged"
    rf"|{FIGURES}|{COLUMN_MEANINGS})</summary>"
)
FOLDED = "</details>"
PIPE = "\\|"
BAR = 20  # signs of the longest bar
NUMBER = re.compile(r"[-+$–\d]")

# The figures of an arm, as they stand together in a table, where any arm has them.
PARTS: Mapping[str, Sequence[str]] = {
    "tokens and tasks": ("tokens", "net_saving", "usd", "usd_automatic", "usd_saving",
                         "task_success", "tokens_per_success"),
    "overhead": ("co_task", "co_memory", "co_plan", "co_total", "co_ref", "co_memory_unique"),
    "what was known": ("redundancy", "needed_recall", "view_recall", "context_reduction",
                       "fidelity", "stale_after_delivery", "wake_latency", "fact_retention"),
}  # fmt: skip
MEMORY = {"still found": "fact_retention", "tokens a day": "growth"}


def _short(name: str, words_of: Callable[[float], str]) -> Callable[[Table], str]:
    return lambda row: words_of(row[name]["value"]) if name in row else "–"


def _whole(value: float) -> str:
    return f"{value:.0%}"


ARMS: Mapping[str, Callable[[Table], str]] = {
    "tokens": _short("tokens", words.thousands),
    "cost": _short("usd", words.dollars),
    "saved [95 %]": lambda row: words.saved(row["net_saving"]) if "net_saving" in row else "–",
    "done right": _short("task_success", _whole),
    "all ÷ task": _short("co_task", words.share),
    "memory ÷ task": _short("co_memory", words.share),
    "found twice": _short("redundancy", _whole),
    "needs shown": _short("needed_recall", _whole),
}


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
    run, table = report.table["run"], report.table
    yield from ("# Brain Suite", "", f"**{summary.sentence(table)}**", "")
    for description, arms in summary.arms(table):
        yield from (f"**{description[0].upper()}{description[1:]}**", "")
        yield from (*(f"* `{arm}`: {names}" for arm, names in arms), "")
    if equals := [f"* {line}" for line in summary.equals(table)]:
        yield from ("**What came out equal**", "", *equals, "")
    yield from (SEEDS, "", *rivals(table))
    level = run["level"]
    yield from (ONLY_CHANCE if level == "L0" else f"{level}: {LEVELS[level]}.", "")
    if source := words.measured(run):
        yield from (source, "")
    for scenario in report.study.scenarios:
        yield from _scenario(report, scenario)
    yield from _recorded(table.get("recorded", {}))
    yield from _meant(report)
    yield from _missed(table)
    yield from ("## Dollars", "", *(f"* {line}" for line in summary.price_list()), "")
    yield from ("## Three levels of evidence", "")
    yield from grid(("level", "what", "in this report"), words.levels(table))
    yield from ("## What was run", "")
    yield (
        f"{run['runs']} runs, counted in {run['tokenizer']} ({run['counting']}), version"
        f" {run['version']} (commit {run.get('git') or 'unknown'})."
    )
    yield f"Ledger sha256 `{run['ledger']}`; configuration `{run['config']}`."
    yield "`brain-suite verify` makes every number again from the ledger, and those of retrieval"
    yield "from the conversations."
    judged = [item["met"] for item in table["verdicts"] if item["met"] is not None]
    yield from ("", f"{sum(judged)} of {len(judged)} thresholds met")


def rivals(table: Table) -> Iterator[str]:
    """Return the product beside the best rival of each scenario, as a table."""
    yield from grid(summary.HEAD, map(summary.cells, table["against"]))
    if table["against"]:
        yield from (summary.meant(table), "")


# -- a scenario ------------------------------------------------------------------------------------


def _scenario(report: Report, scenario: str) -> Iterator[str]:
    described = report.table["scenarios"][scenario]
    level = report.table["run"]["level"]
    verdicts = [item for item in report.table["verdicts"] if item["scenario"] == scenario]
    yield from (f"## {described['title']}", "", f"`{scenario}`, {level}. {described['shows']}", "")
    if described["headline"]:
        judged_at = f"Judged at {words.parameters(described['params'])}."
        yield from (f"{judged_at} {described['headline']}", "")
    yield from _arms(report, scenario)
    for row in report.table["against"]:
        if row["scenario"] == scenario:
            yield from _bars(row)
    head = ("gate", "arm", "value [95 %]", "runs that meet it", "verdict")
    yield from grid(head, map(words.gate, verdicts))
    yield from (*(f"* {line}" for line in map(_remark, verdicts) if line), "")
    yield from _cells(verdicts)
    payback = [words.pays(row) for row in report.table["break_even"] if row["scenario"] == scenario]
    if payback:
        yield from ("From where on memory pays:", "", *(f"* {row}" for row in payback), "")
    yield from fold(FIGURES, _figures(report, scenario))


def _arms(report: Report, scenario: str) -> Iterator[str]:
    """Yield the arms beside each other, by their kind."""
    described, played = report.table["scenarios"][scenario], report.study.arms(scenario)
    columns = ARMS
    if not any(
        sample.tally["tokens"] for arm in played for sample in report.study.of(scenario, arm)
    ):
        columns = {head: _interval(name) for head, name in MEMORY.items()}
    rows: list[Sequence[str]] = []
    for kind, arms in summary.order(described, played):
        if kind != "product":
            rows.append((f"*{kind}s:*", *[""] * (len(columns) + 1)))
        for arm in arms:
            mark = "\\*" if arm == described["gated"] else ""
            count = str(len(report.study.of(scenario, arm)))
            row = _metrics(report, scenario, arm)
            rows.append((f"{mark}{arm}", count, *(cell(row) for cell in columns.values())))
    yield from grid(("arm", "n", *columns), rows)
    away = [f"* {arm}: not played: {why}" for arm, why in described["missing"].items()]
    yield from (*away, "") if away else ()


def _interval(name: str) -> Callable[[Table], str]:
    return lambda row: figure(name, row.get(name))


def _metrics(report: Report, scenario: str, arm: str) -> Table:
    study = report.study
    row: Table = report.table["metrics"][study.key(scenario, study.base(scenario), arm)]
    return row


def _bars(row: Table) -> Iterator[str]:
    """Yield the product and each rival, on the same seeds; how many fewer the product takes than
    each.
    """
    seeds = f"{row['n']} seed{'s' * (row['n'] != 1)} of each"
    yield from (f"Tokens of a run, {seeds}, {summary.agents(row)}:", "")
    bars, product = row["bars"], row["product"]
    most = max(each["tokens"]["value"] for each in bars.values()) or 1

    def bar(arm: str) -> Sequence[str]:
        value, beside = bars[arm], row["beside"].get(arm)
        return (
            arm,
            "█" * max(round(value["tokens"]["value"] / most * BAR), 1),
            words.thousands(value["tokens"]["value"]),
            words.dollars(value["usd"]["value"]),
            _whole(value["success"]),
            words.saved(beside["tokens"]) if beside else "",
        )

    names = sorted(bars, key=lambda arm: (arm != product, bars[arm]["tokens"]["value"]))
    head = ("arm", "", "tokens", "dollars", "done right", f"{product} takes fewer")
    yield from grid(head, map(bar, names))
    if overhead := summary.overhead(row):
        yield from (overhead, "")


def _remark(verdict: Table) -> str:
    """Return what a reader has to know of a verdict besides its figures."""
    remarks = []
    if verdict.get("first"):
        remarks.append(f"no saving counts where this was missed: {', '.join(verdict['first'])}")
    if verdict["fragile"]:
        remarks.append(f"fragile: otherwise at {', '.join(verdict['flips'])}")
    return f"{verdict['gate']}: {'; '.join(remarks)}" if remarks else ""


def _cells(verdicts: Sequence[Table]) -> Iterator[str]:
    """Yield every other cell of the grid."""
    rows = [
        (name, *(_cell(verdict["metric"], outcome) for verdict, outcome in row))
        for name, _, row in cells(verdicts)
    ]
    if rows:
        head = ("cell", *(verdict["gate"] for verdict in verdicts))
        title = f"{words.others(len(rows))} of the grid, in which nothing is judged"
        note = "**!**: beyond the gate's limit. n: runs."
        yield from fold(title, (note, "", *grid(head, rows)))


def _cell(metric: str, found: Table | None) -> str:
    if found is None:
        return "–"
    return f"{figure(metric, found)}, n {found['n']}{'' if found['met'] else ' **!**'}"


def _figures(report: Report, scenario: str) -> Iterator[str]:
    rows = {arm: _metrics(report, scenario, arm) for arm in report.study.arms(scenario)}
    for title, names in PARTS.items():
        columns = [name for name in names if any(name in row for row in rows.values())]
        if columns:
            body = ((arm, *(figure(name, row.get(name)) for name in columns)) for arm, row in
                    rows.items())  # fmt: skip
            yield from grid((title, *columns), body)
    compared = [row for row in report.table["comparisons"] if row["scenario"] == scenario]
    if compared:
        yield "Beside the isolated arm, pair by pair (p by flipped signs, for all arms together"
        yield from ("by Holm):", "")
        yield from grid(
            ("arm", "n", "saved [95 %]", "p", "success", "no worse by 2 points", "fragile"),
            map(_comparison, compared),
        )


def _comparison(each: Table) -> Sequence[str]:
    return (
        each["arm"],
        str(each["n"]),
        figure("net_saving", each["saving"]),
        f"{each['p_holm']:.4f}",
        f"{each['success_difference'] * 100:+.1f} points",
        "yes" if each["no_worse"] else "**no**",
        ", ".join(each["flips"]) or "no",
    )


# -- what else a reader has to know ----------------------------------------------------------------


def _recorded(runs: Table) -> Iterator[str]:
    """Yield what was retrieved (L1), in our figures and in the units that others use."""
    if RETRIEVAL in runs:
        retrieved = runs[RETRIEVAL]
        yield from ("## What memory finds in recorded conversations (L1)", "", RETRIEVED, "")
        yield from grid(("", "questions", *retrieved["figures"]), _retrieval_rows(retrieved))
        yield from (f"{UNITS_TOLD} {COMPARABLE}", "")
        yield from grid(("", "questions", "k", *UNITS), _unit_rows(retrieved))


def _unit_rows(found: Table) -> Iterator[Sequence[str]]:
    """Yield the figures of retrieval by each group of questions and depth, a cell for each unit."""
    for name, row in found["units"].items():
        for depth in DEPTHS:
            units = (percent(row[f"{unit}@{depth}"]) for unit in UNITS)
            yield name, str(row["questions"]), str(depth), *units


def _retrieval_rows(found: Table) -> Iterator[Sequence[str]]:
    """Yield the figures of retrieval in cells: apart, by kind of question, and all in one
    workspace.
    """
    figures, questions = found["figures"], str(found["questions"])
    apart = (figure(name, item) for name, item in figures.items())
    yield ("each conversation apart", questions, *apart)
    for category, row in found["by_category"].items():
        yield (category, str(row["questions"]), *(percent(row[name]) for name in figures))
    together = (percent(found["one_workspace"][name]) for name in figures)
    yield ("all in one workspace", questions, *together)


def _meant(report: Report) -> Iterator[str]:
    """Yield what the columns of the tables mean."""
    groups = [item for group in report.study.cells.values() for item in group]
    yield from ("## What the tables say", "")
    if any(item.tally["tokens"] for item in groups):
        yield from (MEANT, "")
    if any(item.days for item in groups):
        yield from (MEMORY_MEANT, "")
    there = {name for row in report.table["metrics"].values() for name in row}
    names = [name for part in PARTS.values() for name in part if name in there]
    yield from fold(COLUMN_MEANINGS, (*(f"* {name}: {meaning(name)}" for name in names), ""))


def _missed(table: Table) -> Iterator[str]:
    missed = [_miss(verdict) for verdict in table["verdicts"] if verdict["met"] is False]
    warnings = [*words.together(table["warnings"])]
    if missed or warnings:
        yield from ("## What was not reached, and what to know before believing this", "")
        yield from (*(f"* {line}" for line in (*missed, *warnings)), "")


def _miss(verdict: Table) -> str:
    text = f"{verdict['scenario']}, {verdict['arm']}: {verdict['gate']}"
    if "value" not in verdict:
        return f"{text}: {verdict['why']}"
    came = f"came to {figure(verdict['metric'], verdict)}"
    return f"{text} {came}; {verdict['runs_met']} of {verdict['n']} runs meet it"


def fold(title: str, body: Iterable[str]) -> Iterator[str]:
    """Yield what Markdown with HTML shows folded."""
    yield from (f"<details><summary>{title}</summary>", "", *body, FOLDED, "")


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table, columns of numbers to the right; nothing where there are no rows."""
    listed = list(rows)
    if listed:
        columns = list(zip(*listed, strict=True))
        numbers = [at > 0 and any(map(NUMBER.match, cells)) for at, cells in enumerate(columns)]
        yield f"| {' | '.join(cell.replace('|', PIPE) for cell in head)} |"
        yield f"|{''.join('---:|' if right else '---|' for right in numbers)}"
        for row in listed:
            yield f"| {' | '.join(cell.replace('|', PIPE) for cell in row)} |"
        yield ""
