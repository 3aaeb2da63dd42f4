"""report.html: one page that holds everything it needs: no script, no network, light and dark. Text
in, text out.

What it says stands in the report already; `pictures` decides what is drawn, `page.css` what it
looks like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from scenarios.measure.findings import Table
from scenarios.measure.meanings import meaning
from scenarios.measure.retrieval import COMPARABLE
from scenarios.report import pictures, summary
from scenarios.report.html import (
    ABOUT,
    code,
    head,
    interval_text,
    pair,
    picture_html,
    table,
    value_cell,
)
from scenarios.report.markdown import (
    COLUMNS,
    RETRIEVED,
    UNIT_COLUMNS,
    UNITS_TOLD,
    retrieval_rows,
    unit_rows,
)
from scenarios.report.page_top import top
from scenarios.report.pictures import Picture
from scenarios.report.recorded import RETRIEVAL
from scenarios.report.report import LEVELS, Report
from scenarios.report.words import amount, cells, figure, levels, others, parameters, pays, together

# The columns of `COLUMNS`, as they stand together in a table.
PARTS: Mapping[str, Sequence[str]] = {
    "tokens and tasks": ("tokens", "net_saving", "usd", "usd_automatic", "usd_saving",
    "task_success",
                         "tokens_per_success"),
    "overhead": ("co_task", "co_memory", "co_plan", "co_total", "co_ref", "co_memory_unique"),
    "what was known": ("redundancy", "needed_recall", "view_recall", "context_reduction",
    "fidelity",
                       "stale_after_delivery", "wake_latency", "fact_retention"),
}  # fmt: skip
assert {name for names in PARTS.values() for name in names} == set(COLUMNS)


def html(report: Report) -> str:
    style = (resources.files("scenarios.report") / "page.css").read_text(encoding="utf-8")
    drawn = list(pictures.of(report))
    sections = (
        top(report),
        _charts(drawn),
        _pays(report),
        _gates(report),
        _recorded(report),
        _details(report),
        _missed(report),
        _levels(report),
        _foot(report),
    )
    body = "\n".join(piece for section in sections for piece in section)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Brain Suite: what coordination costs and"
        f" saves</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


# -- Verdicts --------------------------------------------------------------------------


def _gates(report: Report) -> Iterator[str]:
    if not report.table["verdicts"]:
        return
    yield "<h2>What was expected, and what came</h2>"
    yield "<p class='soft'>Thresholds stand in the scenario's file, before anything is played.</p>"
    for scenario in report.study.scenarios:
        verdicts = [
            verdict for verdict in report.table["verdicts"] if verdict["scenario"] == scenario
        ]
        if verdicts:
            yield from _judged(report.table["scenarios"][scenario], scenario, verdicts)


def _judged(about: Table, scenario: str, verdicts: Sequence[Table]) -> Iterator[str]:
    """Yield a scenario's thresholds, why it is judged with these parameters, and what the others
    come to.
    """
    yield f"<h3 class='group'>{escape(scenario)}</h3>"
    if about["headline"]:
        yield (
            f"<p class='soft'>Judged at {escape(parameters(about['params']))}."
            f" {escape(about['headline'])}</p>"
        )
    yield table(
        ("", "<threshold", "value [95 %]", "runs that meet it"),
        [f"<tr>{_gate(verdict)}</tr>" for verdict in verdicts],
        "gates",
    )
    rows = [
        f"<tr><th scope='row'><code>{escape(name)}</code></th>"
        f"{''.join(_cell(verdict['metric'], outcome) for verdict, outcome in row)}</tr>"
        for name, _, row in cells(verdicts)
    ]
    if rows:
        beyond = sum(
            not outcome["met"] for verdict in verdicts for outcome in verdict["cells"].values()
        )
        yield f"<details class='cells'><summary>{others(len(rows))} of its grid"
        yield f"<small>{beyond} figure{'s' * (beyond != 1)} beyond a limit</small></summary>"
        yield "<p class='soft'>By these nothing is judged. ✗: beyond the limit. n: runs.</p>"
        yield table(("cell", *(verdict["gate"] for verdict in verdicts)), rows)
        yield "</details>"


def _cell(metric: str, found: Table | None) -> str:
    if found is None:
        return "<td>–</td>"
    value = (
        f"{escape(amount(metric, found['value']))}<small>{interval_text(metric, found)} n"
        f" {found['n']}</small>"
    )
    return f"<td>{value}</td>" if found["met"] else f"<td class=missed>✗ {value}</td>"


def _gate(each: Table) -> str:
    kind, status = {
        True: ("met", "✓ met"),
        False: ("missed", "✗ missed"),
        None: ("unplayed", "not played"),
    }[each["met"]]
    fragile = (
        f"<small class='fragile'>fragile: flips at {escape(', '.join(each['flips']))}</small>"
        if each["flips"]
        else ""
    )
    if "why" in each:
        fragile += f"<small>{escape(each['why'])}</small>"
    value = value_cell(each["metric"], {each["metric"]: each}) if "value" in each else "–"
    runs = f"{each['runs_met']} of {each['n']}" if "value" in each else "–"
    return (
        f"<td class='{kind}'>{escape(status)}</td><td"
        f" class='words'><code>{escape(each['gate'])}</code>{fragile}</td>"
        f"<td>{value}</td><td>{runs}</td>"
    )


# -- Charts ----------------------------------------------------------------------------


def _charts(drawn: Sequence[Picture]) -> Iterator[str]:
    yield "<h2>The curves</h2><div class='charts'>"
    for picture in drawn:
        if picture.drawing:
            yield picture_html(picture)
    yield "</div>"
    absent = [picture for picture in drawn if not picture.drawing]
    if absent:
        yield (
            "<p class='soft'>Left out, because their scenarios were not played:</p><ul"
            " class='plain soft'>"
        )
        yield from (
            f"<li>{escape(picture.title)}: <code>{escape(picture.missing)}</code></li>"
            for picture in absent
        )
        yield "</ul>"


def _pays(report: Report) -> Iterator[str]:
    rows = report.table["break_even"]
    if rows:
        yield "<h2>From where on memory pays</h2><ul class='plain'>"
        yield from (f"<li>{escape(row['scenario'])}: {escape(pays(row))}</li>" for row in rows)
        yield "</ul>"


def _recorded(report: Report) -> Iterator[str]:
    """Yield L1, apart from what was played."""
    recorded_parts = report.table.get("recorded", {})
    if RETRIEVAL in recorded_parts:
        retrieved = recorded_parts[RETRIEVAL]
        yield (
            f"<h2>What memory finds in recorded conversations (L1)</h2><p"
            f" class='soft'>{escape(RETRIEVED)}</p>"
        )
        yield table(("", "questions", *retrieved["figures"]), map(_row, retrieval_rows(retrieved)))
        yield f"<p class='soft'>{escape(UNITS_TOLD)} {escape(COMPARABLE)}</p>"
        yield table(UNIT_COLUMNS, map(_row, unit_rows(retrieved)))


def _row(cells: Sequence[str]) -> str:
    name, *values = cells
    data = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f"<tr><th scope='row'>{escape(name)}</th>{data}</tr>"


# -- Scenarios -------------------------------------------------------------------------


def _details(report: Report) -> Iterator[str]:
    yield "<h2>Every scenario, every arm</h2>"
    for number, scenario in enumerate(report.study.scenarios):
        described = report.table["scenarios"][scenario]
        title = (
            f"{escape(described['title'])}<small>{escape(scenario)},"
            f" {report.table['run']['level']}</small>"
        )
        yield f"<details{' open' if number == 0 else ''}><summary>{title}</summary>"
        yield f"<p>{escape(described['shows'])}</p>"
        yield from _arms(report, scenario)
        yield _beside(report, scenario)
        away = "; ".join(f"{arm}: {why}" for arm, why in described["missing"].items())
        if away:
            yield f"<p class='soft'>Not available: {escape(away)}.</p>"
        yield "</details>"


def _arms(report: Report, scenario: str) -> Iterator[str]:
    """Yield all arms, in tables that fit a screen, and the meaning of their columns."""
    arms, base = report.study.arms(scenario), report.study.base(scenario)
    rows = {arm: report.table["metrics"][report.study.key(scenario, base, arm)] for arm in arms}
    meant: list[str] = []
    for title, names in PARTS.items():
        columns = [name for name in names if any(name in row for row in rows.values())]
        if columns:
            lines = list(_by_kind(report, scenario, rows, columns))
            yield table((title, "n", *map(head, columns)), lines)
        meant += [
            f"<dt>{escape(head(name))}</dt><dd>{escape(meaning(name))}</dd>" for name in columns
        ]
    yield (
        f"<details class='meant'><summary>What the columns"
        f" mean</summary><dl>{''.join(meant)}</dl></details>"
    )


def _by_kind(
    report: Report, scenario: str, rows: Mapping[str, Table], columns: Sequence[str]
) -> Iterator[str]:
    described = report.table["scenarios"][scenario]
    for kind, arms in summary.order(described, list(rows)):
        yield (
            f"<tr class='kind'><th"
            f" colspan='{len(columns) + 2}'>{kind}{'s' * (kind != 'product')}</th></tr>"
        )
        for arm in arms:
            yield _arm(
                arm, len(report.study.of(scenario, arm)), rows[arm], columns, kind == "product"
            )


def _arm(arm: str, n: int, row: Table, columns: Sequence[str], strong: bool) -> str:
    cells = "".join(f"<td>{value_cell(name, row)}</td>" for name in columns)
    return (
        f"<tr{' class=gated' * strong}><th scope='row'>{escape(arm)}</th><td>{n}</td>{cells}</tr>"
    )


def _beside(report: Report, scenario: str) -> str:
    rows = [pair(row) for row in report.table["comparisons"] if row["scenario"] == scenario]
    if not rows:
        return ""
    head = (
        "beside isolated",
        "n",
        "saved [95 %]",
        "p, Holm",
        "success",
        "no worse by 2 points",
        "fragile",
    )
    return table(head, rows)


# -- What else a reader has to know ----------------------------------------------------


def _missed(report: Report) -> Iterator[str]:
    missed = [verdict for verdict in report.table["verdicts"] if verdict["met"] is False]
    if not missed and not report.table["warnings"]:
        return
    yield "<h2>What was not reached, and what to know before believing this</h2><ul class='plain'>"
    for verdict in missed:
        came = (
            f"came to {figure(verdict['metric'], verdict)}"
            if "value" in verdict
            else verdict["why"]
        )
        runs_met = (
            f"; {verdict['runs_met']} of {verdict['n']} runs meet it" if "value" in verdict else ""
        )
        text = f"{verdict['scenario']}, {verdict['arm']}: {verdict['gate']} {came}{runs_met}"
        yield f"<li class='missed'>{escape(text)}</li>"
    yield from (f"<li>{escape(verdict)}</li>" for verdict in together(report.table["warnings"]))
    yield "</ul>"


def _levels(report: Report) -> Iterator[str]:
    yield "<h2>Three levels of evidence</h2>"
    rows = []
    for level, claim, state in levels(report.table):
        kind = "met" if state.startswith("played") else "unplayed"
        state_html = code(state)
        name = f"{escape(claim)}<small>{escape(ABOUT.get(claim, LEVELS[level]))}</small>"
        head = f"<th scope='row'>{level}</th><td class='words'>{name}</td>"
        rows.append(f"<tr>{head}<td class='words {kind}'>{state_html}</td></tr>")
    yield table(("level", "<what it is", "<in this report"), rows)


def _foot(report: Report) -> Iterator[str]:
    run = report.table["run"]
    commit = f"commit <code>{escape(str(run.get('git') or 'unknown'))}</code>"
    yield (
        f"<footer><p>Version {escape(run['version'])}, {commit}. Tokens in"
        f" {escape(run['tokenizer'])}"
    )
    yield f"({escape(run['counting'])}). Ledger <code>{run['ledger']}</code>, configuration"
    yield (
        f"<code>{run['config']}</code>.</p><p>Dollars: {escape(' '.join(summary.price_list()))}</p>"
    )
    yield "<p>To check: <code>brain-suite verify DIR/report.json</code> makes every"
    yield (
        "number again from the ledger, and those of retrieval from the conversations. The"
        " same seeds give the"
    )
    yield "same ledger, to the byte, on any machine.</p></footer>"
