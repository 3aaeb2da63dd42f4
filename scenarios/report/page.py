"""report.html: one page that holds everything it needs: no script, no network, light and dark. Text
in, text out.

What it says stands in the report already; `pictures` decides what is drawn, `page.css` what it
looks like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from scenarios.measure.findings import Table
from scenarios.measure.meanings import meaning
from scenarios.measure.retrieval import COMPARABLE
from scenarios.report import pictures, summary
from scenarios.report.markdown import (
    COLUMNS,
    RETRIEVED,
    UNIT_COLUMNS,
    UNITS_TOLD,
    retrieval_rows,
    unit_rows,
)
from scenarios.report.pictures import Picture
from scenarios.report.recorded import RETRIEVAL
from scenarios.report.report import LEVELS, ONLY_CHANCE, Report
from scenarios.report.words import (
    amount,
    cells,
    figure,
    levels,
    measured,
    others,
    parameters,
    pays,
    percent,
    together,
)

HEADS = {
    "tokens": "tokens", "net_saving": "saved", "task_success": "done right", "co_memory": "C ÷ W",
    "co_plan": "P ÷ W",
    "co_task": "(C+P) ÷ W", "co_total": "(C+P) ÷ T", "co_ref": "(C+P) ÷ W iso.",
    "co_memory_unique": "C ÷ W, unique",
    "usd": "dollars", "usd_automatic": "dollars, automatic cache", "usd_saving": "dollars saved",
    "tokens_per_success": "tokens per task", "redundancy": "found twice", "needed_recall": "recall",
    "view_recall": "recall, view", "context_reduction": "not sent", "stale_after_delivery": "stale",
    "wake_latency": "wake",
}  # fmt: skip
ABOUT = {
    "retrieval": (
        "search in recorded conversations: how much of the evidence for a question is"
        " found"
    )
}
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
    style = (resources.files("scenarios.report") / "page.css").read_text(
        encoding="utf-8"
    )
    drawn = list(pictures.of(report))
    sections = (
        _top(report),
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


def _top(report: Report) -> Iterator[str]:
    run = report.table["run"]
    yield f'<header><span class="level">{run["level"]} · {_short(LEVELS[run["level"]])}</span>'
    yield "<h1>What coordination costs, and what it saves</h1>"
    yield f'<p class="lede">{escape(summary.sentence(report.table))}</p>'
    yield f'<ul class="tiles">{"".join(_tile(*tile) for tile in _tiles(report))}</ul></header>'
    yield from _compared(report.table)
    if run["level"] == "L0":
        yield f'<p class="note">{escape(ONLY_CHANCE)}</p>'
    if source := measured(run):
        yield f'<p class="note">{escape(source)}</p>'
    drawn = list(pictures.headlines(report))
    if drawn:
        yield "<h2>The product beside its rivals, on the same seeds</h2><div class='charts'>"
        yield from map(_figure, drawn)
        yield "</div>"
    if report.table["against"]:
        rows = [
            f"<tr><th scope='row'>{escape(name)}</th><td class='words'>{escape(agents)}</td>"
            f"{''.join(f'<td>{_saving(tile)}</td>' for tile in row)}</tr>"
            for name, agents, *row in map(summary.cells, report.table["against"])
        ]
        scenario, agents, *heads = summary.HEAD
        yield _table((scenario, f"<{agents}", *heads), rows)
        yield f"<p class='soft'>{escape(summary.meant(report.table))}</p>"


def _saving(text: str) -> str:
    """A cell of the table, with the rival below what is saved beside it."""
    value, _, rival = text.partition("] v ")
    return (
        f"{escape(value)}]<small>v {escape(rival)}</small>" if rival else escape(text)
    )


def _compared(table: Table) -> Iterator[str]:
    """Yield what was compared with what: every arm, by its kind."""
    yield "<h2>What is compared with what</h2><div class='kinds'>"
    for description, arms in summary.arms(table):
        kind, _, details = description.partition(": ")
        small = f"<small>{escape(details)}</small>" if details else ""
        rows = "".join(
            f"<dt><code>{escape(arm)}</code></dt><dd>{escape(names)}</dd>"
            for arm, names in arms
        )
        title = escape(kind[0].upper() + kind[1:])
        yield f"<section><h3>{title}{small}</h3><dl>{rows}</dl></section>"
    yield "</div>"
    sentences = list(summary.equals(table))
    if sentences:
        yield (
            f"<ul class='plain"
            f" soft'>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
        )


def _short(text: str) -> str:
    return escape(text.partition(":")[0])


def _tiles(report: Report) -> Iterator[tuple[str, str]]:
    rows = summary.headline(report.table)
    for row in [
        item
        for item in rows
        if item["best"] and (len(rows) == 1 or item["scenario"] == pictures.MAIN)
    ]:
        best, cheapest, figures = row["best"], row["best_usd"], row["figures"]
        location = f"{row['scenario']}, {row['agents']} agents"
        for unit, rival in (("tokens", best), ("usd", cheapest)):
            comparison = row["beside"][rival][unit]
            description = (
                f"{'dollars' if unit == 'usd' else unit}"
                f" {'fewer' if comparison['value'] >= 0 else 'more'} than {rival}"
            )
            yield (
                percent(abs(comparison["value"])),
                f"{description} {summary.ends(comparison)}; {location}",
            )
        if "co_task" in figures:
            memory = percent(figures["co_memory"]["value"])
            yield (
                percent(figures["co_task"]["value"]),
                f"all coordination ÷ task, of which memory {memory}; {location}",
            )
    judged = [
        item["met"] for item in report.table["verdicts"] if item["met"] is not None
    ]
    yield f"{sum(judged)} of {len(judged)}", "thresholds met"
    yield (
        f"{report.table['run']['runs']:,}",
        f"runs of {len(report.study.scenarios)} scenario{'s' * (len(report.study.scenarios) != 1)}",
    )


def _tile(value: str, what: str) -> str:
    return f"<li><b>{escape(value)}</b><span>{escape(what)}</span></li>"


# -- Verdicts --------------------------------------------------------------------------


def _gates(report: Report) -> Iterator[str]:
    if not report.table["verdicts"]:
        return
    yield "<h2>What was expected, and what came</h2>"
    yield "<p class='soft'>Thresholds stand in the scenario's file, before anything is played.</p>"
    for scenario in report.study.scenarios:
        verdicts = [
            verdict
            for verdict in report.table["verdicts"]
            if verdict["scenario"] == scenario
        ]
        if verdicts:
            yield from _judged(report.table["scenarios"][scenario], scenario, verdicts)


def _judged(told: Table, scenario: str, verdicts: Sequence[Table]) -> Iterator[str]:
    """A scenario's thresholds, why it is judged with these parameters, and what the others come
    to.
    """
    yield f"<h3 class='group'>{escape(scenario)}</h3>"
    if told["headline"]:
        yield (
            f"<p class='soft'>Judged at {escape(parameters(told['params']))}."
            f" {escape(told['headline'])}</p>"
        )
    yield _table(
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
            not outcome["met"]
            for verdict in verdicts
            for outcome in verdict["cells"].values()
        )
        yield f"<details class='cells'><summary>{others(len(rows))} of its grid"
        yield f"<small>{beyond} figure{'s' * (beyond != 1)} beyond a limit</small></summary>"
        yield "<p class='soft'>By these nothing is judged. ✗: beyond the limit. n: runs.</p>"
        yield _table(("cell", *(verdict["gate"] for verdict in verdicts)), rows)
        yield "</details>"


def _cell(metric: str, found: Table | None) -> str:
    if found is None:
        return "<td>–</td>"
    value = (
        f"{escape(amount(metric, found['value']))}<small>{_between(metric, found)} n"
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
    value = _value(each["metric"], {each["metric"]: each}) if "value" in each else "–"
    runs = f"{each['runs_met']} of {each['n']}" if "value" in each else "–"
    return (
        f"<td class='{kind}'>{escape(status)}</td><td"
        f" class='words'><code>{escape(each['gate'])}</code>{fragile}</td>"
        f"<td>{value}</td><td>{runs}</td>"
    )


def _table(head: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """A table that scrolls where it is too wide. What begins with `<` heads a column of words."""
    cells = ""
    for column in head:
        kind_of_cell = " class=words" if column.startswith("<") else ""
        cells += f"<th scope='col'{kind_of_cell}>{escape(column.lstrip('<'))}</th>"
    table = f"<table class='{kind}'>" if kind else "<table>"
    body = "".join(rows)
    return (
        f"<div class='scroll'>{table}<thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


# -- Charts ----------------------------------------------------------------------------


def _charts(drawn: Sequence[Picture]) -> Iterator[str]:
    yield "<h2>The curves</h2><div class='charts'>"
    for picture in drawn:
        if picture.drawing:
            yield _figure(picture)
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


def _figure(each: Picture) -> str:
    legend = "".join(
        f"<li><i style='background:var(--c{colour})'></i>{escape(name)}</li>"
        for name, colour in each.legend
    )
    listed = f"<ul class='legend'>{legend}</ul>" if legend else ""
    return (
        f"<figure><h3>{escape(each.title)}</h3>{each.drawing}{listed}"
        f"<figcaption><p>{escape(each.told)}</p></figcaption></figure>"
    )


def _pays(report: Report) -> Iterator[str]:
    rows = report.table["break_even"]
    if rows:
        yield "<h2>From where on memory pays</h2><ul class='plain'>"
        yield from (
            f"<li>{escape(row['scenario'])}: {escape(pays(row))}</li>" for row in rows
        )
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
        yield _table(
            ("", "questions", *retrieved["figures"]),
            map(_row, retrieval_rows(retrieved)),
        )
        yield f"<p class='soft'>{escape(UNITS_TOLD)} {escape(COMPARABLE)}</p>"
        yield _table(UNIT_COLUMNS, map(_row, unit_rows(retrieved)))


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
    rows = {
        arm: report.table["metrics"][report.study.key(scenario, base, arm)]
        for arm in arms
    }
    meant: list[str] = []
    for title, names in PARTS.items():
        columns = [name for name in names if any(name in row for row in rows.values())]
        if columns:
            lines = list(_by_kind(report, scenario, rows, columns))
            yield _table((title, "n", *map(_head, columns)), lines)
        meant += [
            f"<dt>{escape(_head(name))}</dt><dd>{escape(meaning(name))}</dd>"
            for name in columns
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
                arm,
                len(report.study.of(scenario, arm)),
                rows[arm],
                columns,
                kind == "product",
            )


def _arm(arm: str, n: int, row: Table, columns: Sequence[str], strong: bool) -> str:
    cells = "".join(f"<td>{_value(name, row)}</td>" for name in columns)
    return (
        f"<tr{' class=gated' * strong}><th"
        f" scope='row'>{escape(arm)}</th><td>{n}</td>{cells}</tr>"
    )


def _head(name: str) -> str:
    return HEADS.get(name, name.replace("_", " "))


def _value(name: str, row: Table) -> str:
    if name not in row:
        return "–"
    return f"{escape(amount(name, row[name]['value']))}{_ends(name, row[name])}"


def _ends(name: str, told: Table) -> str:
    between = _between(name, told)
    return f"<small>{between}</small>" if between else ""


def _between(name: str, told: Table) -> str:
    lo, hi = amount(name, told["lo"]), amount(name, told["hi"])
    return f"[{escape(lo)}, {escape(hi)}]" if lo != hi else ""


def _beside(report: Report, scenario: str) -> str:
    rows = [
        _pair(row) for row in report.table["comparisons"] if row["scenario"] == scenario
    ]
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
    return _table(head, rows)


def _pair(each: Table) -> str:
    worse = (
        "<span class='met'>yes</span>"
        if each["no_worse"]
        else "<span class='missed'>no</span>"
    )
    fragile = (
        f"<span class='fragile'>{escape(', '.join(each['flips']))}</span>"
        if each["flips"]
        else "no"
    )
    p = "&lt; 0.001" if each["p_holm"] < 0.001 else f"{each['p_holm']:.3f}"
    saved = figure("net_saving", each["saving"])
    return (
        f"<tr><th"
        f" scope='row'>{escape(each['arm'])}</th><td>{each['n']}</td><td>{saved}</td><td>{p}</td>"
        f"<td>{each['success_difference'] * 100:+.1f}"
        f" points</td><td>{worse}</td><td>{fragile}</td></tr>"
    )


# -- What else a reader has to know ----------------------------------------------------


def _missed(report: Report) -> Iterator[str]:
    missed = [
        verdict for verdict in report.table["verdicts"] if verdict["met"] is False
    ]
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
            f"; {verdict['runs_met']} of {verdict['n']} runs meet it"
            if "value" in verdict
            else ""
        )
        text = f"{verdict['scenario']}, {verdict['arm']}: {verdict['gate']} {came}{runs_met}"
        yield f"<li class='missed'>{escape(text)}</li>"
    yield from (
        f"<li>{escape(verdict)}</li>" for verdict in together(report.table["warnings"])
    )
    yield "</ul>"


def _levels(report: Report) -> Iterator[str]:
    yield "<h2>Three levels of evidence</h2>"
    rows = []
    for level, claim, state in levels(report.table):
        kind = "met" if state.startswith("played") else "unplayed"
        state_html = _code(state)
        name = (
            f"{escape(claim)}<small>{escape(ABOUT.get(claim, LEVELS[level]))}</small>"
        )
        head = f"<th scope='row'>{level}</th><td class='words'>{name}</td>"
        rows.append(f"<tr>{head}<td class='words {kind}'>{state_html}</td></tr>")
    yield _table(("level", "<what it is", "<in this report"), rows)


def _code(text: str) -> str:
    """Words with commands in back quotes."""
    return "".join(
        f"<code>{escape(piece)}</code>" if at % 2 else escape(piece)
        for at, piece in enumerate(text.split("`"))
    )


def _foot(report: Report) -> Iterator[str]:
    run = report.table["run"]
    commit = f"commit <code>{escape(str(run.get('git') or 'unknown'))}</code>"
    yield (
        f"<footer><p>Version {escape(run['version'])}, {commit}. Tokens in"
        f" {escape(run['tokenizer'])}"
    )
    yield f"({escape(run['counting'])}). Ledger <code>{run['ledger']}</code>, configuration"
    yield (
        f"<code>{run['config']}</code>.</p><p>Dollars:"
        f" {escape(' '.join(summary.price_list()))}</p>"
    )
    yield "<p>To check: <code>brain-suite verify DIR/report.json</code> makes every"
    yield (
        "number again from the ledger, and those of retrieval from the conversations. The"
        " same seeds give the"
    )
    yield "same ledger, to the byte, on any machine.</p></footer>"
